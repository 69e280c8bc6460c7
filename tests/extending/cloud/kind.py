"""Point clouds as a kind of media."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy

from data.config import DataConfig
from data.faults import FaultKind
from data.kinds.blob import HEADER, STREAM, Blob
from data.kinds.kind import Measured, MediumKind
from data.sample import MediaError, Medium

from .modality import CloudModality, medium_of


@dataclass(frozen=True)
class Cloud:
    """Points in a NumPy file."""

    blob: Blob

    def count(self) -> int:
        """Number of points, from the header."""
        with self.blob.open(HEADER) as file:
            try:
                npy.read_magic(file)
                shape, _, _ = npy.read_array_header_1_0(file)
            except ValueError as error:
                raise MediaError(FaultKind.RECORD, f"{self.blob.name!r}: {error}") from error
        if len(shape) != 2 or shape[1] != 3 or not shape[0]:
            raise MediaError(FaultKind.SHAPE, f"{self.blob.name!r} is {shape}, not [points, 3]")
        return int(shape[0])

    def load(self) -> np.ndarray:
        """Points `[n, 3]`."""
        with self.blob.open(STREAM) as file:
            return np.load(file, allow_pickle=False).astype(np.float32)


@dataclass(frozen=True)
class NoiseCloud:
    """Random points."""

    points: int
    seed: int

    def count(self) -> int:
        """Number of points."""
        return self.points

    def load(self) -> np.ndarray:
        """Points `[n, 3]`."""
        return np.random.default_rng(self.seed).normal(size=(self.points, 3)).astype(np.float32)


class CloudKind(MediumKind):
    """See `MediumKind`; nothing is configured, so that there is no reader."""

    name = "cloud"
    endings = ("npy",)

    def open(self, blob: Blob, config: DataConfig) -> Cloud:
        """The points in a file."""
        return Cloud(blob)

    def reader(self, config: DataConfig, modality: CloudModality) -> None:
        """Nothing: points are taken as they are."""

    def measure(self, reader: Any, medium: Cloud | NoiseCloud, alone: bool) -> Measured:
        """Points, of which there is no grid."""
        return medium.count(), None

    def read(
        self, reader: Any, modality: CloudModality, medium: Cloud | NoiseCloud, alone: bool
    ) -> Medium:
        """Points and their numbers."""
        return medium_of(medium.load())

    def noise(self, positions: float, config: DataConfig, rng: np.random.Generator) -> NoiseCloud:
        """About so many random points."""
        return NoiseCloud(max(1, round(positions)), int(rng.integers(2**31)))
