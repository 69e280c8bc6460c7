"""Benchmark of the loader: packed and balanced, against plain Grain and torch that pad."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import PIL.Image
import soundfile

from benchmarks.padded import (
    ExampleReader,
    PaddedBatches,
    grain_batches,
    padded_share,
    torch_batches,
)
from benchmarks.pipeline import PrintLine, Row
from data.config import LlavaSource
from data.loading.loader import MicrobatchLoader, MicrobatchStats
from data.media.image.row_spec import ImageRowSpec
from data.processing.processor import Processor, make_processor
from data.sources.distributions import REDUCTION, SampleShape, draw_lengths
from data.sources.make import make_source
from mllm_jax.config.inputs import media_specs, released_of, row_specs
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.train.loading.loader import open_single_loader

#: Samples of the folder, and how much shorter they are than those of the distribution.
SAMPLES, SCALE = 256, 1 / 8
#: Worker processes: none (a thread makes the batches), and as many as two cores can use.
WORKERS = (0, 2)
REPETITIONS = 3
#: The name of every loader, and the message if torch is missing.
PACKED, GRAIN, TORCH = "packed", "grain", "torch"
NO_TORCH = "torch is not installed, its rows are left out; to have them: pip install torch"

#: Starts a loader with so many workers; yields the number of samples of batch after batch.
Start = Callable[[int], AbstractContextManager[Iterator[int]]]


def bench_loader(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Samples per second of loaders on the same files, with the same processor.

    A folder in LLaVA's format is written for it: `SAMPLES` conversations with images and clips, as
    long as `data.sources.distributions.web_lengths` says times `SCALE`. `packed` is our loader as
    configured. `grain` and `torch` shuffle as it does, and pad batches of as many samples as one of
    its microbatches holds on average. All find the lengths of the samples measured.

    Every loader starts, makes a first pass over the folder, and then one that is timed; the fastest
    of `REPETITIONS`, in turns. Nobody works on the batches: loaders run as fast as they can.

    Columns: `over_plain` is samples per second over those of `grain` with as many workers;
    `first_over_plain` the same for the first pass, with the start of workers; `padding` the share
    of unused positions over all modules, of `packed` 1 - used / capacity, of the others that of
    their batches padded to the longest (see `padded_share`).

    Raises:
        ConfigError: data.source is not of kind llava, or an encoder for images or clips is missing.
        SampleError: a sample exceeds data.budgets.
    """
    _check_config(config)
    with TemporaryDirectory(prefix="mllm_jax-") as folder:
        print_line(f"writing {SAMPLES} samples")
        config = with_source(config, write_folder(Path(folder), config))
        processor = make_processor(
            config.data, row_specs(config.model), released=released_of(config.data)
        )
        stats = _packed_microbatches(config, processor)
        samples = sum(microbatch.samples for microbatch in stats)
        batches = PaddedBatches(SAMPLES, config.train.seed, round(samples / len(stats)))
        print_line(
            f"a microbatch holds {samples / len(stats):.1f} samples; batches of {batches.batch}"
        )
        reader = make_reader(config, processor)
        padding = _padding_shares(stats, reader, batches)
        loaders = _list_loaders(config, reader, batches)
        if TORCH not in loaders:
            print_line(NO_TORCH)
        rows: list[Row] = []
        for workers in WORKERS:
            print_line(f"{workers} workers: {REPETITIONS} x {' and '.join(loaders)}")
            rates = _measure_rates(loaders, workers)
            rows += [_make_row(name, workers, rates, padding) for name in loaders]
        return rows


def _check_config(config: ExperimentConfig) -> None:
    """Raise ConfigError unless the folder that is written can be read."""
    problems = []
    if not isinstance(config.data.source, LlavaSource):
        problems.append(
            f"data.source.kind: {config.data.source.kind}; valid: llava, as which the benchmark "
            "writes its files"
        )
    kinds = {spec.kind for spec in media_specs(config.model)}
    for kind in ("image", "audio"):
        if kind not in kinds:
            problems.append(f"model: no encoder takes {kind}, which the files hold")
    if problems:
        raise ConfigError("bench loader", problems)


# ------------------------------------------------------------------ files


def with_source(config: ExperimentConfig, path: Path) -> ExperimentConfig:
    """`config` that reads the conversations at `path`."""
    source = LlavaSource(kind="llava", path=path)
    return config.model_copy(update={"data": config.data.model_copy(update={"source": source})})


def write_folder(root: Path, config: ExperimentConfig) -> Path:
    """Write conversations with media into `root`; the path of their JSON Lines."""
    rng = np.random.default_rng(config.train.seed)
    drawn = draw_lengths("web", SAMPLES, seed=config.train.seed)
    records = [_write_sample(root, str(i), n, config, rng) for i, n in enumerate(drawn)]
    path = root / "train.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def _write_sample(
    root: Path, name: str, lengths: SampleShape, config: ExperimentConfig, rng: np.random.Generator
) -> dict[str, Any]:
    """Write the media of one sample; its record."""
    images = [f"{name}-{i}.png" for i in range(len(lengths.media["vision"]))]
    clips = [f"{name}-{i}.wav" for i in range(len(lengths.media["audio"]))]
    patch = next(m.patch for m in media_specs(config.model) if isinstance(m, ImageRowSpec))
    for file, n in zip(images, lengths.media["vision"], strict=True):
        _make_picture(n * SCALE * math.prod(patch), rng).save(root / file, compress_level=1)
    audio = config.data.audio
    for file, n in zip(clips, lengths.media["audio"], strict=True):
        wave = rng.normal(0, 0.1, math.ceil(n * SCALE) * audio.hop)
        soundfile.write(root / file, wave, audio.sample_rate)
    media_tokens = sum(-(-n // REDUCTION[name]) for name, ns in lengths.media.items() for n in ns)
    half = math.ceil((lengths.tokens - media_tokens) * SCALE / 2)
    marks = [config.data.image.placeholder] * len(images)
    marks += [config.data.audio.placeholder] * len(clips)
    turns = [
        {"from": "human", "value": "\n".join([*marks, _make_text(half, rng)])},
        {"from": "gpt", "value": _make_text(half, rng)},
    ]
    return {"image": images, "audio": clips, "conversations": turns}


def _make_picture(pixels: float, rng: np.random.Generator) -> PIL.Image.Image:
    """About so many pixels, smooth with noise: as a PNG about half as large, like a photo."""
    aspect = rng.uniform(3 / 4, 4 / 3)
    wide, high = (max(1, round(math.sqrt(pixels * a))) for a in (aspect, 1 / aspect))
    coarse = rng.integers(0, 240, (high // 32 + 2, wide // 32 + 2, 3), np.uint8)
    smooth = np.asarray(PIL.Image.fromarray(coarse).resize((wide, high)))
    return PIL.Image.fromarray(smooth + rng.integers(0, 12, smooth.shape, np.uint8))


def _make_text(length: int, rng: np.random.Generator) -> str:
    """A text of so many letters and spaces that neither begins nor ends with a space."""
    inner = "".join(rng.choice(list("etaoin shrdlu"), max(0, length - 2)))
    return f"e{inner}s"


# ------------------------------------------------------------------ loaders


def packed_loader(config: ExperimentConfig, processor: Processor, workers: int) -> MicrobatchLoader:
    """Our loader, with all rows of every module."""
    data = config.data.model_copy(update={"workers": workers})
    return open_single_loader(
        config.model_copy(update={"data": data}), make_source(data), processor
    )


def make_reader(config: ExperimentConfig, processor: Processor) -> ExampleReader:
    """The source, processor and lengths for the other loaders."""
    source = make_source(config.data)
    lengths = tuple(processor.measure(source[i, 0]) for i in range(len(source)))
    return ExampleReader(source, processor, lengths)


def _list_loaders(
    config: ExperimentConfig, reader: ExampleReader, batches: PaddedBatches
) -> dict[str, Start]:
    """Starters of the loaders by name; torch only if it is installed."""
    prefetch = config.data.prefetch

    @contextmanager
    def start_packed(workers: int) -> Iterator[Iterator[int]]:
        with packed_loader(config, reader.processor, workers) as microbatches:
            yield (microbatch.stats.samples for microbatch in microbatches)

    def starter_of(make: Callable[..., AbstractContextManager[Iterator[Any]]]) -> Start:
        @contextmanager
        def start_padded(workers: int) -> Iterator[Iterator[int]]:
            with make(reader, batches, workers, prefetch) as loaded:
                yield (len(batch["decoder"]["tokens"]) for batch in loaded)

        return start_padded

    loaders = {PACKED: start_packed, GRAIN: starter_of(grain_batches)}
    return loaders | ({TORCH: starter_of(torch_batches)} if find_spec("torch") else {})


def _packed_microbatches(config: ExperimentConfig, processor: Processor) -> list[MicrobatchStats]:
    """Statistics of the microbatches of one pass."""
    stats: list[MicrobatchStats] = []
    with packed_loader(config, processor, 0) as microbatches:
        while sum(microbatch.samples for microbatch in stats) < SAMPLES:
            stats.append(next(microbatches).stats)
    return stats


def _padding_shares(
    stats: Sequence[MicrobatchStats], reader: ExampleReader, batches: PaddedBatches
) -> dict[str, float]:
    """The share of unused positions over all modules, of one pass of every loader."""
    used, capacity = (
        sum(sum(getattr(microbatch, name).values()) for microbatch in stats)
        for name in ("used", "capacity")
    )
    passed = islice(batches, math.ceil(SAMPLES / batches.batch))
    padded = padded_share([[reader.lengths[i] for i in batch] for batch in passed])
    return {PACKED: 1 - used / capacity, GRAIN: padded, TORCH: padded}


# ------------------------------------------------------------------ measuring

Rates = Mapping[str, tuple[float, float]]


def _measure_rates(loaders: Mapping[str, Start], workers: int) -> Rates:
    """Samples per second of the first pass and of the one after, by loader."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in loaders}
    for _ in range(REPETITIONS):
        for name, start in loaders.items():
            measured[name].append(_time_passes(start, workers))
    return {
        name: (max(first for first, _ in rates), max(later for _, later in rates))
        for name, rates in measured.items()
    }


def _time_passes(start: Start, workers: int) -> tuple[float, float]:
    """Samples per second of the first pass, with what starting takes, and of the one after."""
    begin = time.perf_counter()
    with start(workers) as counts:
        first = _count_pass(counts)
        middle = time.perf_counter()
        later = _count_pass(counts)
        end = time.perf_counter()
    return first / (middle - begin), later / (end - middle)


def _count_pass(counts: Iterator[int]) -> int:
    """Take as many samples as the folder has, or up to a batch more; how many."""
    samples = 0
    while samples < SAMPLES:
        samples += next(counts)
    return samples


def _make_row(name: str, workers: int, rates: Rates, padding: Mapping[str, float]) -> Row:
    (first, later), (plain_first, plain_later) = rates[name], rates[GRAIN]
    return {
        "loader": name,
        "workers": workers,
        "samples_per_second": later,
        "over_plain": later / plain_later,
        "first_over_plain": first / plain_first,
        "padding": padding[name],
    }
