"""The model's modules as every gradient program runs them, whole or part by part.

Parameters belong to a module. How inputs go through it, its views, rows and place in a schedule,
belongs to a bucket of it, of which it may have several (`ModelConfig.lanes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models import module as modules
from mllm_jax.models.batch import ModuleRows
from mllm_jax.models.freeze import NOTHING_FROZEN, Frozen
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.merge import land
from sharding.collectives import psum, vary
from sharding.exchange import RouteArrays
from sharding.exchange_kinds import DEFAULT_EXCHANGE, DEFAULT_EXCHANGES, Exchanges
from sharding.grid import Views
from sharding.layerstack.module import Merge
from sharding.layerstack.run import Aux


class Model:
    """All modules of a model under the views of a program.

    Args:
        config: resolved model configuration.
        views: views of all buckets, under which outputs are merged.
        frozen: parameters without gradients.
        exchanges: the exchanges of buckets, `DEFAULT_EXCHANGE` if not named.

    Attributes:
        backbone: the module whose outputs have a loss.
        others: the buckets of all other modules, whose outputs are merged into the backbone's rows.
        merges: by bucket, how its outputs are merged.
    """

    def __init__(
        self,
        config: ModelConfig,
        views: Views,
        frozen: Frozen = NOTHING_FROZEN,
        exchanges: Exchanges = DEFAULT_EXCHANGES,
    ) -> None:
        self.config, self._exchanges = config, exchanges
        own = config.backbone
        self.backbone = modules.ShardedModule(config, own, views[own], frozen)
        self.others = {
            bucket: modules.ShardedModule(config, bucket, views[bucket], frozen)
            for bucket in config.lanes
        }
        self.merges: dict[str, Merge] = {name: partial(self._merge, name) for name in self.others}

    def _merge(
        self, bucket: str, outputs: jax.Array, routes: RouteArrays | None, rows: ModuleRows
    ) -> jax.Array:
        """See `sharding.layerstack.module.Merge`; `rows` are the backbone's."""
        with jax.named_scope(f"exchange_{bucket}"):
            exchange = self._exchanges.get(bucket, DEFAULT_EXCHANGE)
            views = self.others[bucket].view, self.backbone.view
            landed = land(outputs, bucket, routes, rows, *views, exchange)
            return landed.astype(self.backbone.dtype)

    def merged(
        self, params: Any, rows: Mapping[str, ModuleRows], routes: Mapping[str, RouteArrays]
    ) -> jax.Array | None:
        """Outputs of all buckets where they are merged, `[rows, tokens / shards, d_model]`.

        Zero elsewhere; None of a model of the backbone alone.

        Args:
            params: local shards of the whole model.
            rows: local rows of one microbatch, by bucket.
            routes: routes of its outputs, by bucket; nothing if media are in the rows of their
                samples.
        """
        target = rows[self.config.backbone]
        landed = [
            self.merges[name](self._outputs(name, params, rows[name]), routes.get(name), target)
            for name in self.others
        ]
        return sum(landed[1:], landed[0]) if landed else None

    def _outputs(self, bucket: str, params: Any, rows: ModuleRows) -> jax.Array:
        """The outputs of a bucket.

        Without inputs nothing is computed: of a module with several buckets a row, of others all
        rows of this rank.
        """
        module = self.others[bucket]

        def encode(rows: ModuleRows) -> jax.Array:
            with jax.named_scope(f"encode_{bucket}"):
                return module.forward(params[module.name], rows)[0]

        def filled(rows: ModuleRows) -> jax.Array:
            return _if(module.has_inputs(rows), lambda: encode(rows))

        return filled(rows) if bucket == module.name else _one_by_one(filled, rows)

    def loss(
        self, params: Any, rows: Mapping[str, ModuleRows], routes: Mapping[str, RouteArrays]
    ) -> tuple[jax.Array, Aux]:
        """Sums of the losses and of the auxiliary losses of one microbatch.

        They are the same scalars on every rank.

        Args:
            params, rows, routes: as of `merged`.
        """
        name, view = self.config.backbone, self.backbone.view
        merged = self.merged(params, rows, routes)
        with jax.named_scope("decode"):
            outputs, aux = self.backbone.forward(params[name], rows[name], merged)
        with jax.named_scope("loss"):
            total = self.loss_of(params[name], outputs, rows[name])
        return psum(total, view.token_axes), psum(aux, view.position_axes)

    def loss_of(self, params: Any, outputs: jax.Array, rows: ModuleRows) -> jax.Array:
        """See `sharding.layerstack.module.Loss`: the loss of outputs of the backbone."""
        return modules.loss(params, outputs, rows, self.config, self.backbone.view)


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
