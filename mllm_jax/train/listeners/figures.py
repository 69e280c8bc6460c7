"""The figures of a run, from the events of training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

from data.loading.loader import Microbatch
from data.planning.groups.group import WHOLE, HostGroupSpec
from mllm_jax.config.configured_step import configure_step
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import compute_dtype, model_flops
from mllm_jax.runtime.hardware.peak import device_peak
from mllm_jax.train.events import Event, Phase, StepEnded
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.notices import IdleParts, SlowData, UnfitSchedules
from mllm_jax.train.loading.groups import records_of_all
from mllm_jax.train.records.evaluation_figures import figures_of
from mllm_jax.train.records.metrics import FigureMeter
from mllm_jax.train.records.sinks import MetricSinks
from mllm_jax.train.records.step_record import PhaseLoad, StepRecord, sum_over_microbatches
from mllm_jax.train.state.progress import Progress
from scheduling.simulate.timeline import predict_timeline


class StepRecorder:
    """Makes the record of each step of an experiment from all of its events."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._independent: Mapping[str, int] = {}
        self._is_fallback = False

    def __call__(self, event: Event) -> None:
        """Note the seconds of a phase, and the independent microbatches of a step."""
        if isinstance(event, Phase) and event.seconds is not None:
            self._seconds[event.name] += event.seconds
            if event.name == "place":
                self._independent = event.result.microbatches
                self._is_fallback = bool(event.result.fallback_reason)

    def make_record(self, ended: StepEnded) -> StepRecord:
        """The record of the last step, with the phases since the step before."""
        config, seconds = self._experiment.config, self._seconds
        self._seconds = defaultdict(float)
        frozen, microbatches = config.frozen, ended.microbatches
        stats = [microbatch.stats for microbatch in microbatches]
        loads = tuple(_phase_loads(self._experiment, microbatch) for microbatch in microbatches)
        group = next((one.group for one in stats), WHOLE)
        used = _add_counts([one.used for one in stats])
        capacity = _add_counts([computed_positions(one.used, one.capacity) for one in stats])
        positions = independent_positions(self._experiment, self._independent, group)
        return StepRecord(
            step=ended.step,
            loss=ended.loss,
            learning_rate=ended.learning_rate,
            gradient_norm=ended.gradient_norm,
            seconds=ended.seconds,
            wait_seconds=seconds["read"],
            place_seconds=seconds["place"],
            device_wait_seconds=seconds["wait"],
            used=used,
            capacity=capacity | computed_positions(used, positions),
            independent_microbatches=self._independent,
            is_fallback=self._is_fallback,
            flops=sum(model_flops(config.model, one.lengths, frozen) for one in stats),
            head_flops=model_flops(config.model, {}, frozen, targets=1),
            targets=ended.targets,
            aux=ended.aux,
            trust_ratios=ended.trust_ratios,
            expert_layers=config.model.backbone_config.layers_with_experts,
            expert_loads=ended.expert_loads,
            expert_ranks=config.parallel.backbone_plan.expert,
            skips=self._experiment.step.skips,
            skipped=ended.skipped,
            loads=sum_over_microbatches(loads),
            moved_bytes=sum(_moved_bytes(config.model, m) for m in microbatches),
            planning_seconds=sum(one.seconds for one in stats),
            microbatch_loads=loads,
            group=group,
        )


class StepFigures:
    """Writes the log line, `metrics.jsonl`, TensorBoard, and figures of progress and summary.

    Args:
        progress: progress of the run, whose `loss` and `figures` are updated.
        metrics: receiver of the figures.

    Attributes:
        record: record of the last step that has ended.
    """

    record: StepRecord

    def __init__(self, experiment: Experiment, progress: Progress, metrics: MetricSinks) -> None:
        config, self._progress, self._metrics = experiment.config, progress, metrics
        self._recorder, self._slow_data = StepRecorder(experiment), SlowData(config.data)
        self._unfit_schedules = UnfitSchedules()
        self._idle_parts = IdleParts(progress.step, config.train.steps)
        self._meter = FigureMeter(
            config.train.steps,
            _peak_of_devices(experiment, progress),
            config.run.log_every,
            progress.figures,
            records_of_all,
            progress.window,
        )
        self._pipeline = pipeline_figures(experiment)
        if self._pipeline:
            figures = {f"pipeline/{name}": value for name, value in self._pipeline.items()}
            metrics.log_values(progress.step, figures)

    def __call__(self, event: Event) -> None:
        """Note an event, or write what is due with it."""
        match event:
            case StepEnded():
                self._add_step(event)
            case Phase("save" | "copy", seconds=None):
                self._progress.figures = self._meter.sums
                self._progress.window = self._meter.since_report
            case Phase("evaluate") if event.is_over:
                self._metrics.log_values(event.step, figures_of(event.result))
        self._recorder(event)
        self._unfit_schedules(event)

    def _add_step(self, ended: StepEnded) -> None:
        self.record = self._recorder.make_record(ended)
        report = self._meter.add_step(self.record)
        self._idle_parts(ended, is_reported=report is not None)
        if report:
            self._metrics.write_report(report)
            self._slow_data(report)
            self._progress.loss = report.loss

    def make_summary(self, result: Mapping[str, Any]) -> dict[str, Any]:
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
            **self._meter.summary_figures(),
            "peak_flops": self._meter.peak_flops,
            "skipped_updates": progress.skipped_updates,
            "skipped": progress.skipped.make_summary(),
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
    costs = configure_step(experiment.config).costs
    line = predict_timeline(schedule, costs)
    figures = {"bubble_share": line.bubble_share, "tick_imbalance": line.tick_imbalance}
    hidden = line.encoder_hidden
    return figures if hidden is None else figures | {"encoder_hidden": hidden}


def computed_positions(used: Mapping[str, int], capacity: Mapping[str, int]) -> dict[str, int]:
    """By budget, the positions of `capacity` that are computed: none of a bucket without samples.

    The decoder's rows are computed whatever they hold.
    """
    return {name: n if name == "tokens" or used.get(name) else 0 for name, n in capacity.items()}


def independent_positions(
    experiment: Experiment, microbatches: Mapping[str, int], group: HostGroupSpec = WHOLE
) -> dict[str, int]:
    """By encoder, the positions that a step computes in so many independent microbatches.

    Args:
        group: the hosts of whose rows the positions are.
    """
    follow, rows = (
        experiment.step.program.adaptive_schedules,
        experiment.config.data.rows // group.count,
    )
    capacities = follow.capacities if follow else {}
    return {
        name: count * rows * capacities[name].spread * capacities[name].positions
        for name, count in microbatches.items()
    }


def _add_counts(counts: Sequence[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def _moved_bytes(model: ModelConfig, microbatch: Microbatch) -> float:
    """Bytes between hosts: encoder outputs, their gradients, and samples read for another host."""
    outputs = sum(microbatch.stats.crossing.values())
    width = model.backbone_config.d_model * (1 + model.layer_inputs) * compute_dtype(model).itemsize
    return 2 * outputs * width + microbatch.stats.sent


def _phase_loads(experiment: Experiment, microbatch: Microbatch) -> dict[str, PhaseLoad]:
    """Work of the ranks that take rows in each phase; of the ranks of a row, if it is spread."""
    loads: dict[str, PhaseLoad] = {}
    stats = microbatch.stats
    for name, view in experiment.step.program.views.items():
        ranks, load = view.degree_of(view.batch_axes) // stats.group.count, stats.loads[name]
        packed, balanced = (
            rows.reshape(gcd(ranks, len(rows)), -1).sum(1) for rows in (load.before, load.after)
        )
        loads[name] = PhaseLoad(float(packed.mean()), float(packed.max()), float(balanced.max()))
    return loads


def _peak_of_devices(experiment: Experiment, progress: Progress) -> float | None:
    """Peak FLOP/s of all devices: the one that `progress` keeps, while these are the same."""
    devices = experiment.step.devices
    measured = device_peak(devices[0])
    if measured is None:
        return None
    if progress.peak is None or progress.peak.of != measured.of:
        progress.peak = measured
    return progress.peak.flops_of_device(devices[0]) * len(devices)
