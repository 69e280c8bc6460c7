"""The plan of a pipelined step: its schedule and its stacks of layers, known without a device."""

from __future__ import annotations

from dataclasses import dataclass

from mllm_jax.models.model_config import ModelConfig
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import Observer
from scheduling.search.scheduler import StepScheduler


@dataclass(frozen=True)
class StageLayers:
    """Layers of the decoder assigned to stages and virtual chunks.

    A parameter `[layers, ...]` becomes `[chunks, layers / chunks, ...]`, whose second dimension is
    split over the stages: run number `v * stages + s` of layers is chunk v of stage s.

    Attributes:
        layers: numbers of layers of the model.
        stages, chunks: P and V.
        period: layers after which kinds of layers repeat; a chunk has full periods.
    """

    layers: int
    stages: int
    chunks: int
    period: int = 1

    @property
    def per_chunk(self) -> int:
        """Layers of one virtual chunk on one stage, padding included."""
        return -(-self.layers // (self.stages * self.chunks * self.period)) * self.period

    @property
    def stored_layers(self) -> int:
        """Layers that are stored."""
        return self.per_chunk * self.stages * self.chunks

    def without_padding(self, stored: int) -> int:
        """Of so many stored layers, all or those of some kinds, the ones that are no padding."""
        return stored * self.layers // self.stored_layers


@dataclass(frozen=True)
class PipelinePlan:
    """The plan of a model's pipelined step.

    Attributes:
        schedule: checked table of tasks.
        gather: parameters are gathered over fsdp once a `step` or `layer` by layer.
        co_issue: trace independent tasks of a fused task side by side.
        overlap_gather: let prologue and epilogue overlap with the parameters' gather and the
            gradients' scatter.
        observe: callback for the start and the end of fused tasks; None costs nothing.
        bounds: what is compiled, for steps with different schedules; None compiles what
            `schedule` needs, and what `independent_microbatches` may need.
        independent_microbatches: makes the schedule of each step whose encoders have independent
            microbatches; None runs `schedule` in all of them.
        checked: run the tables of every schedule that `independent_microbatches` makes on names.
    """

    schedule: Schedule
    gather: str = "step"
    co_issue: bool = True
    overlap_gather: bool = True
    observe: Observer | None = None
    bounds: ScheduleBounds | None = None
    independent_microbatches: StepScheduler | None = None
    checked: bool = False

    @property
    def single_tasks(self) -> bool:
        """Whether tasks of a fused task run one after the other; an observer sees fused tasks."""
        return not self.co_issue and self.observe is None

    def stage_layers(self, model: ModelConfig) -> StageLayers:
        """Layers of the decoder over stages and chunks."""
        decoder, schedule = model.backbone_config, self.schedule
        return StageLayers(decoder.layers, schedule.stages, schedule.stage_chunks, decoder.period)


def check_layers(model: ModelConfig, schedule: Schedule, pad: bool) -> None:
    """Check that layers can be divided into stages and chunks.

    Raises:
        ScheduleError: the layers cannot be split; the message lists valid numbers.
    """
    layers, period = model.backbone_config.layers, model.backbone_config.period
    key = f"model.{model.key(model.backbone)}"
    runs = schedule.stages * schedule.stage_chunks * period
    if layers % runs and not pad:
        repeated = f" x {period} layers of {key}.pattern" if period > 1 else ""
        raise ScheduleError(
            f"{key}.layers: {layers} is not a multiple of {runs}, stages {schedule.stages} x "
            f"chunks {schedule.stage_chunks}{repeated}; choose other degrees, or "
            "schedule.pad_layers: true"
        )
    for module in schedule.sources:
        encoder, config = model.buckets[module.name], model.encoder(module.name)
        if config.layers % (module.chunks * config.period) or module.chunks % module.stages:
            raise ScheduleError(
                f"model.{model.key(encoder)}.layers: {config.layers} cannot be cut into "
                f"{module.chunks} chunks over {module.stages} stages; chunks divide the layers, "
                "stages the chunks"
            )
