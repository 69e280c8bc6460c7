"""Videos give the results of the public implementation, from files to logits and answers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from data.config import DataConfig
from data.media.image.row_spec import LazyImage
from data.processing.processor import Processor
from data.sample import Sample, Turn
from mllm_jax.config.inputs import media_specs, row_specs
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from mllm_jax.generate.opened import open_model
from tests.data.hf_format.stored import make_processor
from tests.data.hf_format.test_processor import Picture
from tests.data.samples import Frames
from tests.data.sources.formats.writers import encoded_video
from tests.generate.test_parity import MOST, _bytes
from tests.models.pretrained.conversations import packed
from tests.models.pretrained.stored import ROOT, close, imported
from tests.models.pretrained.test_parity_whole import forward, newlines

FOLDER = "llava_onevision"
QUESTIONS = {"video": "What moves?", "video and image": "Which is the same?"}
BUDGETS = {"tokens": 160, "vision": 192}


def stored() -> dict[str, NDArray[Any]]:
    with np.load(ROOT / FOLDER / "videos.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def picture() -> LazyImage:
    with np.load(ROOT / "media.npz") as media:
        return Picture(media["image.wide"])


def sample(name: str) -> Sample:
    """A question about a video, which the text has before the image, if there is one."""
    media: dict[str, Any] = {"video": (Frames(stored()[f"{name}.frames"]),)}
    marks = "<video>\n"
    if "image" in name:
        media, marks = media | {"image": (picture(),)}, f"{marks}<image>\n"
    return Sample(name, (Turn("user", marks + QUESTIONS[name]),), media)


@pytest.fixture(scope="module")
def processor() -> Processor:
    specs = row_specs(imported(FOLDER)[0])
    values = {
        "processor": ROOT / FOLDER,
        "budgets": BUDGETS | {"segments": 8},
        "answers_begin": "header",  # as its own template asks
    }
    return make_processor(DataConfig.model_validate(values), tuple(specs))


@pytest.mark.parametrize("rows", [[0, 0], [1, 0]], ids=["packed", "crossed"])
def test_logits_are_the_same(processor: Processor, rows: list[int]) -> None:
    config, params, _ = imported(FOLDER)
    samples = [sample(name) for name in QUESTIONS]
    expected = [processor.measure_prompt(own, answered=False) for own in samples]
    examples = [processor.process_prompt(*own) for own in zip(samples, expected, strict=True)]
    media = [
        [own] * len(e.lengths.counts("vision"))
        for own, e in zip((0, rows[0]), examples, strict=False)
    ]
    batch, placements = packed(examples, config, BUDGETS, rows, media)
    _, _, logits, _ = jax.jit(lambda p: forward(config, p, batch))(params)
    for name, place in zip(QUESTIONS, placements, strict=True):
        here = place.row, slice(place.start, place.start + place.lengths.total("decoder"))
        ids = stored()[f"{name}.prompt_ids"][0]
        tokens = batch.text_rows.inputs[here]
        same = (tokens == ids) | newlines(config, tokens)
        assert same.all()
        assert tokens.shape == ids.shape
        found = np.asarray(logits[here])[None, -4:]
        close(found, stored()[f"{name}.logits"], name)


@pytest.mark.parametrize("family", ["llava", "llava_onevision", "qwen2_audio"])
def test_models_of_tiles_take_videos(family: str) -> None:
    (own,) = media_specs(imported(family)[0])
    assert ("video" in own.kinds) == (family == FOLDER)


def record(name: str) -> dict[str, Any]:
    parts = [{"type": "video", "video": encoded_video(stored()[f"{name}.frames"])}]
    if "image" in name:
        parts.append({"type": "image", "image": _bytes("image", "wide")})
    return {
        "messages": [
            {"role": "user", "content": [*parts, {"type": "text", "text": QUESTIONS[name]}]}
        ]
    }


def test_answers_are_the_same() -> None:
    generator = AnswerGenerator(open_model(None, ROOT / FOLDER, ["parallel.devices=1"]))
    replies = generator(
        [record(name) for name in QUESTIONS], AnswerOptions(new_tokens=MOST)
    ).replies
    for name, reply in zip(QUESTIONS, replies, strict=True):
        tokens = stored()[f"{name}.tokens"].tolist()
        ends = [n for n, own in enumerate(tokens) if own in generator.ends]
        assert list(reply.tokens) == (tokens[: ends[0] + 1] if ends else tokens)
