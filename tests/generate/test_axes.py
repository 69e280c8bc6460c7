"""Answers of a decoder with positions on three axes and spans are those without a cache."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from data.batch import PackedBatch
from data.loading.evaluation import PromptSlot
from data.rows.tokens import TextSpan
from data.sample import Grid
from mllm_jax.check.verify import initial_parameters
from mllm_jax.config.inputs import token_spec
from mllm_jax.models import module as multimodal
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.decoding.columns import AnswerColumns
from mllm_jax.train.decoding.programs import DecodingPrograms
from mllm_jax.train.decoding.sampling import TokenSampling
from mllm_jax.train.step.build import build_step
from sharding.grid import MeshView
from sharding.plan import ParallelPlan
from tests.models import towers
from tests.models.layer_kinds import three_axes

MODEL = three_axes()
SPEC = token_spec(MODEL)
TOKENS, MOST = 32, 6
RNG = np.random.default_rng(0)
#: The tokens of prompts, and their spans. The first has fewer positions than tokens.
PROMPTS = [
    (RNG.integers(0, 32, 9), [TextSpan(1, 6, Grid(1, 2, 3), "image")]),
    (RNG.integers(0, 32, 5), [TextSpan(2, 2, Grid(2, 1, 1, 0.5), "image")]),
]


def test_answers_are_those_without_a_cache() -> None:
    """Both prompts in one row, whose answers grow side by side."""
    params: Any = jax.tree.map(lambda x: jnp.asarray(4 * x), initial_parameters(MODEL, seed=1))
    step = build_step(MODEL, {"decoder": ParallelPlan()}, devices=jax.devices()[:1])
    decoding = DecodingPrograms(step, ())
    rows, slots, start = SPEC.empty_rows((1, TOKENS), []), [], 0
    for segment, (tokens, spans) in enumerate(PROMPTS, 1):
        SPEC.write(rows, 0, start, segment, len(tokens), spans)
        rows.inputs[0, start : start + len(tokens)] = tokens
        slots.append(PromptSlot(segment, 0, start, len(tokens), segment, ()))
        start += len(tokens)
    columns = AnswerColumns.from_prompts(slots, [0], decoding.columns_unit, [MOST] * len(slots))
    prepared = decoding.prepare_parameters(step.form.to_stored(params))
    batch = PackedBatch({BACKBONE: rows})
    found = decoding.write_answers(prepared, batch, columns, MOST, TokenSampling()).answers
    assert found == without_cache(params["decoder"])
    assert len({*found[0], *found[1]}) > 2


def without_cache(params: Any) -> list[list[int]]:
    """The most likely tokens, each by all tokens before it."""

    @jax.jit
    def following(rows: ModuleRows) -> jax.Array:
        hidden, _ = towers.decode_hidden(params, rows, None, MODEL, MeshView())
        return multimodal.greedy_tokens(params, hidden, MODEL, MeshView())

    written = [list(map(int, tokens)) for tokens, _ in PROMPTS]
    for _ in range(MOST):
        rows = SPEC.empty_rows((len(PROMPTS), TOKENS), [])
        for row, (tokens, (_, spans)) in enumerate(zip(written, PROMPTS, strict=True)):
            SPEC.write(rows, row, 0, 1, len(tokens), spans)
            rows.inputs[row, : len(tokens)] = tokens
        best = np.asarray(following(jax.tree.map(jnp.asarray, rows)))
        for row, tokens in enumerate(written):
            tokens.append(int(best[row, len(tokens) - 1]))
    return [tokens[-MOST:] for tokens in written]
