"""Answers are those that transformers generates with its cache, token by token."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import PIL.Image
import pytest
import soundfile

from data.batch import PackedBatch
from data.loading.evaluation import PromptSlot
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from mllm_jax.generate.opened import open_model
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.decoding.columns import AnswerColumns
from mllm_jax.train.decoding.programs import DecodingPrograms
from mllm_jax.train.decoding.sampling import TokenSampling
from mllm_jax.train.step.batch_placement import local_rows
from mllm_jax.train.step.build import build_step
from sharding.plan import ParallelPlan
from tests.data.samples import TEXT
from tests.models.pretrained.stored import ROOT, arrays, imported

DECODERS = (
    "llama3",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("qwen2", "qwen2_5", "qwen3")),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("mixtral", "qwen2_moe", "qwen3_moe")),
)
WHOLE = (
    "llava_onevision",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("llava", "qwen2_audio")),
)
#: Tokens of a row, and of an answer.
TOKENS, MOST = 32, 16


def expected(folder: str) -> dict[str, list[int]]:
    """Tokens that follow each prompt, by its name."""
    with np.load(ROOT / folder / "generated.npz") as stored:
        names = [name for name in stored.files if name != "versions"]
        return {name.removesuffix(".tokens"): stored[name].tolist() for name in names}


def texts(folder: str) -> list[list[int]]:
    """The prompts of a decoder."""
    inputs, _ = arrays(folder)
    rows = zip(inputs["padded.input_ids"], inputs["padded.attention_mask"], strict=True)
    return [ids[mask > 0].tolist() for ids, mask in rows]


def laid(
    prompts: list[list[int]], rows: list[int], count: int
) -> tuple[PackedBatch, list[PromptSlot]]:
    """Prompts in rows, and where they lie."""
    decoder = TEXT.empty_rows((count, TOKENS), [])
    slots, ends, segments = [], [0] * count, [0] * count
    for number, (ids, row) in enumerate(zip(prompts, rows, strict=True)):
        own, segments[row] = slice(ends[row], ends[row] + len(ids)), segments[row] + 1
        decoder.inputs[row, own] = ids
        TEXT.write(decoder, row, ends[row], segments[row], len(ids))
        slots.append(PromptSlot(number, row, ends[row], len(ids), segments[row], ()))
        ends[row] += len(ids)
    return PackedBatch({BACKBONE: decoder}), slots


def written(folder: str, plan: ParallelPlan, rows: list[int], count: int) -> list[list[int]]:
    """Answers to a decoder's prompts that lie in these of `count` rows."""
    model, params, _ = imported(folder)
    step = build_step(model, {"decoder": plan}, devices=jax.devices()[: plan.devices])
    decoding = DecodingPrograms(step, (), "layer")
    stored = step.form.to_stored(params)
    laid_out = jax.tree.map(lambda leaf: leaf.sharding, step.abstract_state["params"])
    prepared = decoding.prepare_parameters(jax.device_put(stored, laid_out))
    batch, slots = laid(texts(folder), rows, count)
    own = local_rows(step, count)["decoder"]
    columns = AnswerColumns.from_prompts(slots, own, decoding.columns_unit, [MOST] * len(slots))
    return decoding.write_answers(prepared, batch, columns, MOST, TokenSampling()).answers


@pytest.mark.parametrize("folder", DECODERS)
def test_decoders_write_the_same_tokens(folder: str) -> None:
    """Prompts of unlike lengths, two of them in one row."""
    found = written(folder, ParallelPlan(), [0, 1, 1], 2)
    assert found == list(expected(folder).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "plan"),
    [
        ("llama3", ParallelPlan(data=2, tensor=2)),
        ("llama3", ParallelPlan(fsdp=2, context=2)),
        ("llama3", ParallelPlan(context=2, tensor=2)),
        ("qwen2_moe", ParallelPlan(expert=2, tensor=2)),
    ],
    ids=str,
)
def test_every_plan_writes_the_same_tokens(folder: str, plan: ParallelPlan) -> None:
    assert written(folder, plan, [0, 1, 1], 2) == list(expected(folder).values())


# ---- whole models --------------------------------------------------------------------------------


def record(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A conversation up to its last answer, with its media in its parts."""
    return {"messages": [_message(own) for own in messages[:-1]]}


def _message(own: Mapping[str, Any]) -> dict[str, Any]:
    content = own["content"]
    parts = content if isinstance(content, str) else [_part(part) for part in content]
    return {"role": own["role"], "content": parts}


def _part(part: Mapping[str, str]) -> dict[str, Any]:
    if part["type"] == "text":
        return dict(part)
    return {"type": part["type"], part["type"]: _bytes(part["type"], part[part["type"]])}


def _bytes(kind: str, name: str) -> bytes:
    """A medium of the fixtures as a file."""
    file = io.BytesIO()
    with np.load(ROOT / "media.npz") as media:
        if kind == "image":
            PIL.Image.fromarray(media[f"image.{name}"]).save(file, "png")
        else:
            soundfile.write(file, media[f"clip.{name}"], 16_000, format="wav", subtype="PCM_16")
    return file.getvalue()


@pytest.fixture(scope="module")
def generators() -> dict[str, AnswerGenerator]:
    return {}


def generator_of(folder: str, generators: dict[str, AnswerGenerator]) -> AnswerGenerator:
    if folder not in generators:
        opened = open_model(None, Path(ROOT / folder), ["parallel.devices=1"])
        generators[folder] = AnswerGenerator(opened)
    return generators[folder]


@pytest.mark.parametrize("folder", WHOLE)
def test_whole_models_write_the_same_tokens(
    folder: str, generators: dict[str, AnswerGenerator]
) -> None:
    """All conversations in one batch, from files of media to tokens."""
    chats = json.loads((ROOT / folder / "chats.json").read_text())
    generator = generator_of(folder, generators)
    records = [record(chat["messages"]) for chat in chats.values()]
    replies = generator(records, AnswerOptions(new_tokens=MOST)).replies
    for reply, tokens in zip(replies, expected(folder).values(), strict=True):
        ends = [n for n, own in enumerate(tokens) if own in generator.ends]
        wanted = tokens[: ends[0] + 1] if ends else tokens
        assert list(reply.tokens) == wanted
        assert reply.stopped == ("end" if ends else "length")


@pytest.mark.slow
def test_an_answer_does_not_depend_on_the_batch(generators: dict[str, AnswerGenerator]) -> None:
    """Greedy and drawn, of one prompt alone and beside others."""
    folder = "llava_onevision"
    chats = json.loads((ROOT / folder / "chats.json").read_text())
    generator = generator_of(folder, generators)
    records = [record(chats[name]["messages"]) for name in ("wide", "text", "two")]
    for sampling in (TokenSampling(), TokenSampling(1.0, 20, 0.9, seed=3)):
        together = generator(records, AnswerOptions(sampling, MOST, rows=4))
        apart = generator(records, AnswerOptions(sampling, MOST, rows=1))
        assert [own.tokens for own in together.replies] == [own.tokens for own in apart.replies]
