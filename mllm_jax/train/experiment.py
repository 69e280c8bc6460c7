"""Everything a run is made of, built from its configuration."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import jax
import optax
from jax.sharding import Mesh

from data.modality import Modality
from data.processor import Processor, make_processor
from data.tiles import Tiling
from mllm_jax.config import ExperimentConfig
from mllm_jax.models.config import (
    AudioEncoderConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
)
from mllm_jax.train.freeze import Frozen
from mllm_jax.train.optimizer import build_optimizer
from mllm_jax.train.schedule import pipeline_plan
from mllm_jax.train.step import TrainStep, parameter_layouts
from scheduling.schedule import Observer
from sharding.grid import JointGrid
from sharding.mesh import make_mesh, mesh_like
from sharding.stages import without_stages

#: A run folder with less room than this is refused; checkpoints are checked by their size.
FREE_BYTES = 64 * 2**20

#: Positions of a microbatch by resource.
Shape = tuple[tuple[str, int], ...]


class RunError(RuntimeError):
    """A run that cannot start or cannot go on."""


@dataclass(frozen=True)
class Experiment:
    """A configuration with its grid, mesh, processor and compiled programs.

    Attributes:
        shapes: of microbatches that the step has been compiled for, by resource.
    """

    config: ExperimentConfig
    grid: JointGrid
    mesh: Mesh
    processor: Processor
    step: TrainStep
    shapes: set[Shape] = field(default_factory=set)

    @classmethod
    def build(cls, config: ExperimentConfig) -> Experiment:
        """Lay the plans on the devices; nothing is computed yet.

        Raises:
            PlanError: the plans do not fit the devices.
            ScheduleError: the pipeline's sizes do not fit together.
            DataError: tokenizer or processor cannot be made.
        """
        step = train_step(config, jax.devices()[: config.parallel.devices])
        processor = make_processor(config.data, modalities(config.model))
        return cls(config, step.grid, step.mesh, processor, step)

    @cached_property
    def forward(self) -> TrainStep:
        """The step whose layouts serve forward passes: without a pipeline, its stages as fsdp."""
        if self.step.pipeline is None:
            return self.step
        grid = JointGrid.build(without_stages(self.config.parallel.plans))
        return TrainStep(self.config.model, grid, mesh_like(grid, self.mesh), optax.identity())

    def observed(self, observe: Observer) -> TrainStep:
        """The train step of a pipeline that tells `observe` what the devices do."""
        step = self.step
        assert step.pipeline is not None
        plan = replace(step.pipeline, observe=observe)
        common = step.model, self.grid, self.mesh, step.optimizer, plan, step.frozen
        return TrainStep(*common, skips=step.skips)

    def state_bytes(self) -> int:
        """Size of parameters and optimizer state on disk."""
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(self.step.abstract))


def train_step(config: ExperimentConfig, devices: Sequence[jax.Device]) -> TrainStep:
    """The step that trains `config`, on `devices`.

    Raises:
        PlanError: the plans do not fit the devices.
        ScheduleError: the pipeline's sizes do not fit together.
    """
    grid, pipeline = JointGrid.build(config.parallel.plans), pipeline_plan(config)
    lay = parameter_layouts(config.model, grid, pipeline is not None)
    optimizer, frozen = build_optimizer(config.train, lay), Frozen(config.train.freeze)
    mesh, skips = make_mesh(grid, devices), config.train.guard.skip > 0
    return TrainStep(config.model, grid, mesh, optimizer, pipeline, frozen, skips=skips)


def modalities(model: ModelConfig) -> list[Modality]:
    """What the data pipeline must know of the encoders."""
    return [_modality(name, encoder, model.decoder) for name, encoder in model.encoders.items()]


def _modality(name: str, encoder: EncoderConfig, decoder: DecoderConfig) -> Modality:
    if isinstance(encoder, AudioEncoderConfig):
        return Modality(
            name,
            "audio",
            mels=encoder.mels,
            stride=encoder.reduction,
            pool=encoder.stack if encoder.connector.kind == "average" else 1,
            lookahead=encoder.lookahead,
            longest=encoder.longest,
        )
    patch, channels, block = encoder.patch, encoder.channels, encoder.block
    token = encoder.class_tokens
    image = Modality(name, "image", patch=patch, channels=channels, block=block, class_token=token)
    if encoder.tiles is None or encoder.tile_outputs is None:
        return image
    tiles = encoder.tiles
    tiling = Tiling(tiles.pinpoints, tiles.pixels, encoder.tile_outputs, tiles.most)
    return replace(image, tiling=tiling, newline=decoder.vocab_size)


def prepare_folder(folder: Path, needed_bytes: int) -> None:
    """Make the run's folder and see that it takes files.

    Raises:
        RunError: it cannot be written, or the disk has no room for the checkpoints.
    """
    probe = folder / f".writable-{os.getpid()}-{jax.process_index()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise RunError(
            f"folder {folder} cannot be written: {error.strerror}; choose another run.directory "
            "(or --output, for a trace)"
        ) from error
    needed = FREE_BYTES + needed_bytes
    if free < needed:
        raise RunError(
            f"run folder {folder}: {free / 2**20:.0f} MiB are free, checkpoints and logs need "
            f"{needed / 2**20:.0f} MiB; free some space or choose another run.directory"
        )
