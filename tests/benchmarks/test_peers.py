"""The comparison with transformers compares the same training, and counts padding rightly."""

import json
from dataclasses import replace

import numpy as np
import pytest

import launch
from benchmarks import peers as bench_peers
from benchmarks.peer import IGNORED, PeerSamples, TorchSetting, collate_samples, draw_batches
from benchmarks.turns import TurnWorker, WorkerError
from mllm_jax.config.load import ConfigError, load_config
from mllm_jax.models.pretrained.release import Release
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.folder import RunError
from tests.configs import ROOT

SMALL = (
    *("model.decoder.layers=1", "model.decoder.d_model=16", "model.decoder.d_ff=16"),
    *("model.encoders.vision.layers=1", "model.encoders.vision.d_model=12"),
    *("model.encoders.vision.d_ff=16", "model.encoders.vision.grid=[2, 2]"),
    *("model.encoders.vision.patch=[4, 4]", "data.image.max_patches=4"),
)
LENGTHS = (5, 2, 9, 3)


def config(*overrides):
    return load_config(ROOT / "configs" / "bench" / "peers.yaml", [*SMALL, *overrides])


def samples():
    """Samples of `LENGTHS` tokens: i has i images, and the last half of its tokens is learnt."""
    ids = [np.arange(n + 1) + 100 * (i + 1) for i, n in enumerate(LENGTHS)]
    labels = [np.where(np.arange(len(own)) > len(own) // 2, own, IGNORED) for own in ids]
    pixels = [np.full((i, 3, 2, 2), i, np.float32) for i in range(len(ids))]
    return PeerSamples(ids, labels, pixels)


def told(line):
    """Nobody listens."""


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(bench_peers, "find_spec", lambda name: name)


# ------------------------------------------------------------------ what the peer trains on


def test_samples_are_read_as_they_were_saved(tmp_path):
    samples().save(tmp_path / "samples.npz")
    read = PeerSamples.load(tmp_path / "samples.npz")
    for name in ("ids", "labels", "pixels"):
        for found, own in zip(getattr(read, name), getattr(samples(), name), strict=True):
            np.testing.assert_array_equal(found, own)
    assert read.lengths == list(LENGTHS)


def test_a_padded_batch_is_as_long_as_its_longest():
    batch = collate_samples(samples(), [1, 0], packed=False)
    assert batch["input_ids"].tolist() == [
        [200, 201, 202, 0, 0, 0],
        [100, 101, 102, 103, 104, 105],
    ]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0], [1] * 6]
    assert batch["labels"].tolist() == [
        [IGNORED, IGNORED, 202, IGNORED, IGNORED, IGNORED],
        [IGNORED] * 4 + [104, 105],
    ]
    assert batch["pixel_values"].shape == (1, 3, 2, 2)
    assert "pixel_values" not in collate_samples(samples(), [0], packed=False)


def test_a_packed_batch_is_one_row_in_which_positions_begin_anew():
    batch = collate_samples(samples(), [1, 0], packed=True)
    assert batch["input_ids"].tolist() == [[200, 201, 202, 100, 101, 102, 103, 104, 105]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1, 2, 3, 4, 5]]
    assert "attention_mask" not in batch


@pytest.mark.parametrize("grouped", [False, True])
def test_an_epoch_has_every_sample_once(grouped):
    lengths = np.random.default_rng(0).integers(1, 1000, 50).tolist()
    setting = TorchSetting(batch=8, grouped=grouped)
    epochs = [draw_batches(lengths, setting, seed) for seed in (0, 1)]
    for epoch in epochs:
        assert sorted(i for batch in epoch for i in batch) == list(range(50))
        assert sorted(map(len, epoch)) == [2, 8, 8, 8, 8, 8, 8]
    assert epochs[0] != epochs[1]


def test_grouped_batches_have_less_padding():
    lengths = np.random.default_rng(0).integers(1, 1000, 64).tolist()

    def positions(setting):
        return sum(
            len(batch) * max(lengths[i] for i in batch)
            for batch in draw_batches(lengths, setting, 0)
        )

    plain = TorchSetting(batch=8)
    assert positions(replace(plain, grouped=True)) < 1.2 * sum(lengths) < positions(plain)


# ------------------------------------------------------------------ what both sides read


def test_both_sides_read_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_peers, "SAMPLES", 6)
    written = bench_peers.write_files(tmp_path, config())
    read = PeerSamples.load(tmp_path / "samples.npz")
    assert read.lengths == written.lengths
    assert len(set(read.lengths)) > 3
    own = load_config(tmp_path / "config.yaml", [])
    release = Release.open(tmp_path / "release")
    assert release.released_model.decoder == own.model.backbone_config
    assert dict(release.released_model.encoders) == dict(own.model.others)
    assert release.released_model.connectors == {"vision": own.model.connector("vision")}
    mark = release.released_model.placeholders["vision"]
    for ids, pixels in zip(read.ids, read.pixels, strict=True):
        assert (ids == mark).sum() == 4 * len(pixels)
        assert pixels.shape[1:] == (3, 8, 8)


def test_pixels_are_those_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_peers, "SAMPLES", 6)
    written = bench_peers.write_files(tmp_path, config())
    number = next(i for i, pixels in enumerate(written.pixels) if len(pixels) > 0)
    with bench_peers.PIL.Image.open(tmp_path / f"{number}-0.png") as image:
        expected = (np.asarray(image).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    np.testing.assert_allclose(written.pixels[number][0], expected, atol=1e-6)


# ------------------------------------------------------------------ what is told


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_without_the_extra_it_says_which(missing, monkeypatch, capsys):
    found = lambda name: None if name == missing else name  # noqa: E731
    monkeypatch.setattr(bench_peers, "find_spec", found)
    assert launch.main(["bench", "peers", "--json"]) == ExitCode.BAD_INPUT
    error = capsys.readouterr().err
    assert f"{missing} not installed" in error
    assert "parity" in error


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("train.clip_norm=1.0", "train.clip_norm: 1.0"),
        ("model.dtype=bfloat16", "model.dtype: bfloat16"),
        ("train.optimizer={kind: muon}", "train.optimizer.kind: muon"),
        ("data.source={kind: synthetic}", "data.source.kind: synthetic"),
        ("model.encoders.vision.family=siglip", "model.encoders.vision: of family siglip"),
        ("train.freeze=[decoder]", "train.freeze: ('decoder',)"),
    ],
)
def test_what_is_not_alike_is_refused(override, named, installed):
    with pytest.raises(ConfigError, match="bench peers") as raised:
        bench_peers.check_setup(config(override))
    assert named in str(raised.value)


class Faked:
    """A worker that trains a thousand tokens, in `seconds` of the turns in order."""

    def __init__(self, loss, *seconds):
        self.loss, self.seconds, self.turns = loss, iter((9.0, *seconds)), []

    def ask(self, action, **arguments):
        if action == "turn":
            self.turns.append(arguments)
            return {"seconds": next(self.seconds), "tokens": 1000}
        answers = {
            "first": {"loss": self.loss, "samples": [3, 1]},
            "loss": self.loss,
            "figures": {"peak_bytes": 7, "padding": 0.25},
        }
        return answers[action]


def test_trainers_take_turns_and_all_count(monkeypatch):
    monkeypatch.setattr(bench_peers, "TURNS", 3)
    ways = {"ours": Faked(1.0, 2, 1, 5), "transformers_default": Faked(1.00001, 8, 4, 12)}
    peers = {"transformers_default": ways["transformers_default"]}
    losses = bench_peers.compare_losses(ways["ours"], peers, told)
    turns = bench_peers.in_turns(ways, 900, told)
    assert [own["seconds"] for own in turns["ours"]] == [2, 1, 5]
    assert ways["ours"].turns == [{"tokens": 1}, *[{"tokens": 300}] * 3]
    part = {"samples": bench_peers.SAMPLES // 3}
    assert ways["transformers_default"].turns == [{"samples": bench_peers.WARM_UP}, *[part] * 3]
    figures = {key: way.ask("figures") for key, way in ways.items()}
    found = bench_peers.make_report(
        figures, turns, losses, {"transformers_default": bench_peers.DEFAULT}
    )
    assert found["ours"] == {
        "tokens_per_second": 375,
        "peak_bytes": 7,
        "padding": 0.25,
        "loss": 1.0,
    }
    assert found["transformers_default"]["speedup"] == 3
    assert found["transformers_default"]["setting"] == "batches of 8, sdpa"
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("loss", [1.001, float("nan")])
def test_other_losses_are_no_comparison(loss):
    with pytest.raises(RunError, match="losses of the same samples differ"):
        bench_peers.compare_losses(Faked(1.0), {"transformers_best": Faked(loss)}, told)


def test_a_worker_that_fails_says_so(capfd):
    with (
        TurnWorker("benchmarks.peer", "nowhere", "{") as worker,
        pytest.raises(WorkerError, match="has ended with code 1 at 'turn'"),
    ):
        worker.ask("turn")
    assert "JSONDecodeError" in capfd.readouterr().err


@pytest.mark.slow
def test_transformers_trains_the_same_model(monkeypatch, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.setattr(bench_peers, "SAMPLES", 16)
    monkeypatch.setattr(bench_peers, "TURNS", 1)
    tried = (TorchSetting(batch=4, packed=True), TorchSetting(batch=4, grouped=True))
    monkeypatch.setattr(bench_peers, "CANDIDATES", tried)
    assert launch.main(["bench", "peers", "--json", *SMALL]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    for key in ("ours", "transformers_default", "transformers_best"):
        own = found[key]
        assert own["tokens_per_second"] > 0
        assert own["peak_bytes"] > 2**26
        assert 0 <= own["padding"] < 1
        assert own["loss"] == pytest.approx(found["ours"]["loss"], abs=1e-4)
    assert found["transformers_default"]["padding"] > 0.2
    assert set(found["best_of"]) == {str(own) for own in tried}
