"""The input format of an encoder of point clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from data.rows.spec import ArraySpec, Kind, MediaRowSpec
from data.sample import ProcessedMedium


@dataclass(frozen=True)
class CloudRowSpec(MediaRowSpec):
    """Point clouds, of which `group` points become one output."""

    kind: ClassVar[Kind] = "cloud"

    group: int = 4

    @property
    def reduction(self) -> int:
        """Number of points that become one output."""
        return self.group

    @property
    def features(self) -> int:
        """Number of coordinates of a point."""
        return 3

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """Coordinates and indices of the points; every point also has the radius of its cloud."""
        inputs = ArraySpec("position", (3,), np.float32)
        return {
            "inputs": inputs,
            "positions": ArraySpec("position", (1,)),
            "radius": ArraySpec("medium", (), np.float32),
        }

    def sketch(self, rng: np.random.Generator, outputs: int) -> ProcessedMedium:
        """A cloud of whole groups of points at the origin."""
        return medium_of(np.zeros((outputs * self.group, 3), np.float32))


def medium_of(points: np.ndarray) -> ProcessedMedium:
    """The encoder input of a cloud of points `[n, 3]`."""
    radius = np.linalg.norm(points, axis=1).max(initial=0)
    positions = np.arange(len(points), dtype=np.int32)[:, None]
    return ProcessedMedium(points, positions, {"radius": np.array(radius, np.float32)})
