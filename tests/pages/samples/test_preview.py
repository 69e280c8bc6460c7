"""The preview: the batches that train, said in words and pictures."""

from __future__ import annotations

import base64
import io
import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml
from PIL import Image

import launch
from data.media.preview import MediaPreview, PreviewPicture
from data.planning.stream import LoaderState
from data.sample import DataError
from mllm_jax.config.load import ExperimentConfig, resolve_config
from mllm_jax.pages.samples.page import PANELS, PreviewPage, render_page
from mllm_jax.pages.samples.panels.samples import samples_panel
from mllm_jax.pages.samples.preview import (
    DataPreview,
    SampleDetail,
    build_preview,
    find_quantiles,
    range_width,
)
from mllm_jax.plan.budgets import advise_budgets
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import open_loader
from tests.data.samples import assert_same_arrays
from tests.data.sources.formats.writers import FILMED, json_list
from tests.pages.run.test_page import Reader
from tests.pages.samples.folder import content
from tests.release.test_import import PARITY, imported
from tests.train.llava_folder import MISSING, TRUNCATED


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ExperimentConfig:
    return resolve_config(content(tmp_path_factory.mktemp("preview") / "mine"), source="test")


@pytest.fixture(scope="module")
def seen(config: ExperimentConfig) -> DataPreview:
    return build_preview(config, 10)


def of_kind(seen: DataPreview, bucket: str) -> SampleDetail:
    """The first sample with a medium of a bucket."""
    return next(own for own in seen.details if any(m.bucket == bucket for m in own.media))


def test_the_batches_are_those_of_training(experiment: Experiment, tmp_path: Path) -> None:
    seen = build_preview(experiment.config, 30)
    with open_loader(experiment, LoaderState(0)) as loader:
        trained = list(islice(loader, len(seen.microbatches)))
    for one, other in zip(seen.microbatches, trained, strict=True):
        assert_same_arrays(one.batch, other.batch)
        assert one.state == other.state


def test_a_sample_is_told_token_by_token(seen: DataPreview) -> None:
    for own in seen.details:
        if own.sample.fault is not None:
            continue
        learnt = "".join(token.text for token in own.tokens if token.learnt)
        assert learnt in {f"{text}<end>" for text in ("Noise.", "Wind.", "Hi.")}
        assert sum(token.count for token in own.tokens) == own.sample.tokens + 1
        assert sum(token.learnt for token in own.tokens) == own.sample.learnt
        assert [t.count for t in own.tokens if t.medium] == [m.outputs for m in own.media]
    text = "".join(token.text for token in of_kind(seen, "vision").tokens)
    assert text == "<user>vision\nWhat?<end><assistant>Noise.<end>"


def test_an_image_is_seen_as_its_encoder_gets_it(seen: DataPreview) -> None:
    own = of_kind(seen, "vision").media[0]
    ((picture,),) = own.look.seen
    assert own.look.original is not None
    high, wide = own.look.original.pixels.shape[:2]
    assert own.look.description == f"{wide} x {high} pixels"
    # Images are scaled down to whole patches of 16 x 8 pixels, and none of the colours is lost.
    grid = picture.pixels.shape[0] // 16, picture.pixels.shape[1] // 8
    assert grid[0] * grid[1] == own.positions
    resized = Image.fromarray(own.look.original.pixels[:, :, 0]).resize(
        (8 * grid[1], 16 * grid[0]), Image.Resampling.BICUBIC
    )
    np.testing.assert_array_equal(picture.pixels[:, :, 0], np.asarray(resized))


@pytest.mark.parametrize("exact", [True, False])
def test_an_original_is_shown_no_smaller_than_what_its_encoder_gets(
    seen: DataPreview, exact: bool
) -> None:
    detail = of_kind(seen, "vision")
    picture = PreviewPicture(np.zeros((224, 288, 3), np.uint8), "seen", exact=exact)
    original = PreviewPicture(np.zeros((480, 640, 3), np.uint8), "in the file")
    look = MediaPreview("640 x 480 pixels", original=original, seen=((picture,),))
    media = (replace(detail.media[0], look=look),)
    one = replace(seen, details=(replace(detail, media=media),))
    widths = [int(n) for n in re.findall(r"<img [^>]*width:(\d+)px", samples_panel(one).content)]
    assert widths == [288, 288]


def test_a_clip_is_heard_and_its_frames_are_seen(seen: DataPreview) -> None:
    own = of_kind(seen, "audio").media[0]
    assert own.look.sound is not None
    ((picture,),) = own.look.seen
    assert picture.pixels.shape == (8, own.positions, 3)
    address = re.search(r'<audio [^>]*src="data:audio/wav;base64,([^"]+)"', render_page(seen))
    assert address
    wave, rate = soundfile.read(io.BytesIO(base64.b64decode(address[1])))
    first = next(m for d in seen.details for m in d.media if m.look.sound is not None)
    assert first.look.sound is not None
    assert rate == 8000
    np.testing.assert_allclose(wave, first.look.sound.wave, atol=1e-4)


def test_frames_of_a_video_are_seen_as_their_encoder_gets_them(tmp_path: Path) -> None:
    """Beside an image, of a model whose images are tiles."""
    records = json_list(tmp_path, FILMED)
    values = imported(tmp_path / "run", PARITY / "llava_onevision")
    budgets = values["data"]["budgets"] | {"vision": 96}
    values["data"] |= {"source": records, "rows": 1, "lookahead": 2, "budgets": budgets}
    seen = build_preview(resolve_config(values, source="test"), 2)
    assert not seen.skipped
    shown = {len(own.media): own for own in seen.details}
    (video,) = shown[1].media
    assert video.look.original is not None
    assert video.look.original.pixels.shape == (20, 26, 3)
    assert [len(row) for row in video.look.seen] == [3]
    assert "3 frames of 26 x 20 pixels are taken of those in the file" in render_page(seen)
    assert [len(own.look.seen[0]) for own in shown[3].media] == [1, 1, 2]


def test_samples_and_what_is_skipped_are_listed_in_order(seen: DataPreview) -> None:
    value = seen.to_json()
    places = [(own["microbatch"], own["row"], own["start"]) for own in value["samples"]]
    assert places == sorted(places)
    assert max(row for _, row, _ in places) > 0
    unusable = {own["name"]: own["unusable"] for own in value["samples"] if own["unusable"]}
    assert {*unusable} == {f"train.json[{TRUNCATED}]"}
    assert "'cut.png' cannot be decoded" in unusable[f"train.json[{TRUNCATED}]"]
    reasons = {own["sample"]: own["reason"] for own in value["skipped"]}
    assert reasons == {
        f"train.json[{MISSING}]": "missing file",
        f"train.json[{TRUNCATED}]": "unreadable image",
    }


def test_what_is_skipped_again_is_told_where_it_was_met_first(seen: DataPreview) -> None:
    twice = replace(seen, microbatches=[*seen.microbatches, *seen.microbatches])
    for once, again in zip(seen.skipped, twice.skipped, strict=True):
        assert again == replace(once, times=2 * once.times)


def test_microbatches_of_a_step_are_told_together(seen: DataPreview) -> None:
    train = seen.config.train.model_copy(update={"accumulate": 2})
    config = seen.config.model_copy(update={"train": train})
    text = render_page(replace(seen, config=config, microbatches=3 * [*seen.microbatches]))
    told = re.findall(r"<h3>(Step [^<]*)</h3>", text)
    count = 3 * len(seen.microbatches)
    assert told == [f"Step {m // 2 + 1}, its microbatch {m % 2 + 1}" for m in range(count)]


def test_what_is_skipped_is_named_with_its_reason(seen: DataPreview) -> None:
    told = {own.name: own.fault.text for own in seen.skipped}
    assert len(told) == len(seen.skipped)
    met = [name for own in seen.microbatches for name, _ in own.skipped]
    assert {own.name: own.times for own in seen.skipped} == Counter(met)
    assert {*told} == {f"train.json[{MISSING}]", f"train.json[{TRUNCATED}]"}
    assert "'gone.png' is missing" in told[f"train.json[{MISSING}]"]
    assert "'cut.png' cannot be decoded" in told[f"train.json[{TRUNCATED}]"]
    lines = PreviewPage(seen, Path("x.html")).lines
    assert lines[-1] == "written: x.html"
    assert sum(line.startswith("skipped: ") for line in lines) == 2
    first = f"skipped: missing file, 1; the first, train.json[{MISSING}]: 'gone.png' is missing"
    assert any(line.startswith(first) for line in lines)
    # The header of the truncated image is whole: it leaves a hole, and is found when it is read.
    (hole,) = (own for own in seen.samples if own.fault is not None)
    assert hole.name == f"train.json[{TRUNCATED}]"
    assert hole.learnt == 0
    assert hole not in seen.used
    assert len(seen.used) == len(seen.samples) - 1 == sum(map(len, seen.by_source.values()))
    assert "It could not be read whole" in render_page(seen)


def test_figures_add_up(seen: DataPreview) -> None:
    tokens = sum(own.tokens for own in seen.samples)
    room, used = seen.budgets["tokens"]
    assert (room, used) == (len(seen.microbatches) * 2 * 128, tokens)
    assert seen.padding["tokens"] == 1 - tokens / room
    assert seen.sizes == {"llava": 12}
    assert [*seen.by_source] == ["llava"]
    assert find_quantiles([3, 9, 4]) == (3, 4.0, 9)
    assert [range_width([n], 12) for n in (7, 80, 4000)] == [1, 10, 500]


def test_the_page_is_whole_and_names_nothing_outside_itself(seen: DataPreview) -> None:
    text = render_page(seen)
    reader = Reader(text)
    places = {attributes.get("id") for _, attributes in reader.found}
    for name, attributes in reader.found:
        assert name not in ("link", "iframe")
        assert (attributes.get("src") or "data:").startswith("data:")
        assert (attributes.get("href") or "#rows").removeprefix("#") in places
    assert "http" not in text
    assert "url(" not in text
    assert len({make(seen).key for make in PANELS}) == len(PANELS)
    assert all(make(seen).content for make in PANELS)


def test_names_and_texts_of_samples_are_no_markup(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    values = content(tmp_path)
    turns = [{"from": "human", "value": hostile}, {"from": "gpt", "value": "Hi."}]
    (tmp_path / "train.json").write_text(json.dumps([{"conversations": turns}]))
    text = render_page(build_preview(resolve_config(values, source="test"), 1))
    assert "<script>alert" not in text
    shown = re.search(r'<p class="tokens">(.*?)</p>', text, re.DOTALL)
    assert shown
    assert hostile in unescape(re.sub(r"<[^>]+>", "", shown[1]))


def test_members_of_a_mixture_and_groups_of_hosts_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = content(tmp_path)
    one = {"source": values["data"]["source"], "weight": 3}
    other = {"source": {"kind": "synthetic", "samples": 16, "scale": 0.01}}
    values["data"] |= {
        "source": {"kind": "mixture", "members": {"mine": one, "noise": other}},
        "budgets": {"tokens": 512, "segments": 8, "vision": 256, "audio": 512},
        "lengths": "on_read",
        "balance_group": 2,
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
    words = ["preview", "--config", str(tmp_path / "mine.yaml"), "--samples", "12", "--json"]
    assert launch.main(words) == ExitCode.OK
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    counts = {name: own["samples"] for name, own in told["sources"].items()}
    assert sum(counts.values()) == len(told["samples"]) >= 12
    assert counts["mine"] > counts["noise"] > 0
    assert told["sources"]["noise"]["of"] == 16
    assert "data.balance_group is 2" in told["notes"][0]
    assert told["notes"][1].startswith("Keys of records that are read: ")
    assert Path(told["file"]) == tmp_path / "runs" / "mine" / "preview.html"
    assert "data.balance_group is 2" in Path(told["file"]).read_text()


def of_positions(config: ExperimentConfig, most: int) -> ExperimentConfig:
    """The configuration with a decoder of fewer positions."""
    decoder = config.model.decoder.model_copy(update={"max_positions": most})
    model = config.model.model_copy(update={"decoder": decoder})
    return config.model_copy(update={"model": model})


def test_samples_longer_than_the_models_positions_are_skipped_and_counted(
    config: ExperimentConfig, seen: DataPreview
) -> None:
    lengths = {own.name: own.tokens for own in build_preview(config, 40).samples}
    most = sorted({*lengths.values()})[-2]
    longer = {name for name, tokens in lengths.items() if tokens > most}
    short = of_positions(config, most)
    found = build_preview(short, 40)
    reason = f"above the {most} of decoder.max_positions"
    assert {own.name for own in found.skipped if reason in own.fault.text} == longer
    assert max(own.tokens for own in found.used) == most
    advice = advise_budgets(short)
    assert advice.present is not None
    for outcome in (advice.present, advice.suggested):
        assert outcome.reasons["longer than the model's positions"].samples == len(longer)


def test_a_source_without_a_usable_sample_is_shown_with_the_reasons(
    config: ExperimentConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = of_positions(config, 2)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(short.model_dump(mode="json")))
    line = ["preview", "--config", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "p.html")]
    assert launch.main([*line, "--json"]) == ExitCode.BAD_DATA
    told = json.loads(capsys.readouterr().out)
    (total,) = (own["of"] for own in told["sources"].values())
    assert told["samples"] == []
    assert len(told["skipped"]) == total
    assert told["notes"] == [f"None of {total} samples can be used: train refuses these data."]
    text = (tmp_path / "p.html").read_text()
    assert "above the 2 of decoder.max_positions" in unescape(text)
    with pytest.raises(DataError, match=r"above the 2 of decoder.max_positions$"):
        advise_budgets(short)


def test_data_that_cannot_be_read_and_files_that_cannot_be_written_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content(tmp_path)))
    words = ["preview", "--config", str(tmp_path / "mine.yaml")]
    assert launch.main([*words, "data.source.path=/nowhere.json"]) == ExitCode.BAD_DATA
    assert "/nowhere.json" in capsys.readouterr().err
    assert launch.main([*words, "--out", str(tmp_path)]) == ExitCode.BAD_INPUT
    assert "cannot be written: Is a directory; choose --out" in capsys.readouterr().err
    assert launch.main([*words, "data.on_error=raise"]) == ExitCode.BAD_DATA
    assert "sample train.json[" in capsys.readouterr().err
