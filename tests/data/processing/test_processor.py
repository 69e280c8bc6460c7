"""Tokens, weights and placeholders of single samples."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.media.image.row_spec import ImageRowSpec
from data.processing.processor import Processor, make_processor
from data.sample import ConversationError, DataError, Sample, SampleError, Turn
from data.sources.source import Source
from data.targets import NEXT_TOKEN_ONLY, PairSpec
from tests.data.samples import AUDIO, TEXT, VISION, MakeConfig, Picture, make_sample, mixed_source


@given(index=st.integers(0, 200))
def test_measure_agrees_with_process(index: int, processor: Processor) -> None:
    sample = mixed_source(1, seed=index)[0, 0]
    assert processor.process(sample).lengths == processor.measure(sample)
    assert processor.process_prompt(sample).lengths == processor.measure_prompt(sample)


def test_measure_agrees_with_process_on_the_demo(processor: Processor, demo: Source) -> None:
    for index in range(len(demo)):
        assert processor.process(demo[index, 0]).lengths == processor.measure(demo[index, 0])


def test_a_header_that_lies_is_refused_by_name(processor: Processor) -> None:
    sample = replace(
        make_sample("liar", [20]), media={"image": (Picture(16, 20, claimed=(16, 100)),)}
    )
    with pytest.raises(SampleError, match=r"sample liar: was measured as .*13.* but holds .*3"):
        processor.process(sample)


def test_only_answers_are_learnt(processor: Processor) -> None:
    turns = (
        Turn("system", "listen"),
        Turn("user", "<image> which digits ?"),
        Turn("assistant", "1 2"),
        Turn("user", "and what number ?"),
        Turn("assistant", "3"),
    )
    example = processor.process(Sample("s", turns, media={"image": (Picture(16, 30),)}))
    np.testing.assert_array_equal(example.targets[:-1], example.tokens[1:])
    learnt = example.targets[example.loss_weight > 0].tolist()
    encode = processor.encode
    assert learnt == [*encode("1 2"), processor.end_ids[0], *encode("3"), processor.end_ids[0]]
    assert example.loss_weight[-1] == 1
    assert example.targets[-1] == processor.end_ids[0]


class Captions(PairSpec):
    """An objective that compares a text with an image."""

    def check(self, sample: Sample) -> None:
        if not sample.of("image"):
            raise ConversationError("there is no image to compare with")


def test_an_objective_says_what_it_needs_of_a_sample(
    processor: Processor, make_config: MakeConfig
) -> None:
    """Without the next token no answer is needed, and every token of the text is an input."""
    config, specs = make_config(), [TEXT, VISION, AUDIO]
    captions = make_processor(config, specs, targets={"captions": Captions("captions")})
    asked = Turn("user", "<image> a cat")
    sample = Sample("s", (asked,), {"image": (Picture(16, 30),)})
    example = captions.process(sample)
    assert example.lengths == captions.measure(sample)
    answered = processor.process(replace(sample, turns=(asked, Turn("assistant", "yes"))))
    assert example.tokens.tolist() == answered.tokens[: len(example.tokens)].tolist()
    assert not example.loss_weight.any()
    assert captions.fingerprint != processor.fingerprint
    for bad, message in (
        (Sample("s", (Turn("user", "a cat"),)), "no image to compare with"),
        (replace(sample, turns=(asked, Turn("assistant", " "))), "turn 1 is an empty answer"),
    ):
        with pytest.raises(SampleError, match=message):
            captions.measure(bad)
    both = make_processor(
        config, specs, targets={**NEXT_TOKEN_ONLY, "captions": Captions("captions")}
    )
    with pytest.raises(SampleError, match="does not end with an answer"):
        both.measure(sample)


def test_an_answer_without_a_weight_is_not_learnt(processor: Processor) -> None:
    turns = (
        Turn("user", "1 or 2 ?"),
        Turn("assistant", "1", learnt=False),
        Turn("user", "1 or 2 ?"),
        Turn("assistant", "2"),
    )
    example = processor.process(Sample("s", turns))
    learnt = example.targets[example.loss_weight > 0].tolist()
    assert learnt == [*processor.encode("2"), processor.end_ids[0]]
    with pytest.raises(SampleError, match="no answer is learnt, as each has a weight of 0"):
        processor.measure(Sample("s", turns[:2]))
    with pytest.raises(SampleError, match="the last answer has a weight of 0"):
        processor.measure_prompt(Sample("s", (*turns[2:], *turns[:2])))


def test_a_placeholder_may_be_a_word(make_config: MakeConfig) -> None:
    processor = make_processor(make_config(tokenizer="bytes"), [TEXT, VISION])
    ask = "Is <image> the tag <image>?"
    turns = Turn("user", ask, words=(ask.rindex("<image>"),)), Turn("assistant", "No: <image>")
    sample = Sample(
        "s",
        (turns[0], turns[1].with_words(re.compile("<image>"))),
        media={"image": (Picture(16, 30),)},
    )
    example = processor.process(sample)
    assert processor.measure(sample) == example.lengths
    told = "".join(processor.token_texts(example.tokens.tolist()))
    assert " the tag <image>?" in told
    learnt = example.targets[example.loss_weight > 0].tolist()
    assert learnt == [*processor.encode("No: <image>"), processor.end_ids[0]]


def test_a_placeholder_of_what_the_model_does_not_take_is_a_word(make_config: MakeConfig) -> None:
    processor = make_processor(make_config(tokenizer="bytes"), [TEXT, VISION])
    turns = Turn("user", "Is it <audio> or <video>?"), Turn("assistant", "<audio>")
    example = processor.process(Sample("s", turns))
    learnt = example.targets[example.loss_weight > 0].tolist()
    assert learnt == [*processor.encode("<audio>"), processor.end_ids[0]]
    assert {*processor.encode("<audio> or <video>")} <= {*example.tokens.tolist()}


def test_placeholders_mark_where_outputs_are_merged(processor: Processor) -> None:
    example = processor.process(make_sample("s", [8, 50], [3000]))
    for name, outputs in (("vision", (1, 7)), ("audio", (5,))):
        marked = np.flatnonzero(example.tokens == processor.placeholder_id(name))
        starts = zip(example.starts[name], outputs, strict=True)
        assert marked.tolist() == [start + i for start, count in starts for i in range(count)]


def test_a_prompt_and_its_answer_make_the_example(processor: Processor) -> None:
    sample = make_sample("s", [30], answer="4 5 6")
    prompt, example = processor.process_prompt(sample), processor.process(sample)
    answer = [*processor.encode("4 5 6"), processor.end_ids[0]]
    whole = [*prompt.tokens.tolist(), *answer]
    assert whole == [*example.tokens.tolist(), processor.end_ids[0]]
    assert not prompt.loss_weight.any()
    assert processor.decode(answer) == processor.answer_text(sample) == "4 5 6"
    assert processor.decode([*answer, 3, 4]) == "4 5 6"


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (make_sample("s", answer=" "), "turn 1 is an empty answer"),
        (make_sample("s", answer="so \ud83d"), r"turn 1 has U\+D83D, half of a character .* at 3"),
        (replace(make_sample("s", [9]), media={}), "1 <image> placeholders for 0 image files"),
        (
            replace(make_sample("s"), media={"image": (Picture(16, 9),)}),
            "0 <image> placeholders for 1",
        ),
        (Sample("s", (Turn("user", "hi"),)), "does not end with an answer"),
        (Sample("s", ()), "does not end with an answer"),
    ],
)
def test_malformed_conversations_are_refused(
    sample: Sample, message: str, processor: Processor
) -> None:
    for read in (
        processor.measure,
        processor.process,
        processor.measure_prompt,
        processor.process_prompt,
    ):
        with pytest.raises(SampleError, match=f"sample s: .*{message}"):
            read(sample)


def test_media_without_an_encoder_are_refused(make_config: MakeConfig) -> None:
    processor = make_processor(make_config(), [TEXT, AUDIO])
    with pytest.raises(SampleError, match="has image media, but no encoder takes image"):
        processor.measure(make_sample("s", [9]))


def test_a_clip_of_more_frames_than_have_positions_is_refused(make_config: MakeConfig) -> None:
    short = make_processor(make_config(), [TEXT, replace(AUDIO, longest=10)])
    assert short.measure(make_sample("s", clips=[800])).counts("audio") == (10,)
    for read in (short.measure, short.process, short.process_unchecked):
        with pytest.raises(
            SampleError, match="the clip has 11 frames, but the encoder has positions for 10"
        ):
            read(make_sample("s", clips=[801]))


def test_impossible_processors_are_refused(make_config: MakeConfig) -> None:
    with pytest.raises(DataError, match=r"data.image.mean has 2 values; valid: 1 or 1"):
        make_processor(make_config(image={"mean": (0.1, 0.2)}), [TEXT, VISION])
    with pytest.raises(DataError, match="the same placeholder"):
        make_processor(make_config(image={"placeholder": "<audio>"}), [TEXT, VISION])
    with pytest.raises(ValueError, match="channels 2 is not 1 or 3"):
        ImageRowSpec("v", channels=2)
    with pytest.raises(ValueError, match="sizes must be at least 1"):
        ImageRowSpec("v", patch=(0, 3))
