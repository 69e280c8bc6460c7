"""The loaders that are compared read the same samples, and their padding is counted rightly."""

import json
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import count, islice

import numpy as np
import pytest

import launch
from benchmarks import loader as bench_loader
from benchmarks.loader import GRAIN, NO_TORCH, PACKED, TORCH
from benchmarks.padded import (
    PaddedBatches,
    grain_batches,
    pad_examples,
    padded_share,
    torch_batches,
)
from data.processing.processor import make_processor
from data.sample import Example, ProcessedMedium, SampleError
from data.sources.distributions import draw_lengths
from mllm_jax.config.inputs import row_specs
from mllm_jax.config.load import ConfigError, load_config
from mllm_jax.runtime.exits import ExitCode
from tests.configs import ROOT
from tests.data.samples import make_lengths

SAMPLES, BATCH = 12, 5
WORKERS = (0, pytest.param(2, marks=pytest.mark.slow))
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(bench_loader, "SAMPLES", SAMPLES)
    monkeypatch.setattr(bench_loader, "SCALE", 1 / 8)
    monkeypatch.setattr(bench_loader, "REPETITIONS", 1)
    monkeypatch.setattr(bench_loader, "WORKERS", (0,))


def config(*overrides):
    return load_config(
        ROOT / "configs" / "bench" / "loader.yaml",
        ["data.lookahead=6", "data.rows=1", "data.budgets.tokens=1536", *overrides],
    )


@pytest.fixture
def folder(tmp_path):
    """A configuration that reads a written folder, and what the loaders read it with."""
    written = bench_loader.with_source(config(), bench_loader.write_folder(tmp_path, config()))
    processor = make_processor(written.data, row_specs(written.model))
    return written, bench_loader.make_reader(written, processor)


def texts(tokens, segment_ids):
    """The tokens of every sample of a batch."""
    rows = zip(tokens, segment_ids, strict=True)
    return [
        tuple(tokens[segments == segment].tolist())
        for tokens, segments in ((np.asarray(t), np.asarray(s)) for t, s in rows)
        for segment in range(1, segments.max() + 1)
    ]


def all_texts(reader):
    return [tuple(reader[i].tokens.tolist()) for i in range(SAMPLES)]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("make", [grain_batches, pytest.param(torch_batches, marks=needs_torch)])
def test_padded_batches_have_every_sample_once_an_epoch_in_the_order_of_ours(make, workers, folder):
    _, reader = folder
    batches = PaddedBatches(SAMPLES, seed=0, batch=BATCH)
    with make(reader, batches, workers, 2) as made:
        decoders = (batch["decoder"] for batch in islice(made, 5))
        read = [text for own in decoders for text in texts(own["tokens"], own["segment_ids"])]
    known = all_texts(reader)
    assert len(set(known)) == SAMPLES
    assert read == [known[batches.index_at(i)] for i in range(5 * BATCH)]
    for epoch in (read[:SAMPLES], read[SAMPLES : 2 * SAMPLES]):
        assert sorted(epoch) == sorted(known)


def test_ours_has_the_samples_of_the_same_order(folder):
    written, reader = folder
    with bench_loader.packed_loader(written, reader.processor, 0) as loader:
        steps = list(islice(loader, 8))
    order, state = PaddedBatches(SAMPLES, written.train.seed, BATCH).order, steps[-1].state
    assert state.position > 2 * SAMPLES
    assert state.carry
    decoders = (step.batch.text_rows for step in steps)
    read = Counter(text for own in decoders for text in texts(own.inputs, own.segment_ids))
    known = all_texts(reader)
    waiting = Counter(known[order[p][0]] for p in state.carry)
    assert read + waiting == Counter(known[order[p][0]] for p in range(state.position))


@pytest.mark.parametrize("make", [grain_batches, pytest.param(torch_batches, marks=needs_torch)])
def test_the_padding_that_is_told_is_that_of_the_arrays(make, folder):
    _, reader = folder
    batches = PaddedBatches(SAMPLES, seed=0, batch=BATCH)
    with make(reader, batches, 0, 2) as made:
        towers = [
            np.asarray(tower["segment_ids"])
            for batch in islice(made, 3)
            for tower in (batch["decoder"], *batch["encoders"].values())
        ]
    share = 1 - sum(map(np.sum, towers)) / sum(map(np.size, towers))
    planned = [[reader.lengths[i] for i in batch] for batch in islice(batches, 3)]
    assert padded_share(planned) == pytest.approx(share)


def test_arrays_are_padded_to_the_longest_of_the_batch():
    def example(*ids, **media):
        tokens = np.array(ids, np.int32)
        return Example(tokens, tokens + 1, np.ones(len(ids), np.float32), media, {}, "decoder")

    def clip(frames):
        return ProcessedMedium(
            np.full((frames, 3), frames, np.float32), np.arange(frames, dtype=np.int32)[:, None]
        )

    picture = replace(
        clip(2), positions=np.array([[0, 0], [0, 1]], np.int32), more={"sizes": np.array([1, 2])}
    )
    mine = [example(5, 6), example(1, 2, 3, 4, audio=(clip(1), clip(3))), example(9)]
    batch = pad_examples(mine)
    assert batch["decoder"]["tokens"].tolist() == [[5, 6, 0, 0], [1, 2, 3, 4], [9, 0, 0, 0]]
    assert batch["decoder"]["targets"].tolist() == [[6, 7, 0, 0], [2, 3, 4, 5], [10, 0, 0, 0]]
    assert batch["decoder"]["loss_weight"].sum() == 7
    assert batch["decoder"]["segment_ids"].sum(axis=1).tolist() == [2, 4, 1]
    assert list(batch["encoders"]) == ["audio"]
    assert batch["encoders"]["audio"]["inputs"][:, :, 0].tolist() == [[1, 0, 0], [3, 3, 3]]
    assert batch["encoders"]["audio"]["segment_ids"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert batch["encoders"]["audio"]["positions"].tolist() == [[[0], [0], [0]], [[0], [1], [2]]]
    vision = pad_examples([example(1, vision=(picture,)), example(2, vision=())])["encoders"][
        "vision"
    ]
    assert (vision["sizes"].tolist(), vision["positions"].shape) == ([[1, 2]], (1, 2, 2))


def test_padding_is_counted_over_all_towers():
    samples = [make_lengths(2), make_lengths(4, {"audio": (1, 3), "vision": ()})]
    assert padded_share([samples]) == pytest.approx(4 / 14)
    assert padded_share([samples, [make_lengths(5)]]) == pytest.approx(4 / 19)


def test_the_folder_is_as_long_as_the_distribution_says(folder):
    written, reader = folder
    drawn = draw_lengths("web", SAMPLES, seed=written.train.seed)
    assert len(reader) == SAMPLES
    for found, asked in zip(reader.lengths, drawn, strict=True):
        assert found.counts("audio") == tuple(-(-n // 8) for n in asked.media["audio"])
        assert len(found.counts("vision")) == len(asked.media["vision"])
    assert {name for lengths in reader.lengths for name in lengths.modules} == {
        "decoder",
        "vision",
        "audio",
    }
    (pictures, wanted) = (
        sum(sum(lengths.counts("vision")) for lengths in every)
        for every in (reader.lengths, [shape.lengths("decoder") for shape in drawn])
    )
    assert pictures == pytest.approx(wanted / 8, rel=0.2)


def test_rows_have_the_columns_asked_for_and_the_files_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(bench_loader, "find_spec", lambda name: None)
    told = []
    packed, plain = bench_loader.bench_loader(config(), told.append)
    assert list(packed) == [
        "loader",
        "workers",
        "samples_per_second",
        "over_plain",
        "first_over_plain",
        "padding",
    ]
    assert (packed["loader"], plain["loader"]) == (PACKED, GRAIN)
    assert (plain["over_plain"], plain["first_over_plain"]) == (1, 1)
    ratio = packed["samples_per_second"] / plain["samples_per_second"]
    assert packed["over_plain"] == pytest.approx(ratio)
    assert 0 < packed["padding"] < 1
    assert 0 < plain["padding"] < 1
    assert NO_TORCH in told
    assert list(tmp_path.iterdir()) == []


@needs_torch
def test_torch_has_a_row_where_it_is_installed():
    rows = bench_loader.bench_loader(config(), lambda line: None)
    assert [row["loader"] for row in rows] == [PACKED, GRAIN, TORCH]
    assert rows[2]["padding"] == rows[1]["padding"]


def test_loaders_take_turns_and_the_fastest_pass_counts(monkeypatch):
    monkeypatch.setattr(bench_loader, "REPETITIONS", 2)
    clock, started = [0.0], []

    def fake(name, seconds):
        pace = iter(seconds)

        @contextmanager
        def start(workers):
            started.append((name, workers))
            each = next(pace)

            def batches():
                for number in count():
                    # The first pass: three batches, and another second to start.
                    clock[0] += each + (number == 0)
                    yield BATCH

            yield batches()

        return start

    monkeypatch.setattr(bench_loader.time, "perf_counter", lambda: clock[0])
    rates = bench_loader._measure_rates({"a": fake("a", [1, 2]), GRAIN: fake(GRAIN, [5, 3])}, 2)
    assert started == [("a", 2), (GRAIN, 2)] * 2
    assert rates == {
        "a": (pytest.approx(15 / 4), pytest.approx(15 / 3)),
        GRAIN: (pytest.approx(15 / 10), pytest.approx(15 / 9)),
    }
    row = bench_loader._make_row("a", 2, rates, {"a": 0.5})
    assert row["over_plain"] == pytest.approx(3)
    assert row["first_over_plain"] == pytest.approx(2.5)


def test_a_configuration_that_cannot_read_the_files_is_refused(capsys):
    code = launch.main(["bench", "loader", "--json", "data.source={kind: demo}"])
    assert code == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert "data.source.kind: demo; valid: llava" in captured.err
    assert captured.out == ""


def test_an_encoder_for_each_kind_of_media_is_needed():
    whole = config()
    vision = {"vision": whole.model.encoders["vision"]}
    deaf = whole.model_copy(update={"model": whole.model.model_copy(update={"encoders": vision})})
    with pytest.raises(ConfigError, match=r"model: no encoder takes audio"):
        bench_loader.bench_loader(deaf, lambda line: None)


def test_a_sample_that_a_budget_refuses_ends_the_benchmark():
    small = config("data.budgets.audio=32")
    with pytest.raises(SampleError, match=r"above data\.budgets' 32 for a row"):
        bench_loader.bench_loader(small, lambda line: None)


def test_one_seed_writes_one_folder(tmp_path):
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        path = bench_loader.write_folder(tmp_path / name, config())
        written.append({file.name: file.read_bytes() for file in path.parent.iterdir()})
        assert len(json.loads(path.read_text().splitlines()[0])["conversations"]) == 2
    assert written[0] == written[1]
