"""Packed equals alone: outputs and gradients of every family, and no leaks between segments."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from sharding.grid import MeshView
from tests.models import towers
from tests.models.layer_kinds import windowed

VIEW = MeshView()
TEXTS = [7, 1, 12]
#: Images of 2x2, 3x4 (the learned grid) and 2x3 patches; clips of odd and even lengths.
MEDIA = {"image": ([4, 12, 6], [2, 4, 3]), "audio": ([5, 8, 3], [1, 1, 1])}
#: An encoder of two kinds of layers, of which one sees windows.
WINDOWED = "siglip windows"


def decoder_loss(config: ModelConfig) -> Callable[..., Any]:
    def loss(params: Any, batch: ModuleRows) -> Any:
        hidden, _ = towers.decode_hidden(params, batch, None, config, VIEW)
        return towers.loss(params, hidden, batch, config, VIEW), hidden

    return towers.quick(jax.value_and_grad(loss, has_aux=True))


def encoder_loss(config: ModelConfig) -> Callable[..., Any]:
    def loss(params: Any, batch: ModuleRows, weight: jax.Array) -> Any:
        outputs = towers.encode(params, "media", batch, config, VIEW)
        return jnp.sum(outputs * weight), outputs

    return towers.quick(jax.value_and_grad(loss, has_aux=True))


def media_spans(config: ModelConfig, rows: towers.Rows) -> list[tuple[int, slice]]:
    """Row and output positions of every medium."""
    unit = config.reduction("media")
    return [(row, slice(start // unit, -(-(start + n) // unit))) for row, start, n in rows.spans]


@pytest.mark.parametrize("family", towers.DECODERS)
def test_packed_text_equals_text_alone(family: str) -> None:
    config = towers.model(family, decoder_changes={"layers": 2})
    params = towers.parameters(config)["decoder"]
    texts = towers.texts(TEXTS)
    packed = towers.lay([TEXTS, [], []], 24)
    alone = towers.lay([[n] for n in TEXTS], 24)
    step = decoder_loss(config)
    (loss, hidden), gradients = step(params, towers.text_rows(packed, texts))
    (expected_loss, expected), expected_gradients = step(params, towers.text_rows(alone, texts))
    assert loss == pytest.approx(float(expected_loss), rel=1e-5)
    for (row, start, n), (row2, start2, _) in zip(packed.spans, alone.spans, strict=True):
        actual = hidden[row, start : start + n]
        np.testing.assert_allclose(actual, expected[row2, start2 : start2 + n], atol=2e-5)
    error, leaf = towers.worst_error(expected_gradients, gradients)
    assert error < 1e-5, leaf


@pytest.mark.parametrize("family", [*towers.ENCODERS, *towers.VARIANTS, WINDOWED])
def test_packed_media_equal_media_alone(family: str) -> None:
    config = (
        windowed(towers.model(encoder="siglip"))
        if family == WINDOWED
        else towers.model(encoder=family)
    )
    settings = config.encoders["media"]
    params = towers.parameters(config)["media"]
    lengths, columns = MEDIA[settings.media_kind]
    media = towers.signals(lengths, settings.features)
    rng = np.random.default_rng(1)
    step, results = encoder_loss(config), []
    targets = [rng.normal(size=(-(-n // config.reduction("media")), 32)) for n in lengths]
    for layout in ([lengths, [], []], [[n] for n in lengths]):
        rows = towers.lay(layout, 32, config.reduction("media"))
        weight = np.zeros((3, 32 // config.reduction("media"), 32), np.float32)
        for span, target in zip(media_spans(config, rows), targets, strict=True):
            weight[span] = target
        batch = towers.media_rows(config, rows, media, columns)
        if family == WINDOWED:  # of four patches, numbered as the data pipeline does
            ids = np.where(rows.ids > 0, np.arange(32) - rows.index + 1 + rows.index // 4, 0)
            batch = replace(batch, arrays={**batch.arrays, "window_ids": ids})
        (_, outputs), gradients = step(params, batch, weight)
        picked = [outputs[span] for span in media_spans(config, rows)]
        results.append((np.concatenate(picked), gradients))
    np.testing.assert_allclose(results[0][0], results[1][0], atol=2e-5)
    error, leaf = towers.worst_error(results[1][1], results[0][1])
    assert error < 1e-5, leaf


@pytest.mark.parametrize("family", towers.ENCODERS + towers.VARIANTS)
def test_a_medium_does_not_reach_its_neighbours(family: str) -> None:
    config = towers.model(encoder=family)
    settings = config.encoders["media"]
    params = towers.parameters(config)["media"]
    lengths, columns = MEDIA[settings.media_kind]
    media = towers.signals(lengths, settings.features)
    rows = towers.lay([lengths], 32, config.reduction("media"))
    encode = towers.quick(lambda batch: towers.encode(params, "media", batch, config, VIEW))
    before = np.asarray(encode(towers.media_rows(config, rows, media, columns)))
    media[1] = media[1] + 3.0
    after = np.asarray(encode(towers.media_rows(config, rows, media, columns)))
    first, changed, last = (before[span] == after[span] for span in media_spans(config, rows))
    assert first.all()
    assert last.all()
    assert not changed.any(axis=-1).all()


@pytest.mark.parametrize("family", towers.DECODERS)
def test_a_text_does_not_reach_its_neighbours(family: str) -> None:
    config = towers.model(family)
    params = towers.parameters(config)["decoder"]
    rows, texts = towers.lay([TEXTS], 24), towers.texts(TEXTS)
    run = towers.quick(lambda p, b: towers.decode_hidden(p, b, None, config, VIEW)[0])
    before = np.asarray(run(params, towers.text_rows(rows, texts)))[0]
    texts[0] = (texts[0] + 1) % towers.VOCAB
    after = np.asarray(run(params, towers.text_rows(rows, texts)))[0]
    assert not (before[:7] == after[:7]).all()
    np.testing.assert_array_equal(before[7:], after[7:])


def test_media_replace_the_tokens_where_they_are_merged() -> None:
    config = towers.model()
    params = towers.parameters(config)["decoder"]
    rows = towers.lay([[8]], 8)
    batch = towers.text_rows(rows, towers.texts([8]))
    index = np.full((1, 8), -1, np.int32)
    index[0, 2:4] = (0, 1)
    batch = replace(batch, merges={"media": index})
    media = jnp.repeat(jnp.where(index[..., None] >= 0, 0.5, 0.0), 32, axis=-1)
    before, _ = towers.decode_hidden(params, batch, media, config, VIEW)
    batch = replace(batch, inputs=np.where(index >= 0, 0, batch.inputs))
    after, _ = towers.decode_hidden(params, batch, media, config, VIEW)
    np.testing.assert_array_equal(before, after)
    other, _ = towers.decode_hidden(params, batch, 2 * media, config, VIEW)
    assert (np.asarray(other)[0, 2:] != np.asarray(after)[0, 2:]).all(axis=-1).all()
    np.testing.assert_array_equal(np.asarray(other)[0, :2], np.asarray(after)[0, :2])
