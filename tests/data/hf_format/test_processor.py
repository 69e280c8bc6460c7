"""Samples through a released processor: everything that runs on `Processor` takes them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data.config import DataConfig
from data.loading.evaluation import prompt_batches
from data.loading.loader import DataLoader, MicrobatchLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.media.audio.row_spec import AudioRowSpec, LazyAudio
from data.media.image.row_spec import ImageRowSpec, LazyImage
from data.media.image.tiles import ImageTiling
from data.planning.stream import TrainingDemand
from data.processing.processor import Processor
from data.rows.spec import RowSpec
from data.sample import DataError, LengthError, Sample, SampleError, Turn
from tests.data.hf_format.stored import (
    CHATTING,
    ROOT,
    arrays,
    changed,
    composed,
    image,
    make_processor,
    read_json,
    wave,
)
from tests.data.samples import TEXT, WORK, ListSource

NEWLINE = 999
VISION = ImageRowSpec("vision", patch=(4, 4), class_token="dropped")
PINPOINTS = tuple(map(tuple, read_json("llava_onevision", "config.json")["image_grid_pinpoints"]))
TILED = ImageRowSpec(
    "vision", patch=(4, 4), tiling=ImageTiling(PINPOINTS, (18, 18), (4, 4), 2), newline=NEWLINE
)
AUDIO = AudioRowSpec("audio", mels=16, stride=4, pool=2, lookahead=2)
ENCODERS: dict[str, list[RowSpec]] = {
    "llava": [VISION],
    "llava_onevision": [TILED],
    "qwen2_audio": [AUDIO],
}
BUDGETS = {"tokens": 300, "segments": 8}
ROOM = {"vision": 320, "audio": 320}


class Picture(LazyImage):
    """One of the stored images, or grey pixels of a size."""

    def __init__(self, pixels: NDArray[np.uint8], claimed: tuple[int, int] | None = None) -> None:
        self.pixels, self.claimed = pixels, claimed

    def image_size(self) -> tuple[int, int]:
        return self.claimed or (self.pixels.shape[0], self.pixels.shape[1])

    def load(self, channels: int) -> NDArray[np.uint8]:
        assert channels == 3
        return self.pixels


class Clip(LazyAudio):
    """One of the stored clips, or noise."""

    def __init__(self, samples: NDArray[np.float32]) -> None:
        self.samples = samples

    def clip_info(self) -> tuple[int, int]:
        return len(self.samples), 16_000

    def load(self) -> NDArray[np.float32]:
        return self.samples


def config_of(family: str, **changes: Any) -> DataConfig:
    budgets = BUDGETS | {m.name: ROOM[m.name] for m in ENCODERS.get(family, ())}
    values = {"processor": ROOT / family, "budgets": budgets, "rows": 2, "lookahead": 12}
    return DataConfig.model_validate(values | changes)


def processor_of(family: str, **changes: Any) -> Processor:
    return make_processor(config_of(family, **changes), [TEXT, *ENCODERS.get(family, [])])


def sample_of(name: str, messages: Sequence[dict[str, Any]]) -> Sample:
    """A stored conversation."""
    turns, media = [], {"image": [], "audio": []}  # type: ignore[var-annotated]
    for message in messages:
        content, text = message["content"], ""
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind = part["type"]
            text += part["text"] if kind == "text" else f"<{kind}>\n"
            if kind != "text":
                media[kind].append(part[kind])
        turns.append(Turn(message["role"], text))
    images = tuple(Picture(image(each)) for each in media["image"])
    clips = tuple(Clip(wave(each)) for each in media["audio"])
    return Sample(name, tuple(turns), {"image": images, "audio": clips})


def stored_samples(family: str) -> dict[str, Sample]:
    chats = read_json(family, "chats.json")
    return {name: sample_of(name, chat["messages"]) for name, chat in chats.items()}


# ---- as released ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CHATTING)
def test_examples_are_what_the_released_processor_makes(family: str) -> None:
    processor, asking = processor_of(family), processor_of(family, answers_begin="header")
    stored = arrays(family, "inputs.npz" if family in ENCODERS else "processed.npz")
    media = [processor.placeholder_id(m.name) for m in ENCODERS.get(family, ())]
    for name, sample in stored_samples(family).items():
        example = processor.process(sample)
        ids = stored[f"{name}.input_ids"].reshape(-1)
        # Newlines of tiled images are placeholders there.
        assert as_placeholders(example.tokens, media) == ids[:-1].tolist()
        assert as_placeholders(example.targets, media) == ids[1:].tolist()
        mask = stored[f"{name}.answer_mask"].reshape(-1)
        if family == "llava":  # a blank before an answer that is a token of its own
            mask[:-1] |= mask[1:] & (ids[:-1] == 293)
        assert example.loss_weight.tolist() == mask[1:].astype(float).tolist()
        prompt = asking.process_prompt(sample)
        expected = stored[f"{name}.prompt_ids"].reshape(-1)
        assert as_placeholders(prompt.tokens, media) == expected.tolist()
        assert not prompt.loss_weight.any()


def as_placeholders(ids: NDArray[np.int32], media: Sequence[int]) -> list[int]:
    return [media[0] if i == NEWLINE else i for i in ids.tolist()]


def test_outputs_are_merged_at_placeholders_and_not_at_newlines() -> None:
    processor = processor_of("llava_onevision")
    for name in ("wide", "two"):
        example = processor.process(stored_samples("llava_onevision")[name])
        merged = np.zeros(len(example.tokens), bool)
        lengths = example.lengths
        for start, medium in zip(lengths.starts["vision"], lengths.of("vision"), strict=True):
            for _, first, count in TILED.merge_runs(medium):
                merged[start + first : start + first + count] = True
        assert merged.tolist() == (example.tokens == processor.placeholder_id("vision")).tolist()
        assert np.count_nonzero(example.tokens == NEWLINE) == (3 if name == "wide" else 2)


# ---- measuring -----------------------------------------------------------------------------------

SIZES = st.lists(st.tuples(st.integers(1, 70), st.integers(1, 70)), max_size=3)
WORDS = st.lists(st.sampled_from(["cat", "<s>", "\n", "7", "é", "user"]), max_size=5).map(" ".join)


def random_sample(family: str, sizes: Sequence[tuple[int, int]], texts: Sequence[str]) -> Sample:
    """Media of these sizes, of clips the products as samples."""
    audio = family == "qwen2_audio"
    mark = "<audio>" if audio else "<image>"
    asked = texts[0] + "".join(f"{mark}\n{texts[1]}" for _ in sizes)
    turns = (Turn("user", asked), Turn("assistant", "so " + texts[2]))
    grey = [np.full((*size, 3), 9, np.uint8) for size in sizes]
    noise = [np.ones(h * w + 321, np.float32) for h, w in sizes]
    media = {"audio": tuple(map(Clip, noise))} if audio else {"image": tuple(map(Picture, grey))}
    return Sample("s", turns, media)


@pytest.mark.parametrize("family", ENCODERS)
@given(sizes=SIZES, texts=st.tuples(WORDS, WORDS, WORDS))
@settings(deadline=None, max_examples=30)
def test_measured_is_processed(
    family: str, sizes: list[tuple[int, int]], texts: tuple[str, str, str]
) -> None:
    processor, sample = processor_of_once(family), random_sample(family, sizes, texts)
    measured = processor.measure(sample)
    example = processor.process(sample, measured)
    assert example.lengths == measured == processor.process_unchecked(sample).lengths
    assert processor.process_text(sample, measured).tokens.tolist() == example.tokens.tolist()
    assert processor.process_prompt(sample).lengths == processor.measure_prompt(sample)
    for name in processor.media:
        for number, length in enumerate(measured.of(name)):
            assert processor.read_medium(sample, name, number, measured).lengths == length


PROCESSORS: dict[str, Processor] = {}


def processor_of_once(family: str) -> Processor:
    return PROCESSORS.setdefault(family, processor_of(family))


def test_media_of_the_last_answer_are_no_part_of_its_prompt() -> None:
    processor = processor_of("qwen2_audio")
    turns = (Turn("user", "<audio>\nAnd?"), Turn("assistant", "so: <audio>\nthis."))
    clips = (Clip(np.ones(4321, np.float32)), Clip(np.ones(1234, np.float32)))
    sample = Sample("s", turns, {"audio": clips})
    prompt, complete = processor.process_prompt(sample), processor.process(sample)
    assert prompt.lengths == processor.measure_prompt(sample)
    assert (len(complete.media["audio"]), len(prompt.media["audio"])) == (2, 1)
    first = int(np.flatnonzero(complete.loss_weight)[0]) + 1
    assert prompt.tokens.tolist() == complete.tokens[:first].tolist()


def test_media_that_a_template_writes_before_an_answer_are_refused() -> None:
    """LLaVA-OneVision's template moves them there; no prompt has them."""
    processor = processor_of("llava_onevision")
    pictures = (Picture(image("wide")), Picture(image("tall")))
    for text in ("so: <image>\nthis.", "<image>\nthis."):
        turns = (Turn("user", "<image>\nAnd?"), Turn("assistant", text))
        with pytest.raises(SampleError, match=r"no prompt leads|an answer begins with a medium"):
            processor.process(Sample("s", turns, {"image": pictures}))


def test_a_header_that_lies_is_refused_by_name() -> None:
    processor = processor_of("llava_onevision")
    for claimed, reason in (((47, 21), "was measured as"), ((22, 45), "rows and 8 columns")):
        sample = replace(
            stored_samples("llava_onevision")["wide"],
            media={"image": (Picture(image("wide"), claimed),)},
        )
        with pytest.raises(LengthError, match="sample wide: was measured as"):
            processor.process(sample)
        if claimed == (22, 45):
            with pytest.raises(LengthError, match=reason):
                processor.read_medium(sample, "vision", 0, processor.measure(sample))


# ---- loaders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("lengths", ["cached", "on_read"])
def test_the_loader_packs_what_is_processed(family: str, lengths: str) -> None:
    config = config_of(family, balance="per_phase")
    processor = make_processor(config, [TEXT, *ENCODERS[family]])
    samples = list(stored_samples(family).values())
    source, seen = ListSource(samples), set()
    for batch in batches(source, processor, config, lengths):
        tokens, segments = batch.text_rows.inputs, batch.text_rows.segment_ids
        for row in range(len(tokens)):
            for segment in range(1, segments[row].max() + 1):
                seen.add(tuple(tokens[row, segments[row] == segment].tolist()))
    assert seen == {tuple(processor.process(s).tokens.tolist()) for s in samples}


def batches(
    source: ListSource, processor: Processor, config: DataConfig, lengths: str
) -> list[Any]:
    rows = {module: [0, 1] for module in ("decoder", *processor.specs)}
    work = TrainingDemand(work=WORK)
    loader: MicrobatchLoader
    if lengths == "on_read":
        loader = MeasuringDataLoader(source, processor, config, 0, [rows], None, work, SingleHost())
    else:
        loader = DataLoader(source, processor, config, 0, rows, None, work)
    with loader as microbatches:
        return [next(microbatches).batch for _ in range(4)]


def test_prompts_are_packed_without_their_answers() -> None:
    config = config_of("llava_onevision")
    processor = make_processor(config, [TEXT, TILED])
    samples = stored_samples("llava_onevision")
    source = ListSource(list(samples.values()))
    rows = {module: [0, 1] for module in ("decoder", "vision")}
    slots = 0
    for batch in prompt_batches(source, processor, config, rows):
        assert not batch.skipped
        for slot in batch.slots:
            prompt = processor.process_prompt(source[slot.index, 0]).tokens
            place = slot.row, slice(slot.start, slot.start + slot.tokens)
            result = batch.batch.text_rows.inputs[place]
            assert result.tolist() == prompt.tolist()
            slots += 1
    assert slots == len(samples)


def test_generated_ids_become_the_answer() -> None:
    for family in CHATTING:
        processor = processor_of_once(family)
        sample = next(iter(stored_samples(family).values()))
        ids = [*processor.encode(processor.answer_text(sample)), processor.end_ids[0], 3, 4]
        assert processor.decode(ids) == processor.answer_text(sample) == sample.turns[-1].text


def test_a_worker_has_the_same_processor() -> None:
    processor = processor_of("llava_onevision")
    other = pickle.loads(pickle.dumps(processor))
    sample = stored_samples("llava_onevision")["large"]
    assert other.measure(sample) == processor.measure(sample)
    assert other.fingerprint == processor.fingerprint


# ---- bad input -----------------------------------------------------------------------------------


def test_samples_that_cannot_be_told_are_named() -> None:
    processor = processor_of("qwen2_5")
    bad = Sample("s", (Turn("user", "\ufdd0"), Turn("assistant", "x")))
    for read in (
        processor.measure,
        processor.process,
        processor.measure_prompt,
        processor.process_prompt,
    ):
        with pytest.raises(SampleError, match=r"sample s: a text has U\+FDD0"):
            read(bad)


def test_a_clip_longer_than_the_window_is_named() -> None:
    turns = (Turn("user", "<audio>\nWhat?"), Turn("assistant", "x"))
    sample = Sample("s", turns, {"audio": (Clip(np.zeros(16_001, np.float32)),)})
    with pytest.raises(SampleError, match=r"sample s: clip of 1.00 s is longer than the 1 s"):
        processor_of("qwen2_audio").measure(sample)


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("llava", {"image": {"mean": [0.1, 0.2, 0.3]}}, "data.image.mean: .* has no effect"),
        ("llava", {"image": {"height": 16}}, "data.image.height: 16 has no effect"),
        ("qwen2_audio", {"audio": {"hop": 80}}, "data.audio.hop: 80 has no effect"),
        ("llava", {"processor": ROOT / "nothing"}, "nothing is not a folder"),
        ("llava", {"processor": ROOT / "whisper"}, "has no tokenizer.json"),
    ],
)  # fmt: skip
def test_impossible_processors_are_refused(
    family: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        processor_of(family, **changes)


def test_an_encoder_with_settings_of_its_own_takes_none_of_the_folder() -> None:
    turns = (Turn("user", "<image>\nWhat?"), Turn("assistant", "x"))
    sample = Sample("s", turns, {"image": (Picture(np.zeros((20, 40, 3), np.uint8)),)})
    values = {"modules": {"vision": {"height": 8}}}
    for changes, positions in ({}, 4 * 4 + 1), ({"image": values}, 2 * 4 + 1):
        assert processor_of("llava", **changes).measure(sample).counts("vision") == (positions,)


@pytest.mark.parametrize("changes", [{"tokenizer": "bytes"}, {"chat": {"end": "</s>"}}])
def test_what_the_folder_has_is_not_configured(changes: dict[str, Any]) -> None:
    (key,) = changes
    with pytest.raises(ValueError, match=f"data.{key}: .* has no effect, as data.processor"):
        config_of("llava", **changes)


def test_a_processor_that_keeps_other_outputs_is_refused(tmp_path: Path) -> None:
    composed(tmp_path, "llava_onevision", "llava_onevision")
    values = {"vision_aspect_ratio": "anyres_max_9", "image_token": "<image>"}
    changed(tmp_path, "processor_config.json", **values)
    with pytest.raises(
        DataError, match=r"keeps the outputs of 9 tiles .* but the encoder 'vision' those of 2"
    ):
        processor_of("llava_onevision", processor=tmp_path)


def test_tiles_need_a_released_processor() -> None:
    with pytest.raises(DataError, match="takes tiles, into which images are cut by"):
        make_processor(config_of("llava_onevision", processor=None), [TEXT, TILED])


def test_a_folder_without_images_leaves_them_to_the_configuration() -> None:
    config = config_of("qwen2_5", image={"mean": [0.0], "std": [1.0]})
    medium = make_processor(config, [TEXT, VISION])._read_medium(
        stored_samples("llava")["one"], VISION.name, "image", 0
    )
    assert medium.more["sizes"].tolist() == [5, 13]
    np.testing.assert_allclose(medium.inputs[0, :3], image("wide")[0, 0] / 255, atol=1e-6)


def test_the_fingerprint_has_the_files_and_what_bounds_images(tmp_path: Path) -> None:
    composed(tmp_path, "llava", "llava")
    seen = set()
    for changes in ({}, {"image": {"max_pixels": 5000}}, {"image": {"placeholder": "<i>"}}):
        seen.add(processor_of("llava", processor=tmp_path, **changes).fingerprint)
    changed(tmp_path, "preprocessor_config.json", resample=2)
    seen.add(processor_of("llava", processor=tmp_path).fingerprint)
    assert len(seen) == 4
