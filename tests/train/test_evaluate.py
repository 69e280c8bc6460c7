"""Packed greedy decoding gives every sample what it gets when decoded alone, token by token."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.evaluation import prompt_batches
from data.sources import make_source
from mllm_jax.models import multimodal
from mllm_jax.models.config import ModelConfig
from mllm_jax.train.evaluate import Evaluator
from sharding.grid import View


class OtherEnd:
    """A processor whose end-of-answer token is one that the untrained model does produce."""

    def __init__(self, processor: Any, end_id: int) -> None:
        self._processor, self.end_id = processor, end_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)


def decode_alone(experiment: Any, params: Any, index: int, count: int) -> list[int]:
    """The next `count` tokens of one held-out sample, one full forward for each."""
    config = experiment.config.data.model_copy(update={"rows": 1})
    source = make_source(config, "heldout")

    class One:
        fingerprint: str | None = None
        home = Path()

        def __len__(self) -> int:
            return 1

        def __getitem__(self, _: int) -> Any:
            return source[index]

        def name(self, _: int) -> str:
            return source.name(index)

    rows = {name: [0] for name in ("decoder", *experiment.config.model.encoders)}
    (prompt,) = prompt_batches(One(), experiment.processor, config, rows, count)
    (slot,) = prompt.slots
    batch = jax.tree.map(jnp.asarray, prompt.batch)
    tokens = prompt.batch["decoder"]["tokens"].copy()
    best = jax.jit(partial(_next, experiment.config.model))
    for position in range(slot.start, slot.start + count):
        tokens[0, position] = best(params, batch, tokens)[position - 1]
    return tokens[0, slot.start : slot.start + count].tolist()


def _next(model: ModelConfig, params: Any, batch: Any, tokens: jax.Array) -> jax.Array:
    """The most likely token behind every position of one row, from whole logits."""
    view = View()
    media = jnp.zeros((*tokens.shape, model.decoder.d_model))
    for name in model.encoders:
        out = multimodal.encode(
            params["encoders"][name], name, batch["encoders"][name], model, view
        )
        index = batch["decoder"]["media"][name]
        media += jnp.where((index >= 0)[..., None], out[0][jnp.maximum(index, 0)], 0)
    rows = batch["decoder"] | {"tokens": tokens}
    hidden = multimodal.decode_hidden(params["decoder"], rows, media, model, view)
    return jnp.argmax(hidden[0] @ params["decoder"]["lm_head"]["kernel"], axis=-1)


@pytest.fixture(scope="module")
def params(experiment, fresh_state) -> Any:
    # Larger weights than at the start of training, so that answers depend on their prompts.
    return jax.tree.map(lambda x: x * 2, fresh_state()[0]["params"])


def test_answers_equal_those_of_each_sample_alone(experiment, params):
    count = experiment.config.evaluate.max_new_tokens
    evaluator = Evaluator(experiment)
    host = jax.tree.map(np.asarray, params)
    alone = {i: decode_alone(experiment, host, i, count) for i in range(4)}
    assert len({tuple(ids) for ids in alone.values()}) > 1
    assert packed(evaluator, experiment, params, range(4)) == alone


def packed(evaluator: Evaluator, experiment: Any, params: Any, wanted: range) -> dict[int, Any]:
    reserve = experiment.config.evaluate.max_new_tokens
    found = {}
    for prompts in evaluator.prompts():
        tokens = evaluator.decode(params, prompts)
        for slot in prompts.slots:
            if slot.index in wanted:
                answer = tokens[slot.row, slot.start : slot.start + reserve]
                found[slot.index] = answer.tolist()
    return found


def test_decoding_stops_at_the_end_token_and_not_before(experiment, params):
    free = packed(Evaluator(experiment), experiment, params, range(8))
    end = next(iter(free.values()))[1]
    processor = OtherEnd(experiment.processor, end)
    ending = dataclasses.replace(experiment, processor=processor)
    stopped = packed(Evaluator(ending), experiment, params, range(8))
    for index, ids in free.items():
        written = ids.index(end) + 1 if end in ids else len(ids)
        assert stopped[index][:written] == ids[:written]


def test_exact_match_counts_by_encoder(experiment, params):
    result = Evaluator(experiment)(params)
    assert set(result["exact_match"]) == {"vision", "audio"}
    assert result["evaluated"] == {"vision": 4, "audio": 4}
    assert result["evaluate_skipped"] == {}
