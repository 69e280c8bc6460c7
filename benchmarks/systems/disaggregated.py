"""Encoders and decoder on devices of their own, as disaggregated training runs them.

All layers of the encoders run on their devices, data and tensor parallel, microbatch by microbatch
for all pipelines of the decoder, whose stages have the other devices. Two stages of the decoder, E
the encoders' devices, e = their forward, b = their backward::

    stage 0       F0 F1 B0 F2 ..
    stage 1          F0 B0 F1 ..
    E          e0 e1 e2    b0 e3 ..

Forwards go `ahead` of the first backward as far as is fastest with the memory there is. After each
task the encoders' devices stop to exchange, as long as a stage of the decoder does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchmarks.systems.asynchronous import OrderTimes, run_order, seconds_of_cases
from benchmarks.systems.chain import (
    BaselineStep,
    LayerChain,
    decoder_alone,
    even_seconds,
    stopped_seconds,
)
from benchmarks.systems.loads import UnevenLoads
from benchmarks.systems.memory import state_bytes
from benchmarks.systems.orders import StageOrders
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.memory import layer_residual_bytes, residual_bytes
from scheduling.costs.times import TaskTime
from scheduling.costs.workload import Workload
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.tasks import FusedTask, Task
from scheduling.simulate.simulation import Simulation, SimulationOptions, StepRun
from sharding.plan import ParallelPlan

#: Name of all encoders together in the simulated order.
ENCODERS = "encoders"


@dataclass(frozen=True)
class DisaggregatedSystem:
    """A step with encoders on devices of their own.

    Attributes:
        chain: the decoder's; its plan has the decoder's devices only.
        plan: plan of the encoders on their devices: data and tensor.
        in_flight: forwards of the encoders before their first backward.
    """

    chain: LayerChain
    plan: ParallelPlan
    in_flight: int

    def with_workload(
        self, workload: Workload, uneven: UnevenLoads | None = None
    ) -> DisaggregatedSystem:
        """The same plans for another workload of the same model."""
        return replace(self, chain=self.chain.with_workload(workload, uneven))

    @cached_property
    def decoder_step(self) -> BaselineStep:
        """The decoder's step, as if its inputs were always there."""
        return decoder_alone(self.chain)

    @cached_property
    def timings(self) -> list[ModuleTiming]:
        """Timings of the encoders on their devices."""
        chain, plans = self.chain, {self.chain.backbone_name: self.plan}
        strategy = replace(chain.strategy, plans=plans).with_source_chunks({})
        return [
            chain.timing_of(replace(strategy, plans=plans | {name: self.plan}), name)
            for name in chain.workload.sources
        ]

    @cached_property
    def encoder_forward(self) -> TaskTime:
        """All encoders' forward of one microbatch of all pipelines."""
        return _join_tasks([timing.forward_time(timing.profile.layers) for timing in self.timings])

    @cached_property
    def encoder_backward(self) -> TaskTime:
        """The backward of the same."""
        return _join_tasks(
            [self.chain.backward_time(timing, timing.profile.layers) for timing in self.timings]
        )

    @property
    def least_seconds(self) -> float:
        """Seconds that the step takes at least.

        The decoder's pipeline, even as it can be, between the first forward and the last backward
        of the encoders; or all of the encoders' work.
        """
        each = self.encoder_forward.seconds + self.encoder_backward.seconds
        work = self.chain.strategy.microbatches * each
        return max(self.alone_bound + each, work)

    @cached_property
    def alone_bound(self) -> float:
        """Seconds of the decoder's even pipeline."""
        return even_seconds(self.chain, self.chain.decoder_layers) + stopped_seconds(self.chain)

    @cached_property
    def memory(self) -> float:
        """Bytes of the device that needs most, of the decoder's or the encoders'."""
        return max(
            self.decoder_step.memory, sum(self._encoder_bytes(timing) for timing in self.timings)
        )

    def _encoder_bytes(self, timing: ModuleTiming) -> float:
        """Bytes of one encoder's state, waiting activations and work."""
        layers, plan = timing.profile.layers, self.plan
        full = timing.remat == "full"
        each = timing.activation_bytes / plan.tensor if full else residual_bytes(timing, layers)
        again = {"none": 0.0, "layer": 1.0, "full": float(layers)}[timing.remat]
        state = (
            state_bytes(timing)
            * (timing.profile.parameters if timing.holds_parameters else 0)
            / plan.tensor
        )
        return state + self.in_flight * each + again * layer_residual_bytes(timing)

    @cached_property
    def step(self) -> StepRun:
        """The simulated step.

        Raises:
            ScheduleError: encoders and decoder wait for each other, as too few forwards go ahead.
        """
        options = SimulationOptions(co_issue=False, replicas=self.chain.strategy.backbone.batch)
        return run_order(self._all_orders(), self._task_times(), options)

    def _all_orders(self) -> StageOrders:
        """The orders of the decoder's stages, then that of the encoders."""
        order = self.decoder_step.order
        return StageOrders((*order.orders, self._encoder_order()), order.after, encoder_stages=1)

    def _task_times(self) -> OrderTimes:
        """Times of all tasks."""
        times = self.chain.order_times(self.decoder_step.cuts, self.decoder_step.layers)
        of_encoders = {F: self.encoder_forward, B: self.encoder_backward}

        def task_time(task: Task, stage: int) -> TaskTime:
            return of_encoders[task.kind] if task.module == ENCODERS else times.time(task, stage)

        ends = zip(
            ("gather", "scatter", "update"), self.chain.end_seconds(self.timings), strict=True
        )
        longer = {name: max(getattr(times, name), seconds) for name, seconds in ends}
        return replace(times, time=task_time, **longer)

    def _encoder_order(self) -> tuple[FusedTask, ...]:
        """Forwards ahead, then backwards and forwards in turn."""
        count = self.chain.strategy.microbatches
        tasks = [Task(F, ENCODERS, m) for m in range(min(self.in_flight, count))]
        for m in range(count):
            tasks.append(Task(B, ENCODERS, m))
            if m + self.in_flight < count:
                tasks.append(Task(F, ENCODERS, m + self.in_flight))
        return tuple((task,) for task in tasks)

    @cached_property
    def seconds(self) -> float:
        """Seconds of the step; the mean of several whose rows are uneven.

        The encoders' devices share the media of a microbatch of all pipelines evenly.

        Raises:
            ScheduleError: as `step`.
        """
        uneven = self.chain.uneven
        if uneven is None:
            return self.step.makespan
        count, times = self.chain.strategy.microbatches, self._task_times()
        shares = {n: s[..., 0] for n, s in uneven.work_of(count, 1).items()}
        works = {F: self._seconds_by_encoder(F), B: self._seconds_by_encoder(B)}

        def task_seconds(task: Task, stage: int) -> np.ndarray:
            if task.module != ENCODERS:
                return np.full(uneven.steps, times.time(task, stage).seconds)
            work = works[task.kind]
            total: np.ndarray = sum(work[n] * s[task.microbatch] for n, s in shares.items())
            return total

        return float(seconds_of_cases(self._all_orders(), times, task_seconds).mean())

    def _seconds_by_encoder(self, kind: TaskKind) -> dict[str, float]:
        """Seconds of each encoder's forward, or backward, of one microbatch of all pipelines."""
        if kind.forward:
            return {
                timing.name: timing.forward_time(timing.profile.layers).seconds
                for timing in self.timings
            }
        return {
            timing.name: self.chain.backward_time(timing, timing.profile.layers).seconds
            for timing in self.timings
        }

    @property
    def simulation(self) -> Simulation:
        """The step in all its parts; the last stage is the encoders' devices."""
        return self.step.summarize()

    @property
    def compute_share(self) -> float:
        """Share of the devices' time in which they compute."""
        simulation, decoder = self.simulation, self.chain.strategy.backbone
        encoders = self.plan.devices
        busy = sum(use.compute for use in simulation.stages[:-1]) / decoder.stage * decoder.devices
        busy += simulation.stages[-1].compute * encoders
        return busy / (decoder.devices + encoders) / self.seconds


def _join_tasks(times: list[TaskTime]) -> TaskTime:
    """One task after the other."""
    return TaskTime(tuple(segment for time in times for segment in time.segments))
