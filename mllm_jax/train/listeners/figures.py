"""The figures of a run, from the events of the loop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

from data.loading.loader import Microbatch
from data.planning.groups.group import WHOLE, Group
from mllm_jax.config.configured_step import lower
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.module import compute_dtype, model_flops
from mllm_jax.runtime.hardware.peak import peak
from mllm_jax.train.events import (
    Copying,
    Done,
    Evaluated,
    Event,
    Placed,
    Read,
    Saving,
    Taken,
    Timed,
)
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.feed.groups import records_of_all
from mllm_jax.train.listeners.notices import Idle, Spilling, Waiting
from mllm_jax.train.records.evaluation_figures import figures_of
from mllm_jax.train.records.metrics import Meter, PhaseLoad, StepRecord, over_microbatches
from mllm_jax.train.records.sinks import Metrics
from mllm_jax.train.state.progress import Progress
from scheduling.simulate.timeline import timeline


class Recording:
    """Makes the record of each step of an experiment, if it hears all of its events."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._spent: defaultdict[type[Event], float] = defaultdict(float)
        self._units: Mapping[str, int] = {}
        self._spilled = False

    def __call__(self, event: Event) -> None:
        """Note the seconds of an event, and the encoders' own microbatches of a step."""
        if isinstance(event, Timed):
            self._spent[type(event)] += event.seconds
        if isinstance(event, Placed):
            self._units, self._spilled = event.units, bool(event.spilled)

    def record(self, taken: Taken) -> StepRecord:
        """The record of the last step, with the events since the step before."""
        config, spent = self._experiment.config, self._spent
        self._spent = defaultdict(float)
        frozen, microbatches = config.frozen, taken.microbatches
        stats = [microbatch.stats for microbatch in microbatches]
        parts = tuple(_loads(self._experiment, microbatch) for microbatch in microbatches)
        group = next((own.group for own in stats), WHOLE)
        used = _summed([own.used for own in stats])
        capacity = _summed([computed(own.used, own.capacity) for own in stats])
        of_units = computed(used, positions_of_units(self._experiment, self._units, group))
        return StepRecord(
            step=taken.step,
            loss=taken.loss,
            learning_rate=taken.learning_rate,
            gradient_norm=taken.gradient_norm,
            seconds=taken.seconds,
            wait_seconds=spent[Read],
            place_seconds=spent[Placed],
            device_wait_seconds=spent[Done],
            used=used,
            capacity=capacity | of_units,
            units=self._units,
            spilled=self._spilled,
            flops=sum(model_flops(config.model, own.lengths, frozen) for own in stats),
            head_flops=model_flops(config.model, {}, frozen, targets=1),
            targets=taken.scalars["targets"],
            aux=taken.aux,
            trust_ratios=taken.trust_ratios,
            expert_layers=config.model.decoder.layers_with_experts,
            expert_loads=taken.expert_loads,
            expert_ranks=config.parallel.decoder.expert,
            skips=self._experiment.step.skips,
            skipped=taken.skipped,
            loads=over_microbatches(parts),
            moved_bytes=sum(_moved_bytes(config.model, m) for m in microbatches),
            planning_seconds=sum(own.seconds for own in stats),
            parts=parts,
            group=group,
        )


class Figures:
    """Listens: log line, `metrics.jsonl`, TensorBoard, and what progress and summary say of them.

    Args:
        progress: progress of the run, whose `loss` and `figures` are updated.
        metrics: receiver of the figures.

    Attributes:
        record: record of the step that was taken last.
    """

    record: StepRecord

    def __init__(self, experiment: Experiment, progress: Progress, metrics: Metrics) -> None:
        config, self._progress, self._metrics = experiment.config, progress, metrics
        self._recording, self._waiting = Recording(experiment), Waiting(config.data)
        self._spilling, self._idle = Spilling(), Idle(progress.step, config.train.steps)
        self._meter = Meter(
            config.train.steps,
            _peak(experiment, progress),
            config.run.log_every,
            progress.figures,
            records_of_all,
            progress.window,
        )
        self._pipeline = pipeline_figures(experiment)
        if self._pipeline:
            named = {f"pipeline/{name}": value for name, value in self._pipeline.items()}
            metrics.log(progress.step, named)

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case Taken():
                self._take(event)
            case Saving() | Copying():
                self._progress.figures = self._meter.sums
                self._progress.window = self._meter.since_report
            case Evaluated():
                self._metrics.log(event.step, figures_of(event.result))
            case _:
                self._recording(event)
                self._spilling(event)

    def _take(self, taken: Taken) -> None:
        self.record = self._recording.record(taken)
        report = self._meter.add(self.record)
        self._idle(taken, over=report is not None)
        if report:
            self._metrics.write(report)
            self._waiting(report)
            self._progress.loss = report.loss

    def summary(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The content of `summary.json`.

        Args:
            result: result of the evaluation after the last step.
        """
        progress = self._progress
        return {
            "steps": progress.step,
            "seconds": progress.seconds,
            "final_loss": progress.loss,
            **result,
            **self._meter.totals(),
            "peak_flops": self._meter.peak_flops,
            "skipped_updates": progress.skipped_updates,
            "skipped": progress.skipped.summary(),
            **({"pipeline": self._pipeline} if self._pipeline else {}),
        }


def pipeline_figures(experiment: Experiment) -> dict[str, float]:
    """Predictions of the pipeline's schedule; empty without a pipeline.

    Returns:
        `bubble_share`, the share of the devices' time that is idle; `encoder_hidden`, the share of
        the encoders' work that lies in time which the decoder leaves idle; `tick_imbalance`, the
        step's time over what it would be if the stages that work in a tick all took as long.
    """
    schedule = experiment.step.program.schedule
    if schedule is None:
        return {}
    costs = lower(experiment.config).costs
    line = timeline(schedule, costs)
    figures = {"bubble_share": line.bubble_share, "tick_imbalance": line.tick_imbalance}
    hidden = line.encoder_hidden
    return figures if hidden is None else figures | {"encoder_hidden": hidden}


def computed(used: Mapping[str, int], capacity: Mapping[str, int]) -> dict[str, int]:
    """By budget, the positions of `capacity` that are computed: none of a lane without samples.

    The decoder's rows are computed whatever they hold.
    """
    return {name: n if name == "tokens" or used.get(name) else 0 for name, n in capacity.items()}


def positions_of_units(
    experiment: Experiment, units: Mapping[str, int], group: Group = WHOLE
) -> dict[str, int]:
    """By encoder, the positions that a step computes in so many independent microbatches.

    Args:
        group: the hosts of whose rows the positions are.
    """
    follow, rows = experiment.step.program.follow, experiment.config.data.rows // group.count
    rooms = follow.capacities if follow else {}
    return {
        name: count * rows * rooms[name].spread * rooms[name].positions
        for name, count in units.items()
    }


def _summed(counts: Sequence[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for own in counts:
        total.update(own)
    return total


def _moved_bytes(model: ModelConfig, microbatch: Microbatch) -> float:
    """Bytes between hosts: encoder outputs, their gradients, and samples read for another host."""
    outputs = sum(microbatch.stats.crossing.values())
    width = model.decoder.d_model * (1 + model.layer_inputs) * compute_dtype(model).itemsize
    return 2 * outputs * width + microbatch.stats.sent


def _loads(experiment: Experiment, microbatch: Microbatch) -> dict[str, PhaseLoad]:
    """Work of the ranks that each phase is dealt over; of the ranks of a row, if it is spread."""
    loads: dict[str, PhaseLoad] = {}
    for name, view in experiment.step.program.views.items():
        ranks, own = view.degree(view.batch) // microbatch.stats.group.count, microbatch.stats.loads
        packed, balanced = (
            rows.reshape(gcd(ranks, len(rows)), -1).sum(1)
            for rows in (own[name].before, own[name].after)
        )
        loads[name] = PhaseLoad(float(packed.mean()), float(packed.max()), float(balanced.max()))
    return loads


def _peak(experiment: Experiment, progress: Progress) -> float | None:
    """Peak FLOP/s of all devices: the one that `progress` keeps, while these are the same."""
    devices = list(experiment.mesh.devices.flat)
    found = peak(devices[0])
    if found is None:
        return None
    if progress.peak is None or progress.peak.of != found.of:
        progress.peak = found
    return progress.peak.of_device(devices[0]) * len(devices)
