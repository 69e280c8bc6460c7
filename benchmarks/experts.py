"""Benchmark of mixture-of-experts layers: time follows the experts of a token, not all experts."""

from __future__ import annotations

import time
from typing import Any

import jax

from benchmarks.pipeline import PrintLine, Row
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.models.module import model_flops
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step

#: Times that every model's gradients are computed; the fastest counts.
TURNS = 5
#: The largest ratio to the dense model that is no failure to use the experts of a token alone.
LIMIT = 1.5


def bench_experts(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Forward and backward of the configured decoder, compared with a dense one.

    The dense model has an MLP as wide as all experts of a token together. Between them stand models
    of fewer experts with the same `top_k`. All compute the same batch, in turns.

    Columns: `experts`, 0 of the dense model; `parameters`; `flops` of the model for the batch;
    `seconds`; `over_dense`, this over that of the dense model; `limit` on it.

    Raises:
        ConfigError: the decoder has no experts, or layers without them. Such layers keep their own
            width, so that no dense model has equally many active parameters in every layer.
    """
    experts = config.model.backbone_config.experts
    if experts is None:
        reason = (
            "the decoder has none; valid: experts in every layer, as in configs/bench/experts.yaml"
        )
        raise ConfigError(
            "bench experts", [f"{config.model_key(config.model.backbone)}.experts: {reason}"]
        )
    _check_all_layers(config, experts)
    counts = [
        0,
        *(n for n in (2 * experts.top_k, 8 * experts.top_k) if n < experts.count),
        experts.count,
    ]
    runs = []
    for count in counts:
        print_line(f"compiling {f'{count} experts' if count else 'the dense model'}")
        runs.append(_Run(_with_experts(config, count)))
    for turn in range(TURNS):
        print_line(f"turn {turn + 1} of {TURNS}")
        for run in runs:
            run.measure_once()
    return [
        {
            "experts": count,
            **run.columns,
            "over_dense": run.seconds / runs[0].seconds,
            "limit": LIMIT,
        }
        for count, run in zip(counts, runs, strict=True)
    ]


def _check_all_layers(config: ExperimentConfig, experts: ExpertsConfig) -> None:
    """Raise ConfigError if some layers have an MLP in place of experts."""
    for key, value, valid in (("every", experts.every, 1), ("first_dense", experts.first_dense, 0)):
        if value != valid:
            reason = f"{value} leaves layers whose MLP is not compared; valid: {valid}"
            where = f"{config.model_key(config.model.backbone)}.experts.{key}"
            raise ConfigError("bench experts", [f"{where}: {reason}"])


def _with_experts(config: ExperimentConfig, count: int) -> ExperimentConfig:
    """The experiment with another number of experts, or without any but equally active."""
    decoder = config.model.backbone_config
    assert decoder.experts is not None  # as the benchmark has checked
    changes: dict[str, Any]
    if count:
        changes = {"experts": decoder.experts.model_copy(update={"count": count})}
    else:
        width = decoder.experts.active_d_ff
        changes = {"family": "llama", "experts": None, "d_ff": width}
    model = config.model.with_modules({config.model.backbone: decoder.model_copy(update=changes)})
    return config.model_copy(update={"model": model})


class _Run:
    """The gradients of one model."""

    def __init__(self, config: ExperimentConfig) -> None:
        self._step = build_gradient_step(config)
        tokens, rows = config.data.budgets["tokens"], config.data.rows
        batch = synthetic_batch(config.model, rows, tokens, {}, seed=0)
        self._params = self._step.init(jax.random.key(config.train.seed))["params"]
        placed = place_microbatches([batch], self._step)
        self._batch = self._step.prime_batch(self._params, placed)
        lengths = {config.model.backbone: [tokens] * rows}
        self._flops = model_flops(config.model, lengths, targets=rows * tokens)
        self.seconds = float("inf")
        self._compute_gradients()

    def _compute_gradients(self) -> None:
        jax.block_until_ready(self._step.gradients(self._params, self._batch))

    def measure_once(self) -> None:
        """Compute the gradients once more, and keep the time if it is the shortest."""
        begin = time.perf_counter()
        self._compute_gradients()
        self.seconds = min(self.seconds, time.perf_counter() - begin)

    @property
    def columns(self) -> Row:
        """Columns of the table."""
        count = sum(leaf.size for leaf in jax.tree.leaves(self._params))
        return {"parameters": count, "flops": self._flops, "seconds": self.seconds}
