"""Small in-memory samples and encoders for the tests of data/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.batch import ModuleRows
from data.config import Balance, DataConfig
from data.faults import FaultKind, SampleFault
from data.media.audio.row_spec import AudioRowSpec, LazyAudio
from data.media.image.row_spec import ImageRowSpec, LazyImage
from data.media.video.files import FrameTiming, LazyVideo
from data.planning.ladder import Ladder
from data.planning.packing import Capacity, make_capacity
from data.planning.row_assignment import Hosts, RowAssigner, RowAssignment
from data.planning.steps import StepPacker
from data.rows.tokens import TokenSpec
from data.sample import Example, Grid, Lengths, MediumLengths, Sample, SampleError, Turn
from data.sources.source import SampleKey

TEXT = TokenSpec("decoder")
VISION = ImageRowSpec("vision", patch=(16, 8), channels=1)
AUDIO = AudioRowSpec("audio", mels=40, stride=8)
BUDGETS = {"tokens": 312, "vision": 72, "audio": 640, "segments": 24}
CAPACITY = make_capacity(BUDGETS, (TEXT, VISION, AUDIO))
UNITS = {"tokens": 1, "vision": VISION.reduction, "audio": AUDIO.reduction}


def make_lengths(
    tokens: int,
    media: Mapping[str, Sequence[int]] = MappingProxyType({}),
    starts: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    grids: Mapping[str, Sequence[Grid | None]] = MappingProxyType({}),
) -> Lengths:
    """Lengths of a sample with media of so many positions by module."""
    listed = {
        name: tuple(map(MediumLengths, counts, grids.get(name) or repeat(None, len(counts))))
        for name, counts in media.items()
    }
    return Lengths({TEXT.module: (MediumLengths(tokens),), **listed}, dict(starts))


def media_counts(lengths: Lengths) -> dict[str, tuple[int, ...]]:
    """Input positions of the media of a sample, by module."""
    return {name: lengths.counts(name) for name in lengths.modules if name != TEXT.module}


@dataclass(frozen=True)
class Work:
    """The work of a module on a segment."""

    linear: float
    quadratic: float

    def attention(self, lengths: np.ndarray) -> np.ndarray:
        return self.quadratic * lengths * lengths


WORK = {"decoder": Work(3.0, 0.01), "vision": Work(1.0, 0.2), "audio": Work(2.0, 0.001)}


def all_rows(count: int) -> dict[str, list[int]]:
    """Every global row of every module."""
    return {module: list(range(count)) for module in ("decoder", "vision", "audio")}


def arrays(tree: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a batch, or of rows, with their dotted names."""
    for name, value in (tree if isinstance(tree, dict) else vars(tree)).items():
        if isinstance(value, np.ndarray):
            yield prefix + name, value
        elif value is not None:
            yield from arrays(value, f"{prefix}{name}.")


def assert_same_arrays(actual: Any, expected: Any) -> None:
    """Two batches, or rows, are equal array by array."""
    result, target = dict(arrays(actual)), dict(arrays(expected))
    assert result.keys() == target.keys()
    for name, array in result.items():
        np.testing.assert_array_equal(array, target[name], err_msg=name)


def of_example(decoder: ModuleRows) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What the decoder's rows have of `Example`: tokens, targets and weights of the loss."""
    learnt = decoder.next_token
    return decoder.inputs, learnt.labels, learnt.weights


def of_tokens(decoder: ModuleRows) -> tuple[NDArray[Any], ...]:
    """Arrays of the decoder's rows that are zero in padding."""
    assert decoder.index is not None
    places = decoder.segment_ids, decoder.index, decoder.positions
    return *of_example(decoder), *places, *decoder.arrays.values()


@dataclass(frozen=True)
class Picture(LazyImage):
    """Random pixels of a stated size; `claimed` is what the header says."""

    height: int
    width: int
    claimed: tuple[int, int] | None = None

    def image_size(self) -> tuple[int, int]:
        return self.claimed or (self.height, self.width)

    def load(self, channels: int) -> NDArray[np.uint8]:
        rng = np.random.default_rng((self.height, self.width))
        return rng.integers(0, 256, (self.height, self.width, channels)).astype(np.uint8)


class Frames(LazyVideo):
    """Frames in memory, [frames, height, width, 3]."""

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        self.frames = frames

    def frame_timing(self) -> FrameTiming:
        return FrameTiming(len(self.frames), 1.0)

    def load(self) -> Iterator[NDArray[np.uint8]]:
        yield from self.frames


@dataclass(frozen=True)
class Noise(LazyAudio):
    """Random samples of a stated number; `rate` is what the header says."""

    samples: int
    rate: int = 8000

    def clip_info(self) -> tuple[int, int]:
        return self.samples, self.rate

    def load(self) -> NDArray[np.float32]:
        return np.random.default_rng(self.samples).normal(0, 0.1, self.samples).astype(np.float32)


def make_sample(
    name: str, widths: Sequence[int] = (), clips: Sequence[int] = (), answer: str = "1 2 3"
) -> Sample:
    """A sample with images of these widths and clips of these numbers of samples."""
    ask = " ".join(["read", *["<image>"] * len(widths), "and", *["<audio>"] * len(clips), "?"])
    return Sample(
        name,
        (Turn("user", ask), Turn("assistant", answer)),
        {
            "image": tuple(Picture(16, width) for width in widths),
            "audio": tuple(Noise(samples) for samples in clips),
        },
    )


class ListSource:
    """Samples from memory; a string stands for a malformed record with that reason."""

    fingerprint: str | None = None
    home = Path()

    def __init__(self, samples: Sequence[Sample | str]) -> None:
        self.samples = list(samples)
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.samples)

    def name(self, index: int) -> str:
        sample = self.samples[index]
        return f"bad{index}" if isinstance(sample, str) else sample.name

    def __getitem__(self, key: SampleKey) -> Sample:
        index, _ = key
        self.asked.append(index)
        sample = self.samples[index]
        if isinstance(sample, str):
            raise SampleError(self.name(index), SampleFault(FaultKind.RECORD, sample))
        return sample


def mixed_source(count: int, seed: int = 0) -> ListSource:
    """Samples of text, images and clips with varied lengths."""
    rng = np.random.default_rng(seed)
    samples = []
    for i in range(count):
        widths = rng.integers(1, 150, rng.integers(0, 3)).tolist()
        clips = rng.integers(1, 9000, rng.integers(0, 3)).tolist()
        answer = " ".join(map(str, rng.integers(0, 10, rng.integers(1, 9))))
        samples.append(make_sample(f"s{i}", widths, clips, answer))
    return ListSource(samples)


def assert_same_examples(first: Example, *others: Example) -> None:
    """Assert that nothing in two examples differs."""
    for other in others:
        expected: Any = asdict(first)
        np.testing.assert_equal(asdict(other), expected)


MakeConfig = Callable[..., DataConfig]


def assign_samples(
    samples: Sequence[Lengths],
    balance: Balance,
    rows: int,
    work: Mapping[str, Work] = WORK,
    hosts: Hosts | None = None,
    name: Callable[[int], str] = "sample {}".format,
    capacity: Capacity = CAPACITY,
    **changes: Any,
) -> tuple[list[int], RowAssignment]:
    """Samples that do not wait, distributed over rows of `capacity`; others are keys of `data:`."""
    units = {spec.positions_budget: spec.reduction for spec in capacity.specs}
    budgets = {resource: capacity.limit(resource) for resource in (*units, "segments")}
    values = {"budgets": budgets, "balance": balance, "rows": rows} | changes
    config = DataConfig.model_validate(values)
    assigner = RowAssigner(config, capacity, Ladder.build(config, units), work, hosts or {})
    packed = StepPacker(capacity, rows, 1, balance == "per_phase", evenly=False)(samples)
    here = packed.placed_samples
    return here, assigner([samples[i] for i in here], packed.select_samples(here), name)
