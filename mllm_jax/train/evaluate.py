"""Greedy decoding of held-out samples, under the plans of training.

Prompts are packed with room for the answer behind each. The encoders run once; then the decoder
runs over the whole row for every new token, all samples of a batch in step::

    row   | what is <image> _ _ _ _ | transcribe <audio> _ _ _ _ | padding
    pass 1                  3                            7
    pass 2                    8                            <end>
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from data.evaluation import PromptBatch, prompt_batches
from data.sources import make_source
from mllm_jax.config import ExperimentConfig
from mllm_jax.models import multimodal
from mllm_jax.train.batch import local_rows, place, whole
from mllm_jax.train.checkpoint import Checkpoints
from mllm_jax.train.experiment import Experiment, RunError
from mllm_jax.train.step import batch_spec, gather_media
from sharding.collectives import psum

#: Tokens written, token ids, answers that go on at their next position, number of those.
Decoding = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


class Evaluator:
    """The compiled decoding program of an experiment and its held-out samples."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._config = experiment.config
        self._source = make_source(self._config.data, "heldout")
        self._rows = local_rows(experiment.grid, experiment.mesh, self._config.data.rows)
        specs = experiment.step.state_specs["params"]
        tokens = batch_spec(experiment.grid.decoder)
        self._decode = jax.jit(experiment.step.shard(self._generate, specs, tokens))

    def __call__(self, params: Any) -> dict[str, Any]:
        """Exact match of whole answers.

        Returns:
            `exact_match` by encoder ("text" for samples without media), `samples` likewise,
            and `skipped`, the number of unusable samples.
        """
        right: dict[str, int] = defaultdict(int)
        total: dict[str, int] = defaultdict(int)
        skipped = 0
        for prompts in self._batches():
            skipped += len(prompts.skipped)
            for (answer, expected), encoders in self._answers(params, prompts):
                for name in encoders or ("text",):
                    total[name] += 1
                    right[name] += answer == expected
        shares = {name: right[name] / total[name] for name in sorted(total)}
        return {"exact_match": shares, "samples": dict(sorted(total.items())), "skipped": skipped}

    def _batches(self) -> Iterator[PromptBatch]:
        return prompt_batches(
            self._source,
            self._experiment.processor,
            self._config.data,
            self._rows,
            self._config.evaluate.max_new_tokens,
            self._config.evaluate.samples,
        )

    def _answers(
        self, params: Any, prompts: PromptBatch
    ) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
        """`((answer, expected answer), encoders)` of every sample of a batch."""
        processor, reserve = self._experiment.processor, self._config.evaluate.max_new_tokens
        batch = prompts.batch
        order = _offsets(prompts, self._rows["decoder"], batch["decoder"]["tokens"].shape, reserve)
        batch = batch | {"decoder": batch["decoder"] | {"order": order}}
        placed = place([batch], self._experiment.grid, self._experiment.mesh)
        tokens = whole(self._decode(params, placed))[0]
        for slot in prompts.slots:
            ids = tokens[slot.row, slot.start : slot.start + reserve].tolist()
            answer = processor.decode(_until(ids, processor.end_id))
            yield (answer, processor.answer(self._source[slot.index])), slot.encoders

    def _generate(self, params: Any, batch: Any) -> jax.Array:
        """Token ids of one batch `[1, rows, tokens]` with the answers filled in."""
        model, views = self._config.model, self._experiment.grid.views
        view, decoder = views["decoder"], params["decoder"]
        batch = jax.tree.map(lambda leaf: leaf[0], batch)
        order, end = batch["decoder"]["order"], self._experiment.processor.end_id
        media = gather_media(params, batch, model, views)

        def step(carry: Decoding) -> Decoding:
            i, tokens, alive, _ = carry
            rows = batch["decoder"] | {"tokens": tokens}
            hidden = multimodal.decode_hidden(decoder, rows, media, model, view)
            best = _shift(multimodal.greedy_tokens(decoder, hidden, model, view))
            tokens = jnp.where(order == i, best, tokens)
            # An answer lives on at its next position unless the token just written ends it.
            alive = _shift(alive & (best != end)) & (order == i + 1)
            return i + 1, tokens, alive, psum(jnp.sum(alive), view.batch)

        def unfinished(carry: Decoding) -> jax.Array:
            return (carry[0] < self._config.evaluate.max_new_tokens) & (carry[3] > 0)

        start = (jnp.int32(0), batch["decoder"]["tokens"], order == 0, jnp.int32(1))
        return lax.while_loop(unfinished, step, start)[1][None]


def evaluate_run(config: ExperimentConfig) -> dict[str, Any]:
    """Evaluate the newest checkpoint of the run.

    Raises:
        RunError: the run has no checkpoint.
        CheckpointError: it cannot be read.
    """
    experiment = Experiment.build(config)
    checkpoints = Checkpoints(config.run.path / "checkpoints", config.checkpoint)
    try:
        restored = checkpoints.restore(experiment.step.abstract)
    finally:
        checkpoints.close()
    if restored is None:
        raise RunError(f"run {config.run.path} has no checkpoint; train it first")
    return {"step": restored.step, **Evaluator(experiment)(restored.state["params"])}


def _offsets(
    prompts: PromptBatch, rows: Sequence[int], shape: tuple[int, ...], reserve: int
) -> np.ndarray:
    """`[rows, tokens]` int32: how many tokens of the answer come before the position, else -1."""
    local = {row: i for i, row in enumerate(rows)}
    order = np.full(shape, -1, np.int32)
    for slot in prompts.slots:
        if slot.row in local:
            order[local[slot.row], slot.start : slot.start + reserve] = np.arange(reserve)
    return order


def _shift(x: jax.Array) -> jax.Array:
    """Every position's value from the position before it."""
    return jnp.roll(x, 1, axis=1)


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids
