"""The data set to try things out with: files of LLaVA's form, whose answers need the image."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from data.sample import DataError
from data.sources.shapes import (
    COLOURS,
    HELDOUT,
    PLACES,
    SHAPES,
    SIDE,
    ExampleData,
    ShapeScene,
    write_example,
)
from mllm_jax.config.load import load_config
from mllm_jax.train.loading.loader import open_single_loader
from tests.configs import ROOT

IMAGES = 12


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ExampleData:
    return write_example(tmp_path_factory.mktemp("shapes") / "data", IMAGES, seed=3)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def test_equal_seeds_give_equal_files(made: ExampleData, tmp_path: Path) -> None:
    same = write_example(tmp_path / "same", IMAGES, seed=3)
    other = write_example(tmp_path / "other", IMAGES, seed=4)
    assert files(same.folder) == files(made.folder) != files(other.folder)
    assert len(files(made.folder)) == 12 + 2 * (IMAGES + HELDOUT)


def test_captions_say_what_is_there() -> None:
    scene = ShapeScene("cross", "blue", frozenset({"bottom right", "top left"}), seed=0)
    assert scene.caption == "2 blue crosses: top left, bottom right"


def test_held_out_images_have_contents_of_their_own(made: ExampleData) -> None:
    train, lock = (
        {answers_of(record) for record in json.loads((made.folder / name).read_text())}
        for name in ("train.json", "heldout.json")
    )
    assert train
    assert len(lock) > 4
    assert not any(one <= other for one in lock for other in train if len(one) > 1)
    assert 0 < made.guessed < 0.6


def answers_of(record: dict[str, object]) -> frozenset[tuple[str, str]]:
    turns = record["conversations"]
    assert isinstance(turns, list)
    texts = [turn["value"].removeprefix("<image>\n") for turn in turns]
    return frozenset(zip(texts[::2], texts[1::2], strict=True))


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("place", PLACES)
def test_a_shape_is_where_and_what_it_is_said_to_be(kind: str, place: str) -> None:
    scene = ShapeScene(kind, "red", frozenset({place}), seed=1)
    assert scene.draw_image().size == (SIDE, SIDE)
    red = np.asarray(scene.draw_image())[..., 0] > 128
    rows, columns = np.nonzero(red)
    half = SIDE // 2
    assert (rows.max() < half) == place.startswith("top")
    assert (columns.max() < half) == place.endswith("left")
    assert (rows.min() >= half) == place.startswith("bottom")
    answers = {
        question.text: question.answer for question in scene.make_questions(random.Random(0))
    }
    assert answers["What kind of shape is there?"] == kind
    assert answers["How many shapes are there?"] == "1"


def test_a_sound_has_tones_where_shapes_are_and_tells_kind_and_colour(tmp_path: Path) -> None:
    """The strongest frequencies are the pitch of the kind and the overtone of the colour."""
    scene = ShapeScene("triangle", "blue", frozenset({"top left", "bottom right"}), seed=1)
    scene.write_media(tmp_path, "scene")
    samples, rate = soundfile.read(tmp_path / "scene.wav")
    beats = samples.reshape(len(PLACES), -1)
    assert (np.abs(beats).max(axis=1) > 0.1).tolist() == [True, False, False, True]
    spectrum = np.abs(np.fft.rfft(beats[0]))
    strongest = np.sort(np.argsort(spectrum)[-2:]) * rate / beats.shape[1]
    pitch = 320 * 1.3 ** SHAPES.index("triangle")
    assert strongest == pytest.approx([pitch, 3 * pitch], abs=rate / beats.shape[1])


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_answers_of_a_labelled_record_do_not_tell_the_label(made: ExampleData, split: str) -> None:
    records = json.loads((made.folder / f"{split}_heads.json").read_text())
    for record in records:
        assert SHAPES[record["labels"]["shape"]] not in json.dumps(record["conversations"])


def test_yes_and_no_are_as_the_image_says() -> None:
    rng = random.Random(0)
    for _ in range(50):
        scene = ShapeScene.draw_scene(rng)
        *_, asked = scene.make_questions(rng)
        there = any(place in asked.text for place in scene.places)
        assert asked.answer == ("yes" if there else "no")
        assert scene.colour in COLOURS


def test_the_configuration_of_the_readme_reads_it(made: ExampleData) -> None:
    folder = made.folder
    config = load_config(
        ROOT / "configs/llava.yaml",
        [
            f"data.source.path={folder / 'train.json'}",
            f"data.source.media={folder / 'media'}",
            f"data.source.heldout={folder / 'heldout.json'}",
            f"data.processor={ROOT / 'configs/processors/llava'}",
            f"data.cache={folder.parent / 'cache'}",
            "data.budgets={tokens: 256, segments: 4, vision: 40}",
            "data.lookahead=8",
        ],
    )
    from data.sources.make import make_source
    from mllm_jax.config.buckets import configured_processor

    processor = configured_processor(config)
    example = processor.process(make_source(config.data, "train")[0, 0])
    learnt = processor.token_texts(example.targets[example.loss_weight > 0].tolist())
    assert learnt.count("<|im_end|>") == 4
    assert len(example.media["vision"][0].inputs) == 17
    with open_single_loader(config, make_source(config.data, "train"), processor) as loader:
        assert next(iter(loader)).stats.samples >= 2


def test_a_folder_that_is_there_is_left_alone(made: ExampleData) -> None:
    before = files(made.folder)
    with pytest.raises(DataError, match="is there already; valid: another --out"):
        write_example(made.folder, 2, seed=0)
    assert files(made.folder) == before
    with Image.open(made.folder / "media/train-0000.png") as image:
        assert image.mode == "RGB"
