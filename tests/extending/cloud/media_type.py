"""Point clouds as a kind of media."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy

from data.config import DataConfig
from data.faults import FaultKind
from data.media.file_bytes import HEADER, STREAM, FileBytes
from data.media.media_type import MediaType
from data.media.processor import MediaProcessor
from data.sample import MediaError, MediumLengths, ProcessedMedium

from .row_spec import CloudRowSpec, medium_of


@dataclass(frozen=True)
class Cloud:
    """A point cloud in a NumPy file."""

    file_bytes: FileBytes

    def count(self) -> int:
        """Number of points, read from the header of the file."""
        with self.file_bytes.open(HEADER) as file:
            try:
                npy.read_magic(file)
                shape, _, _ = npy.read_array_header_1_0(file)
            except ValueError as error:
                raise MediaError(FaultKind.RECORD, f"{self.file_bytes.name!r}: {error}") from error
        if len(shape) != 2 or shape[1] != 3 or not shape[0]:
            shown = f"{self.file_bytes.name!r} has the shape {shape}, not [points, 3]"
            raise MediaError(FaultKind.SHAPE, shown)
        return int(shape[0])

    def load(self) -> np.ndarray:
        """The points, `[n, 3]`."""
        with self.file_bytes.open(STREAM) as file:
            return np.load(file, allow_pickle=False).astype(np.float32)


@dataclass(frozen=True)
class NoiseCloud:
    """A point cloud of random points."""

    points: int
    seed: int

    def count(self) -> int:
        """Number of points."""
        return self.points

    def load(self) -> np.ndarray:
        """The points, `[n, 3]`."""
        return np.random.default_rng(self.seed).normal(size=(self.points, 3)).astype(np.float32)


class CloudProcessor(MediaProcessor):
    """Point clouds as inputs of an encoder: the points in a file."""

    def measure(self, medium: Cloud | NoiseCloud, alone: bool) -> MediumLengths:
        """Number of points; a point cloud has no grid."""
        return MediumLengths(medium.count())

    def process(self, medium: Cloud | NoiseCloud, alone: bool) -> ProcessedMedium:
        """The encoder input of a point cloud."""
        return medium_of(medium.load())


class CloudType(MediaType):
    """The kind of point clouds; no key configures their inputs."""

    name = "cloud"
    endings = ("npy",)

    def open(self, content: FileBytes, config: DataConfig) -> Cloud:
        """The point cloud in a file."""
        return Cloud(content)

    def make_processor(
        self, config: DataConfig, spec: CloudRowSpec, released: Any = None
    ) -> CloudProcessor:
        """The processor of point clouds, which no released processor reads."""
        return CloudProcessor(spec)

    def make_noise(
        self, positions: float, config: DataConfig, rng: np.random.Generator
    ) -> NoiseCloud:
        """A cloud of about `positions` random points."""
        return NoiseCloud(max(1, round(positions)), int(rng.integers(2**31)))
