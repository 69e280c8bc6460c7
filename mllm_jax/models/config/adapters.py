"""Which linear layers have adapters, and of what rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from mllm_jax.models.config.elements import tensor
from mllm_jax.models.config.linear import LinearLayer

#: What no pattern matches, and why.
_WITHOUT = (
    "The head, routers and the experts that tokens choose take no adapters: their products are "
    "made of kernels alone"
)


class AdapterError(ValueError):
    """Adapters that a model cannot have."""


@dataclass(frozen=True)
class Adapters:
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
    def beside(
        cls, every: Iterable[LinearLayer], targets: Sequence[str], rank: int, scale: float
    ) -> Adapters:
        """Adapters beside the layers that match a target.

        Args:
            every: the linear layers that there are.
            targets: patterns of their names; `*` stands for anything.

        Raises:
            AdapterError: a target matches no layer; the message lists their names.
        """
        every = list(every)
        for target in targets:
            if not any(fnmatchcase(layer.name, target) for layer in every):
                names = ", ".join(layer.name for layer in every)
                raise AdapterError(
                    f"{target} matches no linear layer; valid: patterns of {names}. {_WITHOUT}"
                )
        chosen = [own for own in every if any(fnmatchcase(own.name, t) for t in targets)]
        return cls(tuple(chosen), rank, scale)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the layers."""
        return frozenset(layer.name for layer in self.layers)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Parts of the model that have any; nothing else of them trains."""
        return tuple(dict.fromkeys(layer.part for layer in self.layers))

    def elements(self, part: str) -> dict[tuple[str | None, ...], float]:
        """Elements of the adapters of a part by logical axes, of one layer where it has layers.

        Where layers are of several kinds, they are means.
        """
        found: dict[tuple[str | None, ...], float] = {}
        own = ("rank", self.rank)
        for layer in self.layers:
            if layer.part == part:
                matrices = tensor((*layer.inputs, own)) + tensor((own, *layer.outputs))
                for axes, count in matrices.items():
                    found[axes] = found.get(axes, 0) + layer.share * count
        return found
