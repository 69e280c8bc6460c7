"""The model's modules as every gradient program runs them, completely or part by part.

Parameters belong to a module. How inputs go through it, its views, rows and place in a schedule,
belongs to a bucket of it, of which it may have several (`ModelConfig.buckets`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from mllm_jax.models import module as modules
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.graph import OBJECTIVE, Edge
from mllm_jax.models.merge import merge_outputs
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows, NextTokenTargets
from mllm_jax.models.objectives.samples import Choice, select_samples
from mllm_jax.models.streams import NO_STREAMS, run_on_stream
from sharding.collectives import psum, vary
from sharding.exchange import RouteArrays
from sharding.exchange_kinds import DEFAULT_EXCHANGE, DEFAULT_EXCHANGES, Exchanges
from sharding.grid import Views
from sharding.layerstack.module import Loss, Merge
from sharding.layerstack.spec import Aux

#: Outputs of a sample's tokens that an edge of the backbone brings.
_CHOICES: Mapping[str, Choice] = MappingProxyType({"last": "last", "mean": "mean"})
#: By `module.select` of edges into objectives, one output of every sample, the same on all ranks of
#: a row: `[rows, samples, width]`.
Samples = dict[str, jax.Array]
#: By objective and by the source of an edge, what the edge brings.
Outputs = dict[str, dict[str, Any]]
#: No outputs have been encoded elsewhere.
NOTHING_ENCODED: Mapping[str, jax.Array] = MappingProxyType({})


class Model:
    """All modules of a model under the views of a program.

    Args:
        config: resolved model configuration.
        views: views of all buckets, under which outputs are merged.
        frozen: parameters without gradients.
        exchanges: the exchanges of buckets, `DEFAULT_EXCHANGE` if not named.
        streams: by bucket, the stream of a GPU for which its calls are marked, if any.

    Attributes:
        graph: the modules, and where their outputs go.
        backbone: the module whose rows hold samples.
        others: the buckets of all other modules.
        merges: by bucket, how its outputs reach the backbone's rows.
        objectives: losses by name.
    """

    def __init__(
        self,
        config: ModelConfig,
        views: Views,
        frozen: FrozenParameters = NOTHING_FROZEN,
        exchanges: Exchanges = DEFAULT_EXCHANGES,
        streams: Mapping[str, int] = NO_STREAMS,
    ) -> None:
        self.config, self.graph, self._exchanges = config, config.graph, exchanges
        self._streams = streams
        backbone = config.backbone
        self.backbone = modules.ShardedModule(config, backbone, views[backbone], frozen)
        self.others = {
            bucket: modules.ShardedModule(config, bucket, views[bucket], frozen)
            for bucket in config.buckets
        }
        self.merges: dict[str, Merge] = {
            name: partial(self._merge_bucket, name) for name in self.others
        }
        self.objectives = {
            name: modules.load_objective(config, name) for name in self.graph.objectives
        }

    def _merge_bucket(
        self, bucket: str, outputs: jax.Array, routes: RouteArrays | None, rows: ModuleRows
    ) -> tuple[jax.Array | None, Samples]:
        """See `sharding.layerstack.module.Merge`; `rows` are the backbone's."""
        module, view = self.others[bucket], self.backbone.view
        with jax.named_scope(f"exchange_{bucket}"):
            exchange = self._exchanges.get(bucket, DEFAULT_EXCHANGE)
            moved = merge_outputs(outputs, bucket, routes, rows, module.view, view, exchange)
            merged, selected = module.split_outputs(moved.astype(self.backbone.dtype))
        slots = [
            target.weights.shape[1] for target in rows.targets.values() if _is_of_samples(target)
        ]
        samples = {
            f"{module.name}.{select}": select_samples(x, rows.segment_ids, slots[0], "sum", view)
            for select, x in selected.items()
            if slots
        }
        return merged if module.name in self.graph.merged else None, samples

    def merged_outputs(
        self,
        params: Any,
        rows: Mapping[str, ModuleRows],
        routes: Mapping[str, RouteArrays],
        encoded: Mapping[str, jax.Array] = NOTHING_ENCODED,
    ) -> jax.Array | None:
        """Outputs of other modules where they are merged, `[rows, tokens / shards, d_model]`.

        Zero elsewhere; None where nothing is merged.

        Args:
            params: local shards of the model.
            rows: local rows of one microbatch, by bucket.
            routes: routes of its outputs, by bucket; nothing if media are in the rows of their
                samples.
            encoded: outputs of buckets that other devices have encoded.
        """
        return self._sum_merged(self.graph.merged, params, rows, routes, encoded)[0]

    def _sum_merged(
        self,
        names: Collection[str],
        params: Any,
        rows: Mapping[str, ModuleRows],
        routes: Mapping[str, RouteArrays],
        encoded: Mapping[str, jax.Array],
    ) -> tuple[jax.Array | None, Samples]:
        """The outputs of modules in the backbone's rows; arguments as of `decode`.

        Returns:
            The sum of those that are merged, and what edges into objectives bring.
        """
        target, merged = rows[self.config.backbone], list[jax.Array]()
        samples: Samples = {}
        for bucket, module in self.others.items():
            if module.name in names:
                outputs = encoded.get(bucket)
                if outputs is None:
                    outputs = self.encode_bucket(bucket, params, rows[bucket])
                of_merged, brought = self.merges[bucket](outputs, routes.get(bucket), target)
                merged += [] if of_merged is None else [of_merged]
                samples |= {k: samples[k] + x if k in samples else x for k, x in brought.items()}
        return sum(merged[1:], merged[0]) if merged else None, samples

    def encode_bucket(self, bucket: str, params: Any, rows: ModuleRows) -> jax.Array:
        """The outputs of a bucket, `[rows, outputs / shards, width]`, on the stream that it has.

        Without inputs nothing is computed: of a module with several buckets a row, of others all
        rows of this rank.
        """
        module = self.others[bucket]

        def run(params: Any, rows: ModuleRows) -> jax.Array:
            def encode(rows: ModuleRows) -> jax.Array:
                with jax.named_scope(f"encode_{bucket}"):
                    return module.forward(params, rows)[0]

            def fill_row(rows: ModuleRows) -> jax.Array:
                return _value_or_zeros(module.has_inputs(rows), lambda: encode(rows))

            return fill_row(rows) if bucket == module.name else _map_single_rows(fill_row, rows)

        return run_on_stream(run, self._streams.get(bucket))(params[module.name], rows)

    def forward(
        self,
        params: Any,
        rows: Mapping[str, ModuleRows],
        routes: Mapping[str, RouteArrays],
        encoded: Mapping[str, jax.Array] = NOTHING_ENCODED,
    ) -> tuple[Outputs, Aux]:
        """What the objectives read of one microbatch, and this rank's part of auxiliary losses.

        Args:
            params, rows, routes, encoded: as of `merged_outputs`.
        """
        hidden, aux, samples = self.decode(params, rows, routes, encoded)
        return self.objective_inputs(params, rows, routes, hidden, samples, encoded), aux

    def decode(
        self,
        params: Any,
        rows: Mapping[str, ModuleRows],
        routes: Mapping[str, RouteArrays],
        encoded: Mapping[str, jax.Array] = NOTHING_ENCODED,
    ) -> tuple[jax.Array, Aux, Samples]:
        """The backbone on a microbatch, with what is merged into its rows.

        Args:
            params, rows, routes, encoded: as of `merged_outputs`.

        Returns:
            The backbone's outputs, this rank's part of auxiliary losses, and what merged modules
            bring to objectives.
        """
        name = self.config.backbone
        merged, samples = self._sum_merged(self.graph.merged, params, rows, routes, encoded)
        with jax.named_scope("decode"):
            hidden, aux = self.backbone.forward(params[name], rows[name], merged)
        return hidden, aux, samples

    def objective_inputs(
        self,
        params: Any,
        rows: Mapping[str, ModuleRows],
        routes: Mapping[str, RouteArrays],
        hidden: jax.Array,
        samples: Samples,
        encoded: Mapping[str, jax.Array] = NOTHING_ENCODED,
    ) -> Outputs:
        """What the objectives read of one microbatch.

        Args:
            params, rows, routes, encoded: as of `decode`.
            hidden, samples: its results.
        """
        unmerged = {m.name for m in self.others.values()} - {*self.graph.merged}
        samples = samples | self._sum_merged(unmerged, params, rows, routes, encoded)[1]
        backbone_rows, inputs = rows[self.config.backbone], Outputs()
        for objective in self.graph.objectives:
            for edge in self.graph.edges_into(objective):
                with jax.named_scope("loss"):
                    value = self._edge_output(edge, hidden, params, backbone_rows, samples)
                inputs.setdefault(objective, {})[edge.source] = value
        return inputs

    def _edge_output(
        self,
        edge: Edge,
        outputs: jax.Array,
        params: Any,
        rows: ModuleRows,
        samples: Samples,
    ) -> Any:
        """What an edge brings to its objective.

        Args:
            outputs, rows: those of the backbone.
            samples: as of `_sum_merged`.
        """
        name, view, targets = self.config.backbone, self.backbone.view, rows.targets[edge.target]
        if isinstance(targets, NextTokenTargets):
            return modules.token_outputs(params[name], outputs, self.config, view)
        if edge.source == name:
            source, count = self.backbone, targets.weights.shape[1]
            chosen = select_samples(outputs, rows.segment_ids, count, _CHOICES[edge.select], view)
        else:
            source = next(module for module in self.others.values() if module.name == edge.source)
            chosen = samples[f"{edge.source}.{edge.select}"]
        return source.apply_head(edge.target, params[edge.source], chosen)

    def compute_losses(
        self, params: Any, outputs: Outputs, targets: Mapping[str, Any]
    ) -> dict[str, jax.Array]:
        """Sums of losses, not divided, the same scalars on every rank.

        Args:
            params: local shards of the model.
            outputs: as of `forward`, of some objectives.
            targets: those of the backbone's rows.
        """
        with jax.named_scope("loss"):
            return {
                name: self._objective_loss(name, params, outputs[name], targets) for name in outputs
            }

    def _objective_loss(
        self, name: str, params: Any, outputs: Mapping[str, Any], targets: Mapping[str, Any]
    ) -> jax.Array:
        summed = self.objectives[name].summed_axes(self.backbone.view)
        return psum(self._local_loss(name, params[self.config.backbone], outputs, targets), summed)

    def _local_loss(
        self, name: str, params: Any, outputs: Mapping[str, Any], targets: Mapping[str, Any]
    ) -> jax.Array:
        """This rank's share of the sum of losses of an objective; `params` are the backbone's."""
        objective_params = params.get(f"{OBJECTIVE}{name}", {})
        return self.objectives[name].loss(
            objective_params, outputs, targets[name], self.backbone.view
        )

    def loss(
        self,
        params: Any,
        rows: Mapping[str, ModuleRows],
        routes: Mapping[str, RouteArrays],
        encoded: Mapping[str, jax.Array] = NOTHING_ENCODED,
    ) -> tuple[dict[str, jax.Array], Aux]:
        """Sums of the losses of a microbatch by objective, and of the auxiliary losses.

        They are the same scalars on every rank; objectives of a step have none.

        Args:
            params, rows, routes, encoded: as of `merged_outputs`.
        """
        outputs, aux = self.forward(params, rows, routes, encoded)
        outputs = {
            name: output for name, output in outputs.items() if name not in self.step_objectives
        }
        losses = self.compute_losses(params, outputs, rows[self.config.backbone].targets)
        return losses, psum(aux, self.backbone.view.position_axes)

    @property
    def step_objectives(self) -> frozenset[str]:
        """Objectives that wait for the outputs of all microbatches of a step."""
        objectives = self.graph.objectives.items()
        return frozenset(name for name, objective in objectives if objective.scope == "step")

    @property
    def losses_by_name(self) -> dict[str, Loss]:
        """The losses of a microbatch."""
        return {name: partial(self._loss_of_rows, name) for name in self.objectives}

    def _loss_of_rows(
        self, name: str, params: Any, outputs: jax.Array, samples: Samples, rows: ModuleRows
    ) -> jax.Array:
        """See `sharding.layerstack.module.Loss`."""
        brought = {
            edge.source: self._edge_output(edge, outputs, params, rows, samples)
            for edge in self.graph.edges_into(name)
        }
        return self._local_loss(name, params[self.config.backbone], brought, rows.targets)


def _is_of_samples(targets: Any) -> bool:
    return not isinstance(targets, NextTokenTargets)


def _map_single_rows(make: Callable[[Any], jax.Array], rows: Any) -> jax.Array:
    """`make` of every row `[1, ...]` by itself, one after the other."""
    single_rows = jax.tree.map(lambda x: x[:, None], rows)
    _, results = lax.scan(lambda _, row: (None, make(row)), None, single_rows)
    return results.reshape(-1, *results.shape[2:])


def _value_or_zeros(condition: jax.Array, make: Callable[[], jax.Array]) -> jax.Array:
    """`make()` where `condition` holds, else zeros."""
    expected = jax.eval_shape(make)

    def make_zeros() -> jax.Array:
        zeros = jnp.zeros(expected.shape, expected.dtype)
        return vary(zeros, tuple(sorted(jax.typeof(expected).mat.varying)))

    return lax.cond(condition, make, make_zeros)
