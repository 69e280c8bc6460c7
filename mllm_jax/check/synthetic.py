"""Random packed batches that keep the batch contract, for verification, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.models.config.model import (
    AudioEncoderConfig,
    DecoderConfig,
    EncoderConfig,
    ImageEncoderConfig,
    ModelConfig,
)
from sharding.routes import runs_of

Ints = NDArray[np.int32]


def synthetic_batch(
    model: ModelConfig, rows: int, tokens: int, budgets: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """A batch of `rows` rows with random segments, media, padding and targets.

    Args:
        model: resolved model configuration.
        tokens: decoder positions per row.
        budgets: encoder name to input positions per row, a multiple of its reduction.
        seed: every batch of one seed is the same.
    """
    rng = np.random.default_rng(seed)
    vocab = model.decoder.vocab_size
    segment_ids, positions = _segments(rng, rows, tokens)
    real = segment_ids > 0
    weight = (real & (rng.random((rows, tokens)) < 0.7)).astype(np.float32)
    encoders, media = {}, {}
    free = real.copy()
    for name, encoder in model.encoders.items():
        encoders[name] = _media(rng, encoder, rows, budgets[name])
        if encoder.tile_inputs:
            encoders[name] |= _taps(rng, encoders[name]["segment_ids"][:, :: encoder.reduction])
        media[name] = _index(rng, _landing(encoder, encoders[name]), free)
        free &= media[name] < 0
    decoder = {
        "tokens": np.where(real, _tokens(rng, model.decoder, (rows, tokens)), 0).astype(np.int32),
        "targets": np.where(real, rng.integers(0, vocab, (rows, tokens)), 0).astype(np.int32),
        "loss_weight": weight,
        "segment_ids": segment_ids,
        "positions": positions,
        "media": media,
    }
    return {"decoder": decoder, "encoders": encoders}


def scattered(batch: Any, model: ModelConfig, seed: int) -> dict[str, Any]:
    """The same batch with every encoder's rows in another order, as balancing may deal them.

    Args:
        batch: whole, all of its rows.
        model: resolved model configuration.
        seed: of the order.

    Returns:
        A batch that lists its `runs`.
    """
    rng = np.random.default_rng(seed)
    rows = len(batch["decoder"]["tokens"])
    encoders, media, runs = {}, {}, {}
    for name, tree in batch["encoders"].items():
        order = rng.permutation(rows)
        outputs = tree["segment_ids"].shape[1] // model.encoders[name].reduction
        encoders[name] = {key: array[order] for key, array in tree.items()}
        index = batch["decoder"]["media"][name]
        row, offset = np.divmod(index, outputs)
        moved = np.argsort(order)[row] * outputs + offset
        media[name] = np.where(index >= 0, moved, -1).astype(np.int32)
        runs[name] = runs_of(media[name], outputs)
    return {"decoder": batch["decoder"] | {"media": media}, "encoders": encoders, "runs": runs}


def _tokens(
    rng: np.random.Generator, decoder: DecoderConfig, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Random tokens, a fifth of them behind the vocabulary if there are any."""
    vocab, extra = decoder.vocab_size, decoder.extra_tokens
    tokens = rng.integers(0, vocab, shape)
    if not extra:
        return tokens
    return np.where(rng.random(shape) < 0.2, rng.integers(vocab, vocab + extra, shape), tokens)


def _lengths(rng: np.random.Generator, total: int) -> list[int]:
    """Two to four lengths that leave some padding of `total`."""
    parts = min(int(rng.integers(2, 5)), total)
    cuts = np.sort(rng.choice(np.arange(1, total + 1), size=parts, replace=False))
    return np.diff(np.concatenate([[0], cuts])).tolist()


def _segments(rng: np.random.Generator, rows: int, tokens: int) -> tuple[Ints, Ints]:
    segment_ids = np.zeros((rows, tokens), np.int32)
    positions = np.zeros((rows, tokens), np.int32)
    for row in range(rows):
        start = 0
        for i, length in enumerate(_lengths(rng, tokens)):
            segment_ids[row, start : start + length] = i + 1
            positions[row, start : start + length] = np.arange(length)
            start += length
    return segment_ids, positions


def _media(
    rng: np.random.Generator, encoder: EncoderConfig, rows: int, budget: int
) -> dict[str, NDArray[Any]]:
    """Encoder rows: images of whole reductions, audio clips with some slack at their end."""
    image = isinstance(encoder, ImageEncoderConfig)
    shape = (rows, budget)
    segment_ids = np.zeros(shape, np.int32)
    positions = np.zeros((*shape, 2) if image else shape, np.int32)
    sizes = np.zeros((*shape, 2), np.int32)
    for row in range(rows):
        start = 0
        for i, outputs in enumerate(_media_outputs(rng, encoder, budget)):
            length = outputs * encoder.reduction
            if isinstance(encoder, ImageEncoderConfig):
                own, size = _image(encoder, outputs)
                sizes[row, start : start + len(own)] = size
            else:
                own = np.arange(length - int(rng.integers(encoder.reduction)), dtype=np.int32)
            span = slice(start, start + len(own))
            segment_ids[row, span], positions[row, span] = i + 1, own
            if isinstance(encoder, AudioEncoderConfig):
                segment_ids[row, start + max(1, len(own) - encoder.lookahead) : span.stop] *= -1
            start += length
    inputs = rng.normal(size=(*shape, encoder.features)).astype(np.float32)
    batch = {"inputs": inputs, "segment_ids": segment_ids, "positions": positions}
    return {**batch, "sizes": sizes} if image else batch


def _image(encoder: ImageEncoderConfig, outputs: int) -> tuple[Ints, tuple[int, int]]:
    """Positions and size of an image of `outputs` outputs, one of them its class token's."""
    has = encoder.class_tokens != "none"
    positions, size = _strip(encoder.block, outputs - has)
    before, behind = (1, 0) if encoder.class_tokens == "kept" else (0, int(has))
    return np.pad(positions, ((before, behind), (0, 0)), constant_values=-1), size


def _media_outputs(rng: np.random.Generator, encoder: EncoderConfig, budget: int) -> list[int]:
    """Outputs of the media of a row, or of its tiles, all of which are alike."""
    if not encoder.tile_inputs:
        return _lengths(rng, budget // encoder.reduction)
    tile = encoder.tile_inputs // encoder.reduction
    return [tile] * int(rng.integers(1, budget // encoder.tile_inputs + 1))


def _taps(rng: np.random.Generator, owners: Ints) -> dict[str, NDArray[Any]]:
    """Sums of any four outputs of a row, for each that there is.

    Args:
        rng: of the choice.
        owners: `[rows, outputs]`, segment of each output, 0 where there is none.
    """
    rows, outputs = owners.shape
    taps, shares = np.zeros((rows, outputs, 4), np.int32), np.zeros((rows, outputs, 4), np.float32)
    for row in range(rows):
        there = np.flatnonzero(owners[row])
        taps[row, there] = rng.choice(there, (len(there), 4))
        shares[row, there] = rng.dirichlet(np.ones(4), len(there))
    return {"taps": taps, "shares": shares}


def _strip(block: tuple[int, int], outputs: int) -> tuple[Ints, tuple[int, int]]:
    """Patch positions, block by block, of an image that is `outputs` blocks wide."""
    rows, columns = block
    row, column = np.divmod(np.arange(rows * columns), columns)
    shift = np.arange(outputs)[:, None] * columns
    position = np.stack([np.broadcast_to(row, (outputs, row.size)), column + shift], -1)
    return position.reshape(-1, 2).astype(np.int32), (rows, columns * outputs)


def _landing(encoder: EncoderConfig, batch: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Which outputs of the rows land: not those of dropped class tokens, nor parts of averages."""
    real = batch["segment_ids"][:, :: encoder.stride] > 0
    parts = real.reshape(len(real), -1, encoder.stack)
    if isinstance(encoder, ImageEncoderConfig) and encoder.class_tokens == "dropped":
        return parts[..., 0] & (batch["positions"][:, :: encoder.reduction, 0] >= 0)
    return np.all(parts, axis=-1) if encoder.connector.kind == "average" else parts[..., 0]


def _index(rng: np.random.Generator, landing: NDArray[np.bool_], free: NDArray[np.bool_]) -> Ints:
    """Each landing output of a row at a random free decoder position of the same row."""
    rows, outputs = landing.shape
    index = np.full(free.shape, -1, np.int32)
    for row in range(rows):
        whole = np.flatnonzero(landing[row])
        places = np.flatnonzero(free[row])
        count = min(len(whole), len(places) // 2)
        chosen = np.sort(rng.choice(places, size=count, replace=False))
        index[row, chosen] = row * outputs + whole[:count]
    return index
