"""Work of a tower: the one cost function of the project.

Balancer, packer, simulator, model FLOPs utilisation and plan search all count work with
`TowerWork`; the models provide its two coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

#: A backward pass costs two forward passes: one for each operand of every product.
TRAINING_FACTOR = 3.0


@dataclass(frozen=True)
class TowerWork:
    """Forward FLOPs of one tower as a function of segment lengths.

    A segment of n input positions costs `linear * n + quadratic * n^2`. Products count two FLOPs
    per multiply-add; attention counts all pairs of a segment, causal or not (PaLM, arXiv
    2204.02311, appendix B); what is not a product counts nothing.

    Attributes:
        linear: FLOPs per input position (token, patch or frame).
        quadratic: FLOPs per pair of input positions of one segment.
    """

    linear: float
    quadratic: float

    def flops(self, lengths: ArrayLike) -> float:
        """Forward FLOPs of segments of `lengths` input positions, all together."""
        return float(self.segment_flops(lengths).sum())

    def segment_flops(self, lengths: ArrayLike) -> np.ndarray:
        """Forward FLOPs of each segment.

        Args:
            lengths: array of any shape, in input positions.
        """
        n = np.asarray(lengths, np.float64)
        return self.linear * n + self.quadratic * n * n


#: Elements by logical axes (`sharding.rules`), without the axis that stacks layers.
Parameters = Mapping[tuple[str | None, ...], int]


@dataclass(frozen=True)
class Part:
    """Layers of a tower, or what comes before or after them.

    Attributes:
        work: of its products in a forward, per input position.
        moved: elements that its other operations read and write in a forward, per position between
            the layers.
    """

    work: TowerWork
    moved: float


@dataclass(frozen=True)
class TowerProfile:
    """What the cost model must know of a decoder or an encoder.

    Attributes:
        layers: how many.
        width: of what goes from layer to layer, in elements.
        stride: input positions per position between the layers.
        reduction: input positions per position that the tower hands on.
        features: values of an input position; 0 for the decoder, whose inputs are tokens.
        outputs: entries of the vocabulary; for an encoder the decoder's width.
        blocks: how often a layer gathers its rows over tensor ranks, and scatters their sums.
        heads, kv_heads, head_dim: of its attention.
        start, layer, end: before the layers, one layer, after them (head, or connector).
        layer_parameters: of one layer.
        rest_parameters: of all else.
    """

    layers: int
    width: int
    stride: int
    reduction: int
    features: int
    outputs: int
    blocks: int
    heads: int
    kv_heads: int
    head_dim: int
    start: Part
    layer: Part
    end: Part
    layer_parameters: Parameters
    rest_parameters: Parameters

    @property
    def parameters(self) -> int:
        """Elements of the whole tower."""
        return self.layers * sum(self.layer_parameters.values()) + sum(
            self.rest_parameters.values()
        )
