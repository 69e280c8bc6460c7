"""Retrieval: how often the nearest of all partners is a sample's own.

::

    cosines   captions
    images    0.9  0.2      image 0 finds its caption, and caption 0 its image;
              0.8  0.7      image 1 finds caption 0, but caption 1 finds image 1
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from mllm_jax.models.model import Model
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.train.step.batch_placement import gather_to_host
from mllm_jax.train.step.gradient_program import Batch, first_microbatch
from mllm_jax.train.step.step import Step

#: Cosines that differ by less are equal: the same caption in two rows is rounded twice.
ROUNDING = 1e-6
Floats = NDArray[np.floating[Any]]


class PairOutputs(NamedTuple):
    """Outputs that an objective of pairs compares.

    Attributes:
        first, second: what its edges bring of every sample, `[samples, dimensions]`.
    """

    first: Floats
    second: Floats

    def recall_at_1(self) -> tuple[float, float]:
        """Shares of samples whose own partner is the nearest, from first to second and back.

        Near is a large cosine; a partner that is as near as another one counts.
        """
        first, second = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in self)
        cosines = first @ second.T
        positives = np.diagonal(cosines) + ROUNDING
        forth, back = (float(np.mean(positives >= cosines.max(axis=axis))) for axis in (1, 0))
        return forth, back


class PairReader:
    """Reads what the objectives of pairs compare, batch by batch.

    Args:
        step: step whose shardings serve forward passes.
        modules: the model's modules under its views.
    """

    def __init__(self, step: Step, modules: Model) -> None:
        self._step, self._modules = step, modules
        graph = modules.graph
        self._sources = {
            name: [edge.source for edge in graph.edges_into(name)] for name in graph.retrieved
        }
        rows = PartitionSpec(modules.backbone.view.batch_axes or None)
        pick = step.shard_over_mesh(self._pick, step.forward_specs, rows)
        self._read = synchronize_program(
            "held-out pairs", step.jit_on(modules.config.backbone, pick, rows)
        )
        self._outputs: dict[str, list[PairOutputs]] = {name: [] for name in self._sources}

    def read(self, params: Any, batch: Batch) -> int:
        """Keep the outputs of the samples of a batch, on every process; their number."""
        count = 0
        for name, arrays in self._read(*self._step.forward_inputs(params, batch)).items():
            first, second, weights = map(gather_to_host, arrays)
            exists = weights > 0
            self._outputs[name].append(PairOutputs(first[exists], second[exists]))
            count = int(exists.sum())
        return count

    def measure(self) -> dict[str, Any]:
        """`recall_at_1` of all samples that were read, by objective and direction, and `retrieved`,
        their number by objective."""
        recalls, counts = dict[str, float](), dict[str, int]()
        for name, outputs in self._outputs.items():
            pairs = PairOutputs(*map(np.concatenate, zip(*outputs, strict=True)))
            first, second = self._sources[name]
            directions = f"{name}/{first}_to_{second}", f"{name}/{second}_to_{first}"
            recalls |= zip(directions, pairs.recall_at_1(), strict=True)
            counts[name] = len(pairs.first)
        return {"recall_at_1": recalls, "retrieved": counts}

    def _pick(self, params: Any, batch: Batch) -> dict[str, tuple[jax.Array, ...]]:
        """By objective, what its edges bring and the weights of the samples, of local rows."""
        rows, routes, encoded = first_microbatch(batch)
        outputs, _ = self._modules.forward(params, rows, routes, encoded)
        targets = rows[self._modules.config.backbone].targets
        return {
            name: (
                *(outputs[name][n].reshape(-1, outputs[name][n].shape[-1]) for n in sources),
                targets[name].weights.reshape(-1),
            )
            for name, sources in self._sources.items()
        }
