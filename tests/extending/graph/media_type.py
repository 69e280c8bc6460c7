"""Neighbourhoods of graphs as a kind of media, drawn anew in every epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from data.config import DataConfig
from data.media.file_bytes import STREAM, FileBytes
from data.media.media_type import MediaType
from data.media.processor import MediaProcessor
from data.sample import MediumLengths, ProcessedMedium

from .row_spec import GraphRowSpec, medium_of


@dataclass(frozen=True)
class Graph:
    """A graph in a NumPy file: `features` `[nodes, width]` and `edges` `[edges, 2]`.

    Attributes:
        most: most nodes of a neighbourhood.
        epoch: the epoch in which nodes are drawn.
    """

    file: FileBytes
    most: int
    epoch: int = 0

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Features of the drawn nodes, and the edges between them, by their new numbers."""
        with self.file.open(STREAM) as file, np.load(file, allow_pickle=False) as arrays:
            features, edges = arrays["features"].astype(np.float32), arrays["edges"]
        rng = np.random.default_rng([self.epoch, len(features)])
        count = rng.integers(1, min(self.most, len(features)), endpoint=True)
        nodes = np.sort(rng.choice(len(features), count, replace=False))
        between = edges[np.isin(edges, nodes).all(axis=1)]
        return features[nodes], np.searchsorted(nodes, between).astype(np.int32)


@dataclass(frozen=True)
class NoiseGraph:
    """A ring of random nodes."""

    nodes: int
    width: int

    @property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Features and edges of the ring."""
        nodes = np.arange(self.nodes, dtype=np.int32)
        features = np.random.default_rng(self.nodes).normal(size=(self.nodes, self.width))
        edges = np.stack([nodes, np.roll(nodes, 1)], axis=1)
        return features.astype(np.float32), edges


class GraphProcessor(MediaProcessor):
    """Neighbourhoods as inputs of an encoder: the drawn nodes and edges."""

    def measure(self, medium: Graph | NoiseGraph, alone: bool) -> MediumLengths:
        """Number of drawn nodes, and of edges between them."""
        features, edges = medium.drawn
        return MediumLengths(len(features), entries=(len(edges),))

    def process(self, medium: Graph | NoiseGraph, alone: bool) -> ProcessedMedium:
        """The drawn nodes and edges."""
        return medium_of(*medium.drawn)


class GraphType(MediaType):
    """The kind of graphs; key `nodes` of its section says how many nodes are drawn at most."""

    name = "graph"
    endings = ("npz",)
    is_drawn = True

    def open(self, file: FileBytes, config: DataConfig) -> Graph:
        """The graph in a file."""
        return Graph(file, config.graph.nodes)  # type: ignore[attr-defined]

    def draw(self, medium: Graph, epoch: int) -> Graph:
        """The graph, of which other nodes are drawn in every epoch."""
        return replace(medium, epoch=epoch)

    def make_processor(
        self, config: DataConfig, spec: GraphRowSpec, released: Any = None
    ) -> GraphProcessor:
        """The processor of neighbourhoods, which no released processor reads."""
        return GraphProcessor(spec)

    def make_noise(
        self, positions: float, config: DataConfig, rng: np.random.Generator
    ) -> NoiseGraph:
        """A ring of about so many nodes."""
        return NoiseGraph(max(1, round(positions)), 4)
