"""The model's towers as every gradient program runs them, whole or part by part.

Parameters belong to a tower. How media go through it, its views, rows and place in a schedule,
belongs to a lane of it, of which it may have several (`ModelConfig.lanes`). What they add to
`models.multimodal`: frozen parameters have no gradients, and the outputs of encoders land in the
decoder's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models import module as multimodal
from mllm_jax.models.batch import DECODER, ModuleRows
from mllm_jax.models.freeze import NOTHING_FROZEN, Frozen
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.merge import land
from sharding.collectives import psum, vary
from sharding.exchange import RouteArrays
from sharding.exchange_kinds import AS_USUAL, USUAL, Exchange, Exchanges
from sharding.grid import View, Views
from sharding.layerstack.run import Aux


class DecoderTower(multimodal.Decoder):
    """The decoder, some parameters of which may be frozen.

    Args:
        model: resolved model configuration.
        view: view of the decoder.
        frozen: parameters without gradients.
    """

    def __init__(self, model: ModelConfig, view: View, frozen: Frozen) -> None:
        super().__init__(model, view)
        self._frozen = frozen

    def trained_apart(self, params: Any) -> tuple[Any, Any]:
        """The decoder's parameters that have gradients, and those that have none."""
        return self._frozen.apart_of(self.config.backbone, params)

    def loss(self, params: Any, rows: ModuleRows, media: jax.Array | None) -> tuple[jax.Array, Aux]:
        """All parts one after the other: the sum of the losses of this rank's tokens.

        Auxiliary losses are not in it; they are this rank's shares of sums.
        """
        with jax.named_scope("decode"):
            hidden, aux = self.states(params, rows, media)
        with jax.named_scope("loss"):
            return multimodal.loss(params, hidden, rows, self.config, self.view), aux


class EncoderLane(multimodal.Encoder):
    """A lane of an encoder, parts of which may be frozen, and the way of the lane's outputs.

    Args:
        model: resolved model configuration.
        lane: name of the lane.
        views: views of all modules, under which encoder outputs meet the decoder.
        frozen: parameters without gradients.
        exchange: the exchange of the lane's outputs.

    Attributes:
        encoder: the tower whose parameters the lane uses.
        frozen: whether the encoder is, its connector aside.
    """

    def __init__(
        self,
        model: ModelConfig,
        lane: str,
        views: Views,
        frozen: Frozen,
        exchange: Exchange = USUAL,
    ) -> None:
        self.encoder = model.lanes[lane]
        super().__init__(model, self.encoder, views[lane])
        self._lane, self._views, self._frozen = lane, views, frozen
        self._exchange = exchange
        self.frozen = frozen.trunk(self.encoder)

    def trained_apart(self, params: Any) -> tuple[Any, Any]:
        """The encoder's parameters that have gradients, and those that have none."""
        return self._frozen.apart_of(self.encoder, params)

    def land(
        self, outputs: jax.Array, routes: RouteArrays | None, decoder_rows: ModuleRows
    ) -> jax.Array:
        """The outputs moved to where they land in the decoder's rows, zero elsewhere.

        Args:
            routes: this device's of these outputs, if the batch has routes.
        """
        with jax.named_scope(f"exchange_{self._lane}"):
            own = self._views, self._exchange
            landed = land(outputs, self._lane, routes, decoder_rows, *own)
            return landed.astype(self.dtype)

    def landed(
        self,
        params: Any,
        rows: ModuleRows,
        routes: RouteArrays | None,
        decoder_rows: ModuleRows,
    ) -> jax.Array:
        """All parts one after the other.

        Without media nothing is computed: of an encoder with several lanes a row, of others all
        rows of this rank.
        """

        def encode(rows: Any) -> jax.Array:
            with jax.named_scope(f"encode_{self._lane}"):
                return self.outputs(params, rows)

        def filled(rows: Any) -> jax.Array:
            return _if(self.holds_media(rows), lambda: encode(rows))

        made = filled(rows) if self._lane == self.encoder else _one_by_one(filled, rows)
        return self.land(made, routes, decoder_rows)

    def holds_media(self, rows: ModuleRows) -> jax.Array:
        """Whether these rows hold media on any rank that shares gathered parameters.

        Ranks that share a row agree by themselves, as each of them has the whole row's segments.
        """
        return psum(jnp.count_nonzero(rows.segment_ids), self.view.fsdp) > 0


class Towers:
    """All towers of a model under the views of a program; encoders by their lanes.

    Args:
        model: resolved model configuration.
        views: views of all modules, under which encoder outputs meet the decoder.
        frozen: parameters without gradients.
        exchanges: the exchanges of lanes, `USUAL` if not named.
    """

    def __init__(
        self,
        model: ModelConfig,
        views: Views,
        frozen: Frozen = NOTHING_FROZEN,
        exchanges: Exchanges = AS_USUAL,
    ) -> None:
        self.decoder = DecoderTower(model, views["decoder"], frozen)
        self.lanes = {
            name: EncoderLane(model, name, views, frozen, exchanges.get(name, USUAL))
            for name in model.lanes
        }

    def media(
        self, params: Any, rows: Mapping[str, ModuleRows], routes: Mapping[str, RouteArrays]
    ) -> jax.Array | None:
        """Outputs of all lanes where they land: `[rows, tokens / shards, d_model]`, else zero.

        Args:
            params: local shards of the whole model.
            rows: local rows of one microbatch, by module.
            routes: routes of its outputs, by lane; nothing if media are in the rows of their
                samples.
        """
        landed = [
            lane.landed(
                params[lane.encoder],
                rows[name],
                routes.get(name),
                rows[DECODER],
            )
            for name, lane in self.lanes.items()
        ]
        return sum(landed[1:], landed[0]) if landed else None

    def loss(
        self, params: Any, rows: Mapping[str, ModuleRows], routes: Mapping[str, RouteArrays]
    ) -> tuple[jax.Array, Aux]:
        """Sums of the losses and of the auxiliary losses of one microbatch.

        They are the same scalars on every rank.

        Args:
            params, rows, routes: as of `media`.
        """
        media = self.media(params, rows, routes)
        total, aux = self.decoder.loss(params["decoder"], rows[DECODER], media)
        view = self.decoder.view
        return psum(total, view.tokens), psum(aux, view.positions)


def _one_by_one(make: Callable[[Any], jax.Array], rows: Any) -> jax.Array:
    """`make` of every row `[1, ...]` by itself, one after the other."""
    apart = jax.tree.map(lambda x: x[:, None], rows)
    _, made = lax.scan(lambda _, row: (None, make(row)), None, apart)
    return made.reshape(-1, *made.shape[2:])


def _if(chosen: jax.Array, make: Callable[[], jax.Array]) -> jax.Array:
    """`make()` where `chosen` holds, else zeros."""
    expected = jax.eval_shape(make)

    def nothing() -> jax.Array:
        zeros = jnp.zeros(expected.shape, expected.dtype)
        return vary(zeros, tuple(sorted(jax.typeof(expected).mat.varying)))

    return lax.cond(chosen, make, nothing)
