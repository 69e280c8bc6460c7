"""Tokens that come one at a time get what they get in their whole row."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.rows.tokens import TextSpan
from data.sample import Grid
from mllm_jax.config.inputs import token_spec
from mllm_jax.layers.config.kinds import MaskKind, RotarySpec
from mllm_jax.models import module as multimodal
from mllm_jax.models.decoding import CachedDecoder, next_positions, unstack_layers
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from sharding.grid import MeshView
from sharding.layerstack.spec import LayerStackSpec
from tests.layers.attention.mask_cases import changed_fields
from tests.models import towers
from tests.models.layer_kinds import three_axes

SIZES = {"layers": 2, "d_model": 16, "heads": 4, "d_ff": 24, "vocab": 32}
#: Its outputs go to the inputs of two layers.
VISION = {
    "family": "siglip",
    "layers": 2,
    "d_model": 8,
    "heads": 2,
    "d_ff": 8,
    "patch": [2, 2],
    "grid": [2, 2],
    "deepstack": [1, 2],
}
EXPERTS = {"count": 4, "top_k": 2, "d_ff": 8, "every": 2, "balance_weight": 0.01}
MODELS: dict[str, dict[str, Any]] = {
    "windows, side by side, inputs of layers": {
        "decoder": {
            **SIZES,
            "kv_heads": 2,
            "rope_scaling": {"factor": 4.0, "original_max_positions": 8},
            "window": 3,
            "pattern": ["window", "full"],
            "parallel_block": True,
        },
        "encoders": {"vision": VISION},
    },
    "learned positions": {"decoder": {**SIZES, "family": "gpt", "max_positions": 16}},
    "experts in every second layer, windows": {
        "decoder": {**SIZES, "family": "qwen3_moe", "experts": EXPERTS, "window": 4}
    },
    "norms of queries, penalty": {
        "decoder": {**SIZES, "family": "qwen3", "kv_heads": 1, "activation_penalty": 0.1}
    },
}
#: Tokens of two segments of a row, and of those how many are known at once.
LENGTHS, KNOWN = (7, 5), (4, 2)
CASES = [
    pytest.param(name, marks=[] if n == 0 else pytest.mark.slow) for n, name in enumerate(MODELS)
]


#: Of the model whose masks have spans: two known tokens of each segment are one.
THREE_AXES, SPANS = "three axes, spans", [TextSpan(0, 2, Grid(1, 2, 1), "image")]


def model_of(name: str) -> ModelConfig:
    """The model of a case."""
    if name == THREE_AXES:
        return three_axes()
    return ModelConfig.model_validate({**MODELS[name], "dtype": "float32", "loss_chunk": 8})


def rows_of(model: ModelConfig, lengths: tuple[int, ...], tokens: Any) -> ModuleRows:
    """A row of segments, one after the other."""
    spec, starts = token_spec(model), np.cumsum([0, *lengths]).tolist()
    rows = spec.empty_rows((1, starts[-1]), [])
    for segment, (start, length) in enumerate(zip(starts[:-1], lengths, strict=True), 1):
        spec.write(rows, 0, start, segment, length, SPANS)
    rows = replace(rows, inputs=np.concatenate(tokens)[None].astype(np.int32), targets={})
    read: ModuleRows = jax.tree.map(jnp.asarray, rows)
    return read


@pytest.mark.parametrize("name", [*CASES, THREE_AXES])
def test_one_at_a_time_is_all_at_once(name: str) -> None:
    model = model_of(name)
    params = jax.tree.map(lambda x: 2 * x, multimodal.init_parameters(model, jax.random.key(0)))
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 32, n) for n in LENGTHS]
    width = model.decoder.d_model * (1 + model.layer_inputs)
    merged = [rng.normal(size=(n, width)).astype(np.float32) for n in LENGTHS]
    own = CachedDecoder(model, MeshView())

    @jax.jit
    def both(params: Any) -> tuple[jax.Array, list[jax.Array]]:
        decoder = params["decoder"]
        whole = rows_of(model, LENGTHS, texts)
        media = jnp.asarray(np.concatenate(merged)[None])
        # Only the known tokens have media.
        for start, known, length in ((0, KNOWN[0], LENGTHS[0]), (LENGTHS[0], KNOWN[1], LENGTHS[1])):
            media = media.at[:, start + known : start + length].set(0)
        expected, _ = towers.decode_hidden(decoder, whole, media, model, MeshView())
        split = own.unstack_parameters(decoder)
        first = rows_of(model, KNOWN, [text[:n] for text, n in zip(texts, KNOWN, strict=True)])
        begun = jnp.asarray(
            np.concatenate([x[:n] for x, n in zip(merged, KNOWN, strict=True)])[None]
        )
        cache = own.empty_cache(1, sum(KNOWN) + 2 * 3)
        cache = cache.with_tokens(own.token_ids(first), 0)
        _, cache = own.forward_cached(split, first, begun, cache, None)
        found = []
        for step in range(3):
            places = np.array(KNOWN) + step
            here = places + np.array([0, LENGTHS[0]])
            column = jax.tree.map(lambda array, here=here: array[:, here], whole)
            start = sum(KNOWN) + 2 * step
            cache = cache.with_tokens(own.token_ids(column), start)
            hidden, cache = own.forward_cached(split, column, None, cache, jnp.int32(start))
            found.append(hidden)
        return expected, found

    expected, found = both(params)
    for step, hidden in enumerate(found):
        places = [KNOWN[0] + step, LENGTHS[0] + KNOWN[1] + step]
        np.testing.assert_allclose(hidden[0], expected[0, places], rtol=2e-5, atol=2e-5)


def test_the_models_have_every_field_that_a_cache_must_know() -> None:
    """Decoders are causal, and their attention is bounded by segments."""
    models = [model_of(name) for name in (*MODELS, THREE_AXES)]
    kinds = [kind for model in models for kind in model.decoder.layer_kinds]
    masks = {name for kind in kinds for name in changed_fields(kind.mask)}
    assert masks == {own.name for own in fields(MaskKind)} - {"causal", "bounds"}
    plain, turns = RotarySpec(1e4), [kind.rotary for kind in kinds if kind.rotary is not None]
    for own in fields(RotarySpec):
        assert any(getattr(turn, own.name) != getattr(plain, own.name) for turn in turns), own.name


def test_layers_of_a_period_lie_apart_with_what_they_have() -> None:
    spec = LayerStackSpec(2, without=(frozenset({"experts"}), frozenset({"mlp"})))
    stack = {name: np.arange(n) for name, n in (("norm", 4), ("mlp", 2), ("experts", 2))}
    found = unstack_layers({name: {"scale": own} for name, own in stack.items()}, spec, 4)
    assert found == (
        {"norm": {"scale": 0}, "mlp": {"scale": 0}},
        {"norm": {"scale": 1}, "experts": {"scale": 0}},
        {"norm": {"scale": 2}, "mlp": {"scale": 1}},
        {"norm": {"scale": 3}, "experts": {"scale": 1}},
    )


def test_an_answer_begins_after_the_largest_position_of_its_prompt() -> None:
    """An image of two rows is two tokens, and reaches as far as text of two would."""
    model = three_axes()
    spec = token_spec(model)
    rows = spec.empty_rows((2, 12), [])
    spec.write(rows, 0, 0, 1, 6, [TextSpan(1, 4, Grid(1, 2, 2), "image")])
    spec.write(rows, 0, 6, 2, 3)
    spec.write(rows, 1, 2, 1, 4, [TextSpan(0, 4, Grid(1, 1, 4), "image")])
    found = next_positions(jax.tree.map(jnp.asarray, rows), jnp.array([[1, 2], [1, 0]]))
    assert found[0].tolist() == [4, 3]
    assert int(found[1, 0]) == 4
