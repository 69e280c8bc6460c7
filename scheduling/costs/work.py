"""Work of a module: the one cost function of the project.

Balancer, packer, simulator, model FLOPs utilisation and plan search all count work with
`ModuleWork`; the models provide its two coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

#: Lengths of segments in positions, and results computed from them.
Lengths = TypeVar("Lengths", float, np.ndarray)

#: A backward pass costs two forward passes: one for each operand of every product.
TRAINING_FACTOR = 3.0


@dataclass(frozen=True)
class NearPairs:
    """Attention of layers in which a position sees a part of its segment.

    Attributes:
        flops: forward FLOPs per pair.
        window: size of the window in positions; pairs at this distance are not seen. None: all of
            the chunk are.
        chunk: size of the parts of a segment that do not see each other; None: all of the segment
            is one.
    """

    flops: float
    window: int | None = None
    chunk: int | None = None

    def count_pairs(self, lengths: Lengths) -> Lengths:
        """Number of pairs in segments of `lengths` positions, both ways."""
        if self.chunk is None:
            return self._pairs_within(lengths)
        chunks, remainder = np.divmod(lengths, self.chunk)
        pairs: Lengths = chunks * self._pairs_within(float(self.chunk)) + self._pairs_within(
            remainder
        )
        return pairs

    def _pairs_within(self, lengths: Lengths) -> Lengths:
        """The same without chunks."""
        near = lengths if self.window is None else np.minimum(lengths, self.window)
        # A position is near itself, and to each side near as many as there are, less those beyond.
        pairs: Lengths = (2 * near - 1) * lengths - near * (near - 1)
        return pairs


@dataclass(frozen=True)
class ModuleWork:
    """Forward FLOPs of one module as a function of segment lengths.

    A segment of n input positions costs `linear * n + quadratic * n^2`, and with layers that see a
    part of it what `near` says. Products count two FLOPs per multiply-add; attention counts all
    pairs of a segment, or of a window or a chunk, causal or not (PaLM, arXiv 2204.02311, appendix
    B); other operations are not counted.

    Attributes:
        linear: FLOPs per input position (token, patch or frame).
        quadratic: FLOPs per pair of input positions of one segment.
        near: attention of layers with windows and chunks, by their sizes.
    """

    linear: float
    quadratic: float
    near: tuple[NearPairs, ...] = ()

    def forward_flops(self, lengths: ArrayLike) -> float:
        """Sum of the forward FLOPs of segments of `lengths` input positions."""
        return float(self.segment_flops(lengths).sum())

    def segment_flops(self, lengths: ArrayLike) -> np.ndarray:
        """Forward FLOPs of each segment.

        Args:
            lengths: array of any shape, in input positions.
        """
        n = np.asarray(lengths, np.float64)
        return self.linear * n + self.attention(n)

    def attention(self, lengths: Lengths) -> Lengths:
        """Forward FLOPs of the attention of each segment of `lengths` input positions."""
        return sum(
            (near.flops * near.count_pairs(lengths) for near in self.near),
            self.quadratic * lengths * lengths,
        )

    def times_layers(self, layers: int) -> ModuleWork:
        """The work of so many such layers."""
        near = tuple(
            replace(near_pairs, flops=layers * near_pairs.flops) for near_pairs in self.near
        )
        return ModuleWork(layers * self.linear, layers * self.quadratic, near)


#: Elements by logical axes (`sharding.rules`), without the axis that stacks layers; a mean where
#: layers are of several kinds.
Parameters = Mapping[tuple[str | None, ...], float]


@dataclass(frozen=True)
class ModulePart:
    """A part of a module: layers, or the operations before or after them.

    Attributes:
        work: work of its products in a forward.
        moved: elements that its other operations read and write in a forward, per position between
            the layers.
        adapters: share of the linear work that adapters do.
    """

    work: ModuleWork
    moved: float
    adapters: float = 0.0


@dataclass(frozen=True)
class ExpertWork:
    """The experts that tokens choose in a module's layers.

    Attributes:
        share: share of the layers that have experts.
        count: experts of a layer.
        top_k: experts of a token.
        hidden: hidden width of an expert.
        flops: FLOPs of a token in its experts, in the forward of a layer that has them.
        buffer: copies of tokens that a rank has room for in a round of the exchange between ranks
            that share experts, over an even share of them.
    """

    share: float
    count: int
    top_k: int
    hidden: int
    flops: float
    buffer: float


@dataclass(frozen=True)
class ModuleProfile:
    """A module as the cost model sees it.

    Attributes:
        layers: number of layers.
        width: elements of a position between two layers.
        stride: input positions per position between the layers.
        reduction: input positions per output position of the module.
        features: values of an input position; 0 where it is a token.
        vocab: entries of the vocabulary; 0 without one.
        blocks: number of blocks of a layer; each gathers its rows over tensor ranks and scatters
            their sums.
        heads, kv_heads, head_dim: sizes of its attention.
        start, layer, end: parts before the layers, of one layer, and after the layers (head, or
            connector).
        layer_parameters: parameters of one layer.
        rest_parameters: all other parameters.
        layer_adapters, rest_adapters: parameters of their adapters.
        period: layers after which kinds of layers repeat; `layer` is then their mean.
        side_inputs: activations that enter with that of the first layer, for further layers.
        intermediate_outputs: outputs of further layers, which are carried with that of the last.
        experts: experts of the layers, whose work is part of `layer`; None without any.
    """

    layers: int
    width: int
    stride: int
    reduction: int
    features: int
    vocab: int
    blocks: int
    heads: int
    kv_heads: int
    head_dim: int
    start: ModulePart
    layer: ModulePart
    end: ModulePart
    layer_parameters: Parameters
    rest_parameters: Parameters
    period: int = 1
    side_inputs: int = 0
    intermediate_outputs: int = 0
    experts: ExpertWork | None = None
    layer_adapters: Parameters = field(default_factory=dict)
    rest_adapters: Parameters = field(default_factory=dict)

    @property
    def input_activations(self) -> int:
        """Number of activations that a chunk reads, each of `width` elements of a position."""
        return self.side_inputs + self.output_activations

    @property
    def output_activations(self) -> int:
        """Number of activations that a chunk writes."""
        return 1 + self.intermediate_outputs

    @property
    def periods(self) -> int:
        """Periods of layers, which no cut of the layers divides."""
        return self.layers // self.period

    def per_run(self, runs: int) -> int:
        """Layers of each of as many runs, padding included."""
        return -(-self.periods // runs) * self.period

    @property
    def parameters(self) -> int:
        """Elements of all of the module."""
        layer = sum((*self.layer_parameters.values(), *self.layer_adapters.values()))
        others = sum((*self.rest_parameters.values(), *self.rest_adapters.values()))
        return round(self.layers * layer + others)
