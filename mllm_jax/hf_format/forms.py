"""How a released tensor becomes a parameter, and back: cut dimensions, and turn them around."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Form:
    """A parameter is `released.reshape(cut).transpose(order).reshape(shape)`.

    Attributes:
        released: shape of the released tensor.
        cut: dimensions of the tensor, some of them cut; their product is the same.
        order: order of the dimensions of `cut` in the parameter.
        shape: shape of the parameter.
    """

    released: Shape
    cut: Shape
    order: tuple[int, ...]
    shape: Shape

    def __post_init__(self) -> None:
        """Refuse shapes of different sizes."""
        sizes = {math.prod(shape) for shape in (self.released, self.cut, self.shape)}
        assert len(sizes) == 1, self
        assert sorted(self.order) == list(range(len(self.cut))), self

    def parameter(self, released: NDArray) -> NDArray:
        """A released tensor as a parameter; a view where that is possible."""
        return released.reshape(self.cut).transpose(self.order).reshape(self.shape)

    @property
    def turned(self) -> Shape:
        """Shape between the transposition and the last reshape."""
        return tuple(self.cut[i] for i in self.order)

    def released_from(self, parameter: NDArray) -> NDArray:
        """The inverse of `parameter`."""
        turned = parameter.reshape(self.turned)
        return turned.transpose(np.argsort(self.order)).reshape(self.released)


def same(shape: Shape) -> Form:
    """A tensor that stays as it is."""
    return Form(shape, shape, tuple(range(len(shape))), shape)


def dense(inputs: Shape, outputs: Shape) -> Form:
    """A linear layer, `[outputs, inputs]` as released, to a kernel `[*inputs, *outputs]`."""
    released = (math.prod(outputs), math.prod(inputs))
    count = len(outputs)
    order = (*range(count, count + len(inputs)), *range(count))
    return Form(released, (*outputs, *inputs), order, (*inputs, *outputs))


def flat(shape: Shape) -> Form:
    """A vector as released to the dimensions of a bias."""
    return Form((math.prod(shape),), shape, tuple(range(len(shape))), shape)


def convolution(taps: int, inputs: int, outputs: int) -> Form:
    """`[outputs, inputs, taps]` to `[taps, inputs, outputs]`."""
    shape = (outputs, inputs, taps)
    return Form(shape, shape, (2, 1, 0), (taps, inputs, outputs))


def patches(height: int, width: int, channels: int, outputs: int) -> Form:
    """`[outputs, channels, height, width]` to `[height * width * channels, outputs]`."""
    shape = (outputs, channels, height, width)
    return Form(shape, shape, (2, 3, 1, 0), (height * width * channels, outputs))
