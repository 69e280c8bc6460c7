"""The next token of every answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax

from data.batch import NextTokenTargets
from mllm_jax.layers import vocabulary
from mllm_jax.layers.parameters import ParameterBlock, Params
from mllm_jax.models.objectives.config import NextTokenConfig
from sharding.collectives import shard_slice
from sharding.grid import Axes, MeshView


@dataclass(frozen=True)
class TokenOutputs:
    """Outputs of all tokens, of which no logits exist yet.

    Attributes:
        terms: operands whose products add up to the logits, see `layers.vocabulary`.
        vocab: entries of the vocabulary.
        chunk: tokens whose logits exist at a time.
    """

    terms: list[vocabulary.LogitsTerm]
    vocab: int
    chunk: int


@dataclass(frozen=True)
class NextToken:
    """Weighted sum of the cross entropies of next tokens."""

    config: NextTokenConfig

    def build_block(self) -> ParameterBlock | None:
        """See `Objective.build_block`."""
        return None

    def summed_axes(self, view: MeshView) -> Axes:
        """See `Objective.summed_axes`."""
        return view.token_axes

    def loss(
        self,
        params: Params,
        outputs: Mapping[str, Any],
        targets: NextTokenTargets,
        view: MeshView,
    ) -> jax.Array:
        """See `Objective.loss`: equal on tensor ranks and different along `view.token_axes`.

        Args:
            outputs: the `TokenOutputs` of the backbone.
        """
        del params
        (hidden,) = outputs.values()
        return vocabulary.cross_entropy(
            hidden.terms,
            shard_slice(targets.labels, view.context, dim=1).reshape(-1),
            shard_slice(targets.weights, view.context, dim=1).reshape(-1),
            hidden.vocab,
            hidden.chunk,
            view,
        )
