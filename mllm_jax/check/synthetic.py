"""Random packed batches that keep the batch contract, for verification, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from data.batch import PackedBatch
from data.planning.independent_microbatches import MEDIUM
from data.rows.pack import by_name, empty_rows, of_names, write_medium
from data.rows.spec import MediaRowSpec, first_positions
from data.rows.tokens import TextSpan, TokenSpec
from data.sample import Grid
from data.targets import TargetSpec
from mllm_jax.config.inputs import media_specs, target_specs, token_spec
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import NEXT_TOKEN, ModuleRows, NextTokenTargets, SampleTargets
from sharding.routes import runs_of

Ints = NDArray[np.int32]

#: Segments of a row at most, for which all batches have space: batches of one size have one shape.
SEGMENTS = 4


def synthetic_batch(
    model: ModelConfig,
    rows: int,
    tokens: int,
    budgets: Mapping[str, int],
    seed: int,
    added: Collection[str] = (),
    longest: Mapping[str, int] = MappingProxyType({}),
) -> PackedBatch:
    """A batch of `rows` rows with random segments, media, padding and targets.

    Args:
        model: resolved model configuration.
        tokens: decoder positions per row.
        budgets: encoder name to input positions per row, a multiple of its reduction.
        seed: every batch of one seed is the same.
        added: kinds of media of which encoders' outputs are merged at the same tokens.
        longest: encoder name to the most input positions of a medium, which divide those of a row;
            a row of an encoder that is not named may have one medium.
    """
    rng = np.random.default_rng(seed)
    vocab = model.backbone_config.vocab_size
    decoder = _random_segments(rng, token_spec(model), rows, tokens)
    real = decoder.segment_ids > 0
    weight = (real & (rng.random((rows, tokens)) < 0.7)).astype(np.float32)
    encoders: dict[str, ModuleRows] = {}
    merges: dict[str, Ints] = {}
    firsts: dict[str, str] = {}
    places: dict[str, NDArray[np.int64]] = {}
    free, begins = real.copy(), first_positions(decoder.segment_ids)
    for spec in media_specs(model):
        name = spec.name
        most = longest.get(name, budgets[name])
        encoders[name], places[name] = _random_media(rng, spec, rows, budgets[name], most)
        first = firsts.setdefault(spec.kind, name) if spec.kind in added else name
        tokens_of = free if first == name else merges[first] >= 0
        tokens_of = begins if spec.selected else tokens_of
        merges[name] = _random_index(rng, spec.merged_outputs_mask(encoders[name]), tokens_of)
        free &= spec.selected | (merges[name] < 0)
    inputs = np.where(real, _random_tokens(rng, model.backbone_config, (rows, tokens)), 0).astype(
        np.int32
    )
    labels = np.where(real, rng.integers(0, vocab, (rows, tokens)), 0).astype(np.int32)
    decoder = replace(decoder, inputs=inputs, merges=merges)
    targets: dict[str, NextTokenTargets | SampleTargets] = {}
    for objective, target_spec in target_specs(model).items():
        targets[objective] = NextTokenTargets(labels, weight)
        if objective != NEXT_TOKEN:
            targets[objective] = _sample_targets(rng, target_spec, decoder, encoders, model)
    decoder = replace(decoder, targets=targets)
    return PackedBatch({model.backbone: decoder, **encoders}, places=places)


def _sample_targets(
    rng: np.random.Generator,
    spec: TargetSpec,
    decoder: ModuleRows,
    encoders: Mapping[str, ModuleRows],
    model: ModelConfig,
) -> SampleTargets:
    """Random targets of the samples that have all media of which objectives read an output."""
    ids = decoder.segment_ids
    rows, tokens = ids.shape
    targets = spec.empty(rows, tokens, SEGMENTS)
    assert isinstance(targets, SampleTargets)
    firsts = first_positions(ids)
    complete = np.ones((rows, 1 + targets.weights.shape[1]), bool)
    for medium_spec in media_specs(model):
        if medium_spec.one_per_sample and medium_spec.bucket is None:
            begins = _begins(
                medium_spec, encoders[medium_spec.name], decoder.merges[medium_spec.name]
            )
            row, column = np.nonzero(begins)
            has_medium = np.zeros_like(complete)
            has_medium[row, ids[row, column]] = True
            complete &= has_medium
    firsts &= np.take_along_axis(complete, np.maximum(ids, 0), axis=1)
    for row, column in zip(*np.nonzero(firsts), strict=True):
        slot = row, ids[row, column] - 1
        targets.weights[slot] = 1
        if targets.values is not None:
            targets.values[slot] = spec.sketch(rng)
    return targets


def _begins(spec: MediaRowSpec, module_rows: ModuleRows, index: Ints) -> NDArray[np.bool_]:
    """At which tokens the first output of a medium is merged, `[rows, tokens]`."""
    first = first_positions(module_rows.segment_ids)[:, :: spec.reduction]
    return np.asarray((index >= 0) & first.ravel()[np.maximum(index, 0)])


def scatter_rows(batch: PackedBatch, model: ModelConfig, seed: int) -> PackedBatch:
    """The same batch with every encoder's rows in another order, as balancing may distribute them.

    Args:
        batch: all of its rows.
        model: resolved model configuration.
        seed: seed of the order.

    Returns:
        A batch that lists its `runs`, and the `places` of its media.
    """
    rng = np.random.default_rng(seed)
    rows = len(batch.text_rows.inputs)
    encoders, merges, runs, places = {}, {}, {}, {}
    for name, index in batch.text_rows.merges.items():
        module_rows = batch.rows[name]
        order = rng.permutation(rows)
        outputs = module_rows.segment_ids.shape[1] // model.reduction(name)
        encoders[name] = of_names(
            {key: array[order] for key, array in by_name(module_rows).items()}
        )
        row, offset = np.divmod(index, outputs)
        moved = np.argsort(order)[row] * outputs + offset
        merges[name] = np.where(index >= 0, moved, -1).astype(np.int32)
        runs[name] = runs_of(merges[name], outputs)
        places[name] = (batch.places or {})[name].copy()
        places[name][:, 0] = np.argsort(order)[places[name][:, 0]]
    decoder = replace(batch.text_rows, merges=merges)
    return PackedBatch({model.backbone: decoder, **encoders}, runs, places)


def _random_tokens(
    rng: np.random.Generator, decoder: DecoderConfig, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Random tokens, a fifth of them after the vocabulary if there are any."""
    vocab, extra = decoder.vocab_size, decoder.extra_tokens
    tokens = rng.integers(0, vocab, shape)
    if not extra:
        return tokens
    return np.where(rng.random(shape) < 0.2, rng.integers(vocab, vocab + extra, shape), tokens)


def _random_lengths(rng: np.random.Generator, total: int) -> list[int]:
    """Two to `SEGMENTS` lengths that leave some padding of `total`."""
    parts = min(int(rng.integers(2, SEGMENTS + 1)), total)
    cuts = np.sort(rng.choice(np.arange(1, total + 1), size=parts, replace=False))
    return np.diff(np.concatenate([[0], cuts])).tolist()


def _random_segments(
    rng: np.random.Generator, spec: TokenSpec, rows: int, tokens: int
) -> ModuleRows:
    """Rows of random segments; where spans are read, each but the shortest has one."""
    arrays = spec.empty_rows((rows, tokens), ())
    for row in range(rows):
        start = 0
        for number, length in enumerate(_random_lengths(rng, tokens), 1):
            height, width = length // 6, 2
            spans = [TextSpan(length // 3, height * width, Grid(1, height, width), "image")]
            spec.write(arrays, row, start, number, length, spans if height else ())
            start += length
    return arrays


def _random_media(
    rng: np.random.Generator, spec: MediaRowSpec, rows: int, budget: int, most: int
) -> tuple[ModuleRows, NDArray[np.int64]]:
    """Rows of random media, and their places as `plan_independent_microbatches` takes them.

    The positions between media are random, too.
    """
    # A sketch has at most as many entries on a further axis as positions.
    module_rows, places = empty_rows(spec, rows, budget, [budget] * len(spec.axes)), []
    for row in range(rows):
        start, offsets = 0, [0] * len(spec.axes)
        parts = [_media_outputs(rng, spec, most) for _ in range(budget // most)]
        for i, outputs in enumerate(chain.from_iterable(parts)):
            medium = spec.sketch(rng, outputs)
            write_medium(module_rows, spec, row, start, i + 1, medium, offsets)
            further = chain.from_iterable(zip(offsets, medium.entries, strict=True))
            places.append((row, start, outputs * spec.reduction, i + 1, 1, *further))
            start += outputs * spec.reduction
            offsets = [n + count for n, count in zip(offsets, medium.entries, strict=True)]
    module_rows = replace(
        module_rows, inputs=rng.normal(size=module_rows.inputs.shape).astype(np.float32)
    )
    module_rows = replace(
        module_rows, arrays={**module_rows.arrays, **spec.mix_outputs(rng, module_rows)}
    )
    columns = len(MEDIUM) + 2 * len(spec.axes)
    return module_rows, np.array(places, np.int64).reshape(-1, columns)


def _media_outputs(rng: np.random.Generator, spec: MediaRowSpec, budget: int) -> list[int]:
    """Outputs of the media of a row, or of their parts, all of which are alike."""
    unit, total = spec.unit, budget // spec.reduction
    return [unit] * int(rng.integers(1, total // unit + 1)) if unit else _random_lengths(rng, total)


def _random_index(
    rng: np.random.Generator, begins: NDArray[np.bool_], free: NDArray[np.bool_]
) -> Ints:
    """The index that merges each output of a row at a random free position of the text."""
    rows, outputs = begins.shape
    index = np.full(free.shape, -1, np.int32)
    for row in range(rows):
        merged_outputs = np.flatnonzero(begins[row])
        places = np.flatnonzero(free[row])
        count = min(len(merged_outputs), len(places) // 2)
        chosen = np.sort(rng.choice(places, size=count, replace=False))
        index[row, chosen] = row * outputs + merged_outputs[:count]
    return index
