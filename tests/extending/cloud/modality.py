"""Point clouds as an encoder takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from data.kinds.modality import Array, Kind, Modality
from data.sample import Medium


@dataclass(frozen=True)
class CloudModality(Modality):
    """Points, `group` of which become one output."""

    kind: ClassVar[Kind] = "cloud"

    group: int = 4

    @property
    def reduction(self) -> int:
        """Points of an output."""
        return self.group

    @property
    def features(self) -> int:
        """Coordinates of a point."""
        return 3

    @property
    def arrays(self) -> Mapping[str, Array]:
        """Beside coordinates and numbers of points, the radius of the cloud at each of them."""
        inputs = Array("position", (3,), np.float32)
        return {
            "inputs": inputs,
            "positions": Array("position"),
            "radius": Array("medium", (), np.float32),
        }

    def sketch(self, rng: np.random.Generator, outputs: int) -> Medium:
        """A cloud of whole groups."""
        return medium_of(np.zeros((outputs * self.group, 3), np.float32))


def medium_of(points: np.ndarray) -> Medium:
    """Points `[n, 3]` as encoder input."""
    radius = np.linalg.norm(points, axis=1).max(initial=0)
    positions = np.arange(len(points), dtype=np.int32)
    return Medium(points, positions, {"radius": np.array(radius, np.float32)})
