"""Orders of tasks on every stage, without ticks, and what each task waits for.

This is how asynchronous pipelines work, Megatron-LM's for one: a stage runs its tasks in order, and
waits for data only. `benchmarks.systems.asynchronous` gives the times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import BACKBONE, Consumers, FusedTask, ModuleStages, Task

#: A task on its stage.
StageTask = tuple[int, Task]
#: `[stages]`, the fused tasks of each in the order in which it runs them.
Orders = tuple[tuple[FusedTask, ...], ...]


def megatron_orders(stages: int, chunks: int, microbatches: int) -> Orders:
    """1F1B, with virtual chunks interleaved, in the order of Megatron-LM.

    After Narayanan et al., arXiv 2104.04473, section 2.2: stage s begins with 2 (P - s - 1) +
    (V - 1) P forwards, with one chunk with P - s - 1, then forwards and backwards alternate.
    Microbatches go through the chunks in groups of P.

    >>> first, last = megatron_orders(stages=2, chunks=1, microbatches=2)
    >>> [str(task) for fused_task in first for task in fused_task]
    ['decoder F(0, 0)', 'decoder F(1, 0)', 'decoder B(0, 0)', 'decoder B(1, 0)']

    Raises:
        ScheduleError: a size is below 1, or chunks are interleaved and the stages do not divide
            the microbatches.
    """
    sizes = {"stages": stages, "chunks": chunks, "microbatches": microbatches}
    for name, size in sizes.items():
        if size < 1:
            raise ScheduleError(f"{name}: {size} is refused; valid: 1 or more")
    if chunks > 1 and microbatches % stages:
        raise ScheduleError(
            f"microbatches: {microbatches} cannot be interleaved over {stages} stages; valid: "
            f"multiples of {stages}, or 1 chunk"
        )
    forwards = [_forward_at(k, stages, chunks) for k in range(microbatches * chunks)]
    return tuple(
        tuple(
            _alternate_tasks(stage, stages, forwards, warm_up(stages, chunks, microbatches, stage))
        )
        for stage in range(stages)
    )


def _forward_at(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """Microbatch and chunk of forward number k of a stage."""
    group, place = divmod(k, stages * chunks)
    return group * stages + place % stages, place // stages


def warm_up(stages: int, chunks: int, microbatches: int, stage: int) -> int:
    """Number of forwards of a stage before its first forward that a backward follows."""
    if chunks == 1:
        return min(stages - stage - 1, microbatches)
    if microbatches == stages:
        return microbatches * chunks
    return min(2 * (stages - stage - 1) + (chunks - 1) * stages, microbatches * chunks)


def _alternate_tasks(
    stage: int, stages: int, forwards: list[tuple[int, int]], warm_up: int
) -> Iterator[FusedTask]:
    """Warm-up forwards, then forwards and backwards in turn, then the remaining backwards."""
    last = max(loop for _, loop in forwards)
    for k in range(warm_up + len(forwards)):
        if k < len(forwards):
            microbatch, loop = forwards[k]
            yield (Task(F, BACKBONE, microbatch, loop * stages + stage),)
        if k >= warm_up:
            microbatch, loop = forwards[k - warm_up]
            yield (Task(B, BACKBONE, microbatch, (last - loop) * stages + stage),)


def exchanged_in_pairs(orders: Orders) -> StageOrders:
    """Interleaved 1F1B whose stages exchange once for each forward and the backward after it.

    The results of both are sent together when the backward is done, and the inputs of the next two
    arrive at the same time, so that the next forward also waits for the gradient of its backward:
    so do interleaved schedules of Megatron-LM with `overlap_p2p_comm` off. The slowest stage of a
    round delays one stage after another.
    """
    plain = StageOrders(orders)
    pairs = {
        (stage, forward): (stage, backward)
        for stage, order in enumerate(orders)
        for forward, backward in _alternating_pairs([task for (task,) in order])
    }
    after: dict[StageTask, tuple[StageTask, ...]] = {}
    for stage, task in plain:
        backward = pairs.get((stage, task))
        needs = [
            *plain.dependencies(stage, task),
            *(plain.dependencies(*backward) if backward else ()),
        ]
        others = (pairs.get(need, need) for need in needs if need[0] != stage)
        after[stage, task] = tuple(dict.fromkeys(others))
    return StageOrders(orders, after)


def _alternating_pairs(order: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Pairs of forwards and backwards that alternate; none if all forwards come first."""
    forwards = [task.kind.forward for task in order]
    if forwards == sorted(forwards, reverse=True):
        return
    for first, second in pairwise(order):
        if (first.kind, second.kind) == (F, B):
            yield first, second


@dataclass(frozen=True)
class StageOrders:
    """A step without ticks.

    Attributes:
        orders: fused tasks of each stage in order. Tasks of one fused task are co-issued, and begin
            when all of them can. Tasks of other modules than the backbone may stand anywhere.
        after: additional tasks that a task waits for. Without it a task waits for what its kind
            says (`scheduling.schedules.task_kinds`).
        feeds: by module, what its microbatches feed, see `Feed.consumers`; microbatch for
            microbatch of those that are not named.
        encoder_stages: number of the last orders, those of devices that run encoders alone and are
            no stages of the decoder.
        name: name of the backbone.
    """

    orders: Orders
    after: Mapping[StageTask, tuple[StageTask, ...]] = field(default_factory=dict)
    feeds: Mapping[str, Consumers] = field(default_factory=dict)
    encoder_stages: int = 0
    name: str = BACKBONE

    @property
    def stages(self) -> int:
        """Stages of the decoder."""
        return len(self.orders) - self.encoder_stages

    @cached_property
    def stages_of(self) -> Mapping[Task, tuple[int, ...]]:
        """Stages on which a task stands."""
        stages: dict[Task, tuple[int, ...]] = {}
        for stage, task in self:
            stages[task] = (*stages.get(task, ()), stage)
        return stages

    def __iter__(self) -> Iterator[StageTask]:
        """All tasks, by stage and order."""
        for stage, order in enumerate(self.orders):
            for fused_task in order:
                for task in fused_task:
                    yield stage, task

    @cached_property
    def chunks(self) -> int:
        """Virtual chunks of a stage of the backbone."""
        last = max((task.chunk for _, task in self if task.module == self.name), default=0)
        return 1 + last // self.stages

    @cached_property
    def microbatches(self) -> int:
        """Microbatches of the backbone."""
        numbers = (task.microbatch for _, task in self if task.module == self.name)
        return 1 + max(numbers, default=0)

    @cached_property
    def modules(self) -> Mapping[str, int]:
        """The other modules and the number of their chunks."""
        chunks: dict[str, int] = {}
        for task in self.stages_of:
            if task.module != self.name:
                chunks[task.module] = max(chunks.get(task.module, 0), task.chunk + 1)
        return chunks

    @cached_property
    def backbone(self) -> ModuleStages:
        """How the work of the backbone is divided."""
        chunks = self.stages * self.chunks
        return ModuleStages(self.name, self.stages, chunks, looped=True, shared_ends=True)

    def backbone_only(self) -> StageOrders:
        """The step without tasks of other modules and without waiting for them."""
        orders = tuple(
            tuple(
                orders_left
                for fused_task in order
                if (orders_left := tuple(task for task in fused_task if task.module == self.name))
            )
            for order in self.orders
        )
        ordered = set(replace(self, orders=orders))
        after = {
            task: tuple(other for other in others if other in ordered)
            for task, others in self.after.items()
            if task in ordered
        }
        return replace(self, orders=orders, after=after)

    def dependencies(self, stage: int, task: Task) -> Iterator[StageTask]:
        """The tasks that `task` on `stage` waits for."""
        yield from self.after.get((stage, task), ())
        kind = task.kind
        if kind.same_chunk is not None:
            yield stage, task._replace(kind=kind.same_chunk)
        if not kind.passes:
            return
        before = task.chunk + (-1 if kind.forward else 1)
        if not 0 <= before < self._chunks_of(task.module):
            yield from self._entry_needs(task)
        elif task.module == self.name:
            yield before % self.stages, task._replace(chunk=before)
        else:
            yield from self._stages_with(task._replace(chunk=before))

    def _chunks_of(self, module: str) -> int:
        return self.backbone.chunks if module == self.name else self.modules[module]

    def _entry_needs(self, task: Task) -> Iterator[StageTask]:
        """The tasks that the first task of its kind and microbatch waits for."""
        if not task.kind.forward:
            first = last = task.microbatch
            kind, chunk = F, self.backbone.chunks - 1
            if task.module != self.name:
                kind, chunk = task.kind, 0
                if task.module in self.feeds:
                    first, last = self.feeds[task.module][task.microbatch]
            stage = chunk % self.stages
            yield from ((stage, Task(kind, self.name, m, chunk)) for m in range(first, last + 1))
        elif task.module == self.name:
            for name, chunks in self.modules.items():
                for number in self._feeding_microbatches(name, task.microbatch):
                    yield from self._stages_with(Task(task.kind, name, number, chunks - 1))

    def _feeding_microbatches(self, name: str, microbatch: int) -> list[int]:
        """Microbatches of a module that feed one of the backbone's."""
        if name not in self.feeds:
            return [microbatch]
        feeds = enumerate(self.feeds[name])
        return [number for number, (first, last) in feeds if first <= microbatch <= last]

    def _stages_with(self, task: Task) -> Iterator[StageTask]:
        return ((stage, task) for stage in self.stages_of.get(task, ()))
