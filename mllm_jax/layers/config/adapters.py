"""Which linear layers have adapters, and of what rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from mllm_jax.layers.config.elements import tensor
from mllm_jax.layers.config.linear import VOCABULARY_HEAD, LinearLayer

#: What no pattern matches, and why.
_WITHOUT = (
    "Routers and the experts that tokens choose take no adapters, nor does a head that is the "
    "embedding: their products are made of kernels alone"
)


class AdapterError(ValueError):
    """Adapters that a model cannot have."""


@dataclass(frozen=True)
class LoraAdapters:
    """Adapters of low rank beside linear layers (LoRA: Hu et al., arXiv 2106.09685).

    A layer `x W` becomes `x W + scale (x A) B`, where `A` `[inputs, rank]` begins at random and `B`
    `[rank, outputs]` at zero.

    Attributes:
        layers: the layers that have one.
        rank: width of `A` and height of `B`.
        scale: factor of the adapters' product.
    """

    layers: tuple[LinearLayer, ...]
    rank: int
    scale: float

    @classmethod
    def from_targets(
        cls, every: Iterable[LinearLayer], targets: Sequence[str], rank: int, scale: float
    ) -> LoraAdapters:
        """Adapters beside the layers that match a target.

        Args:
            every: the linear layers that there are.
            targets: patterns of their names; `*` stands for anything but the head, which has an
                adapter only where it is named, as with PEFT.

        Raises:
            AdapterError: a target matches no layer; the message lists their names.
        """
        every = list(every)
        for target in targets:
            if not any(_is_match(layer, target) for layer in every):
                names = ", ".join(layer.name for layer in every)
                raise AdapterError(
                    f"{target} matches no linear layer; valid: patterns of {names}. {_WITHOUT}"
                )
        chosen = [x for x in every if any(_is_match(x, target) for target in targets)]
        return cls(tuple(chosen), rank, scale)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the layers."""
        return frozenset(layer.name for layer in self.layers)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Parts of the model that have any; nothing else of them trains."""
        return tuple(dict.fromkeys(layer.part for layer in self.layers))

    def layer_elements(self, module: str) -> dict[tuple[str | None, ...], float]:
        """Elements of the adapters of one layer of a module by logical axes.

        Where layers are of several kinds, they are means.
        """
        return self._count_elements(
            layer for layer in self.layers if layer.part == module and not layer.head
        )

    def end_elements(self, module: str) -> dict[tuple[str | None, ...], float]:
        """Elements of the adapters after the layers: of connectors, or of the decoder's head."""
        return self._count_elements(
            layer
            for layer in self.layers
            if layer.part == f"{module}.connector" or (layer.head and layer.part == module)
        )

    def _count_elements(self, layers: Iterable[LinearLayer]) -> dict[tuple[str | None, ...], float]:
        elements: dict[tuple[str | None, ...], float] = {}
        rank = ("rank", self.rank)
        for layer in layers:
            matrices = tensor((*layer.inputs, rank)) + tensor((rank, *layer.outputs))
            for axes, count in matrices.items():
                elements[axes] = elements.get(axes, 0) + layer.share * count
        return elements


def _is_match(layer: LinearLayer, target: str) -> bool:
    """Whether a pattern matches a layer; the head must be named."""
    named = not layer.head or VOCABULARY_HEAD in target
    return named and fnmatchcase(layer.name, target)
