"""One interface: the same samples in every format are the same examples, everywhere."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import soundfile

from data.config import DataConfig
from data.loading.loader import DataLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.planning.lengths import open_lengths
from data.planning.stream import TrainingDemand
from data.processing.processor import Processor
from data.sample import Example, SampleError
from data.sources.make import make_source
from data.sources.source import Source
from tests.data.hf_format.stored import make_processor
from tests.data.hf_format.test_processor import TILED, config_of
from tests.data.samples import (
    AUDIO,
    BUDGETS,
    TEXT,
    VISION,
    WORK,
    MakeConfig,
    all_rows,
    assert_same_arrays,
    assert_same_examples,
)
from tests.data.sources.formats.writers import FILMED, FORMATS, SAMPLES, json_list


@pytest.fixture(params=FORMATS)
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """`data.source` of every format."""
    return FORMATS[request.param](tmp_path, SAMPLES)


@pytest.fixture
def configure(make_config: MakeConfig, tmp_path: Path) -> Any:
    def configured(options: Mapping[str, Any], **changes: Any) -> DataConfig:
        base = {
            "source": options,
            "tokenizer": "bytes",
            "rows": 1,
            "lookahead": 4,
            "cache": tmp_path / "cache",
        }
        return make_config(**(base | changes))

    return configured


def opened(config: DataConfig) -> tuple[Source, Processor]:
    return make_source(config), make_processor(config, [TEXT, VISION, AUDIO])


def expected(configure: Any, tmp_path: Path) -> list[Any]:
    """Examples of the samples as LLaVA would have written them."""
    folder = tmp_path / "expected"
    folder.mkdir()
    source, processor = opened(configure(json_list(folder, SAMPLES)))
    return [processor.process(source[i, 0]) for i in range(len(SAMPLES))]


def test_the_same_samples_are_the_same_examples(
    options: Any, configure: Any, tmp_path: Path
) -> None:
    source, processor = opened(configure(options))
    assert len(source) == len(SAMPLES)
    again: Source = pickle.loads(pickle.dumps(source))
    assert len(pickle.dumps(source)) < 4000
    target = expected(configure, tmp_path)
    for i in np.random.default_rng(0).permutation(len(SAMPLES)).tolist():
        lengths = processor.measure(source[i, 0])
        assert_same_examples(target[i], processor.process(source[i, 0], lengths))
        assert_same_examples(target[i], processor.process(again[i, 0], lengths))
    assert len({source.name(i) for i in range(len(source))}) == len(source)


def of_videos(folder: Path, name: str) -> tuple[Source, Processor]:
    """`FILMED` in a format, with a processor that takes videos."""
    options = FORMATS[name](folder, FILMED)
    config = config_of("llava_onevision", source=options, cache=folder / "cache")
    return make_source(config), make_processor(config, [TEXT, TILED])


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> list[Example]:
    """Examples of `FILMED` as LLaVA would have written them."""
    source, processor = of_videos(tmp_path_factory.mktemp("filmed"), "json_list")
    return [processor.process(source[i, 0]) for i in range(len(FILMED))]


@pytest.mark.parametrize("name", FORMATS)
def test_videos_are_read_from_every_format(
    name: str, filmed: list[Example], tmp_path: Path
) -> None:
    source, processor = of_videos(tmp_path, name)
    for index, expected in enumerate(filmed):
        example = processor.process(source[index, 0], processor.measure(source[index, 0]))
        assert_same_examples(expected, example)
    # Images of an encoder come before its videos, which have 16 patches of a frame here.
    (video,), (_, first, second) = (example.lengths.counts("vision") for example in filmed)
    assert (video, first, second) == (3 * 16, 1 * 16, 2 * 16)


def to_memory(place: str, folder: Path) -> str:
    """Copy a folder to where fsspec's `memory://` is, and the place within it."""
    root = f"memory://{folder.name}"
    for path in folder.rglob("*"):
        if path.is_file():
            with fsspec.open(f"{root}/{path.relative_to(folder)}", "wb") as file:
                file.write(path.read_bytes())
    return f"{root}/{Path(place).relative_to(folder)}".rstrip("/.")


def test_so_are_they_at_a_url(options: Any, configure: Any, tmp_path: Path) -> None:
    places = {k: to_memory(options[k], tmp_path) for k in ("path", "media") if k in options}
    source, processor = opened(configure(options | places))
    for index, target in enumerate(expected(configure, tmp_path)):
        assert_same_examples(target, processor.process(source[index, 0]))


@pytest.mark.parametrize("balance", ["none", "per_phase"])
def test_all_loaders_take_them(balance: str, options: Any, configure: Any, tmp_path: Path) -> None:
    config = configure(options, balance=balance, budgets=BUDGETS | {"tokens": 400})
    source, processor = opened(config)
    table = open_lengths(source, processor, config)
    assert [table[i] for i in range(len(table))] == [
        processor.measure(source[i, 0]) for i in range(len(source))
    ]
    common, consumer = (source, processor, config, 0), TrainingDemand(WORK)
    with DataLoader(*common, all_rows(1), None, consumer) as loader:
        planned = [next(loader) for _ in range(4)]
    reading = MeasuringDataLoader(*common, [all_rows(1)], None, consumer, SingleHost())
    with reading as loader:
        read = [next(loader) for _ in range(4)]
    assert not any(step.skipped for step in planned + read)
    for first, second in zip(planned, read, strict=True):
        assert_same_arrays(first.batch, second.batch)


@pytest.mark.parametrize("name", FORMATS)
def test_fingerprints_tell_when_the_data_change(name: str, configure: Any, tmp_path: Path) -> None:
    config = configure(FORMATS[name](tmp_path, SAMPLES))
    first = make_source(config)
    assert make_source(config).fingerprint == first.fingerprint
    assert first.home.parent == config.cache
    FORMATS[name](tmp_path, SAMPLES[::-1])
    changed = make_source(config)
    assert changed.fingerprint != first.fingerprint
    assert changed.home == first.home
    _, processor = opened(config)
    assert processor.process(changed[0, 0]).lengths != processor.process(changed[5, 0]).lengths


GUIDE = Path(__file__).parents[4] / "docs" / "how-to" / "formats.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
KINDS = ("arrayrecord", "webdataset", "parquet")
*WRITERS, RESAMPLING = SNIPPETS


@pytest.mark.parametrize(("kind", "code"), list(zip(KINDS, WRITERS, strict=True)))
def test_what_the_documentation_writes_is_read(
    kind: str, code: str, configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, samples = tmp_path / "my_data", SAMPLES[:2]
    (folder / "media").mkdir(parents=True)
    options = json_list(folder, samples)
    for path in folder.glob("*.png"):
        path.rename(folder / "media" / path.name)
    records = json.loads((folder / "train.json").read_text())
    remaining = [{k: v for k, v in record.items() if v} for record in records]
    (folder / "train.json").write_text(json.dumps(remaining))
    expected, processor = opened(configure(options | {"media": folder / "media"}))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    source = make_source(configure({"kind": kind, "path": folder}))
    for index in range(len(samples)):
        first, second = (processor.process(s[index, 0]) for s in (expected, source))
        assert_same_examples(first, second)


def test_clips_of_another_rate_are_converted_as_the_documentation_says(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    media, turns = tmp_path / "my_data" / "media", json_turns("<audio>", "A tone.")
    media.mkdir(parents=True)
    tone = np.sin(2 * np.pi * 440 * np.arange(44100) / 44100) / 2
    soundfile.write(media / "a.wav", np.stack([tone, tone], axis=1), 44100)
    records = media.parent / "train.json"
    records.write_text(json.dumps([{"audio": "a.wav", "conversations": turns}]))
    options = {"kind": "llava", "path": records, "media": media}
    audio = {"sample_rate": 16000, "hop": 160, "window": 400}
    config = make_config(source=options, tokenizer="bytes", audio=audio, cache=tmp_path / "cache")
    source, processor = opened(config)
    with pytest.raises(SampleError, match=r"rate of 44100 Hz, .*`ffmpeg -i OLD -ar 16000 NEW.wav`"):
        processor.measure(source[0, 0])
    monkeypatch.chdir(tmp_path)
    exec(RESAMPLING, {})
    assert processor.process(source[0, 0]).lengths.counts("audio") == (100,)
    wave = source[0, 0].of("audio")[0].load()
    loudest = int(np.abs(np.fft.rfft(wave)).argmax())
    assert (len(wave), loudest) == (16000, 440)


def json_turns(asked: str, message: str) -> list[dict[str, str]]:
    return [{"from": "human", "value": asked}, {"from": "gpt", "value": message}]
