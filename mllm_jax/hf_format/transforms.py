"""How a released tensor becomes a parameter, and back: split dimensions, and transpose them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TensorTransform:
    """A parameter is `released.reshape(split).transpose(order).reshape(shape)`.

    Attributes:
        released: shape of the released tensor.
        split: dimensions of the tensor, some of them split; their product is the same.
        order: order of the dimensions of `split` in the parameter.
        shape: shape of the parameter.
    """

    released: Shape
    split: Shape
    order: tuple[int, ...]
    shape: Shape

    def __post_init__(self) -> None:
        """Refuse shapes of different sizes."""
        sizes = {math.prod(shape) for shape in (self.released, self.split, self.shape)}
        assert len(sizes) == 1, self
        assert sorted(self.order) == list(range(len(self.split))), self

    def to_parameter(self, released: NDArray) -> NDArray:
        """A released tensor as a parameter; a view where that is possible."""
        return released.reshape(self.split).transpose(self.order).reshape(self.shape)

    @property
    def transposed_shape(self) -> Shape:
        """Shape between the transposition and the last reshape."""
        return tuple(self.split[i] for i in self.order)

    def to_released(self, parameter: NDArray) -> NDArray:
        """The inverse of `to_parameter`."""
        transposed = parameter.reshape(self.transposed_shape)
        return transposed.transpose(np.argsort(self.order)).reshape(self.released)


def identity_transform(shape: Shape) -> TensorTransform:
    """A tensor that stays as it is."""
    return TensorTransform(shape, shape, tuple(range(len(shape))), shape)


def dense_kernel(inputs: Shape, outputs: Shape) -> TensorTransform:
    """A linear layer, `[outputs, inputs]` as released, to a kernel `[*inputs, *outputs]`."""
    released = (math.prod(outputs), math.prod(inputs))
    count = len(outputs)
    order = (*range(count, count + len(inputs)), *range(count))
    return TensorTransform(released, (*outputs, *inputs), order, (*inputs, *outputs))


def flat_vector(shape: Shape) -> TensorTransform:
    """A vector as released to the dimensions of a bias."""
    return TensorTransform((math.prod(shape),), shape, tuple(range(len(shape))), shape)


def convolution_kernel(taps: int, inputs: int, outputs: int) -> TensorTransform:
    """`[outputs, inputs, taps]` to `[taps, inputs, outputs]`."""
    shape = (outputs, inputs, taps)
    return TensorTransform(shape, shape, (2, 1, 0), (taps, inputs, outputs))


def patch_kernel(height: int, width: int, channels: int, outputs: int) -> TensorTransform:
    """`[outputs, channels, height, width]` to `[height * width * channels, outputs]`."""
    shape = (outputs, channels, height, width)
    return TensorTransform(shape, shape, (2, 3, 1, 0), (height * width * channels, outputs))
