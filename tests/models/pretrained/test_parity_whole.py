"""Whole multimodal checkpoints give the results of the public implementation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.batch import PackedBatch
from data.planning.layout import SamplePlacement
from mllm_jax.check.verify import loss_and_gradients, relative_error
from mllm_jax.layers import transformer as decoder
from mllm_jax.layers.adapters import adapt_blocks
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from sharding.grid import MeshView
from sharding.plan import ParallelPlan
from tests.models import towers
from tests.models.pretrained.conversations import example, packed
from tests.models.pretrained.stored import LIMIT, arrays, check_gradients, close, imported

FAMILIES = ("llava", "llava_onevision", "qwen2_audio")
_CHATS = ("one", "two", "text")
CHATS = {
    "llava": _CHATS,
    "llava_onevision": ("wide", "large", "tall", "tiny", "two", "text"),
    "qwen2_audio": _CHATS,
}
BUDGETS = {
    "llava": {"tokens": 256, "vision": 64},
    "llava_onevision": {"tokens": 480, "vision": 288},
    "qwen2_audio": {"tokens": 320, "audio": 96},
}
#: Rows of the conversations, and of the media of each.
LAYOUTS = {
    "alone": {
        "llava": ([0, 1, 2], [[0], [1, 1], []]),
        "llava_onevision": ([0, 1, 2, 3, 4, 5], [[0], [1], [2], [3], [4, 4], []]),
        "qwen2_audio": ([0, 1, 2], [[0], [1, 1, 1], []]),
    },
    "packed": {
        "llava": ([0, 0, 0], [[0], [0, 0], []]),
        "llava_onevision": ([0, 0, 0, 0, 0, 0], [[0], [0], [0], [0], [0, 0], []]),
        "qwen2_audio": ([0, 0, 0], [[0], [0, 0, 0], []]),
    },
    "crossed": {
        "llava": ([1, 0, 1], [[0], [1, 0], []]),
        "llava_onevision": ([1, 0, 1, 0, 1, 0], [[0], [1], [1], [1], [1, 0], []]),
        "qwen2_audio": ([1, 0, 1], [[1], [0, 1, 0], []]),
    },
}


def laid(
    family: str, layout: str
) -> tuple[ModelConfig, Any, PackedBatch, tuple[SamplePlacement, ...]]:
    """A model, its parameters and a batch of all conversations."""
    config, params, _ = imported(family)
    examples = [example(family, name, config) for name in CHATS[family]]
    return config, params, *packed(examples, config, BUDGETS[family], *LAYOUTS[layout][family])


def forward(config: ModelConfig, params: Any, batch: PackedBatch) -> tuple[jax.Array, ...]:
    """Landed outputs and newlines, states after the last norm, logits, and losses of tokens."""
    (name,), rows = config.encoders, batch.text_rows
    outputs = towers.encode(params[name], name, batch.rows[name], config, MeshView())
    index, flat = rows.merges[name], outputs.reshape(-1, outputs.shape[-1])
    media = jnp.where((index >= 0)[..., None], flat[index], 0)
    hidden, _ = towers.decode_hidden(params["decoder"], rows, media, config, MeshView())
    if config.decoder.extra_tokens:
        newline = params["decoder"]["extra_embedding"]["embedding"][0]
        media = jnp.where(newlines(config, rows.inputs)[..., None], newline, media)
    tower = decoder.build_decoder_blocks(config.decoder, "reference")
    tower = adapt_blocks(tower, "decoder", config.adapters)
    terms = decoder.head_terms(tower, params["decoder"], hidden, MeshView())
    logits = sum((x @ kernel for x, kernel in terms), jnp.zeros(()))
    targets = rows.next_token
    labels = jnp.where(targets.weights > 0, targets.labels, 0)
    chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    nll = jax.nn.logsumexp(logits, axis=-1) - chosen
    return media, hidden, logits, nll * targets.weights


def newlines(config: ModelConfig, tokens: Any) -> Any:
    """Tokens after the vocabulary."""
    return tokens >= config.decoder.vocab_size


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_conversations_give_the_same(family: str, layout: str) -> None:
    """However they are packed: their features, states, losses and logits."""
    config, params, batch, placements = laid(family, layout)
    _, expected = arrays(family)
    found = jax.jit(lambda p: forward(config, p, batch))(params)
    for name, place in zip(CHATS[family], placements, strict=True):
        here = place.row, slice(place.start, place.start + place.lengths.total("decoder"))
        media, hidden, logits, nll = (np.asarray(array)[here] for array in found)
        merged = batch.text_rows.merges[next(iter(config.encoders))][here] >= 0
        merged |= newlines(config, batch.text_rows.inputs[here])
        if merged.any():
            close(media[merged], expected[f"{name}.features"], f"{name}.features")
        close(hidden[None, -24:], expected[f"{name}.hidden"], f"{name}.hidden")
        close(logits[None, -2:], expected[f"{name}.logits"], f"{name}.logits")
        close(nll[None], expected[f"{name}.nll"], f"{name}.nll")
        assert relative_error(nll.sum(), expected[f"{name}.loss"]) < LIMIT


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders_give_the_same(family: str) -> None:
    """The projector's inputs are the same: patches without class tokens, and averages."""
    config, params, batch, placements = laid(family, "alone")
    (name,) = config.encoders
    encoder = multimodal.ShardedModule(config, name, MeshView())
    own, rows = params[name], batch.rows[name]
    x = encoder.embed(own, rows)
    for layer in range(encoder.settings.layers):
        one = jax.tree.map(lambda leaf, layer=layer: leaf[layer], own["layers"])
        x, _ = encoder.layer(one, x, encoder.context(rows))
    if family == "qwen2_audio":
        x = encoder.apply_norm(own, (x[:, ::2] + x[:, 1::2]) / 2)
    _, start, _ = placements[0].media[name][0]
    wanted = np.concatenate(arrays(family)[1][f"{CHATS[family][0]}.encoder"])
    outputs = int((batch.text_rows.merges[name][0] >= 0).sum())
    if family == "llava_onevision":
        outputs = int((rows.segment_ids[0] > 0).sum())  # whether they are merged or not
    assert start == 0
    close(x[0, :outputs], wanted[:outputs], "encoder")
    assert not wanted[outputs:].any()


PLANS = {
    "single": (ParallelPlan(), ParallelPlan()),
    "sharded": (ParallelPlan(data=2, tensor=2), ParallelPlan(fsdp=2, context=2)),
    "other way": (ParallelPlan(fsdp=2, context=2), ParallelPlan(data=2, tensor=2)),
}


@pytest.mark.parametrize(
    "plan",
    ["sharded", *(pytest.param(own, marks=pytest.mark.slow) for own in ("single", "other way"))],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_gives_the_same_gradients(family: str, plan: str) -> None:
    """Media lie in other rows than their conversations, on one device and on four."""
    config, params, batch, _ = laid(family, "crossed")
    _, expected = arrays(family)
    (name,) = config.encoders
    plans = dict(zip(("decoder", name), PLANS[plan], strict=True))
    loss, gradients = loss_and_gradients(config, plans, params, [batch])
    weight = batch.text_rows.next_token.weights.sum()
    assert relative_error(loss * weight, expected["batch.loss"]) < LIMIT
    scaled = jax.tree.map(lambda leaf: leaf * weight, gradients)
    check_gradients(scaled, expected, imported(family)[2])
