"""The input format of an encoder of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from data.rows.spec import ArraySpec, Kind, MediaRowSpec
from data.sample import ProcessedMedium


@dataclass(frozen=True)
class GraphRowSpec(MediaRowSpec):
    """Graphs, whose nodes are positions; each node becomes one output."""

    kind: ClassVar[Kind] = "graph"

    width: int = 4

    @property
    def reduction(self) -> int:
        """Every node has an output."""
        return 1

    @property
    def features(self) -> int:
        """Number of features of a node."""
        return self.width

    @property
    def budgets(self) -> Mapping[str, str]:
        """Nodes are bounded by the name of the encoder, edges by a budget of their own."""
        return {**super().budgets, "edge": f"{self.name}_edges"}

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """Features and numbers of the nodes, and edges between nodes."""
        return {
            "inputs": ArraySpec("position", (self.width,), np.float32),
            "positions": ArraySpec("position", (1,)),
            "edges": ArraySpec("edge", (2,), offset="position"),
        }

    def sketch(self, rng: np.random.Generator, outputs: int) -> ProcessedMedium:
        """Nodes of which each has an edge to the next."""
        nodes = np.arange(outputs - 1, dtype=np.int32)
        edges = np.stack([nodes, nodes + 1], axis=1)
        return medium_of(np.zeros((outputs, self.width), np.float32), edges)


def medium_of(features: np.ndarray, edges: np.ndarray) -> ProcessedMedium:
    """The encoder input of nodes with features `[nodes, width]`, and of edges `[edges, 2]`."""
    positions = np.arange(len(features), dtype=np.int32)[:, None]
    return ProcessedMedium(features, positions, {"edges": edges}, entries=(len(edges),))
