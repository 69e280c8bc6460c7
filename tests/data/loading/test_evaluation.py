"""Prompts with room for answers: every sample once, answers where the slots say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from data.config import DataConfig
from data.loading.evaluation import PromptBatch, prompt_batches
from data.processing.processor import Processor
from data.sample import SampleError
from data.sources.source import Source
from tests.data.samples import ListSource, MakeConfig, Picture, all_rows, make_sample

RESERVE = 18


def test_every_heldout_sample_comes_once(
    heldout: Source, processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(rows=1, lookahead=9)
    batches = list(prompt_batches(heldout, processor, config, all_rows(1), RESERVE))
    assert len(batches) > 3
    indices = [slot.index for batch in batches for slot in batch.slots]
    assert sorted(indices) == list(range(len(heldout)))
    assert not any(batch.skipped for batch in batches)
    limited = prompt_batches(heldout, processor, config, all_rows(1), RESERVE, limit=7)
    assert sorted(s.index for b in limited for s in b.slots) == list(range(7))
    assert {b.batch["decoder"]["tokens"].shape for b in batches} == {(1, 312)}


def test_slots_follow_their_prompts_and_are_free(
    heldout: Source, processor: Processor, config: DataConfig
) -> None:
    for batch in prompt_batches(heldout, processor, config, all_rows(4), RESERVE):
        check_slots(batch, heldout, processor)


def check_slots(batch: PromptBatch, source: Source, processor: Processor) -> None:
    decoder = batch.batch["decoder"]
    assert not decoder["loss_weight"].any()
    free = np.zeros(decoder["tokens"].shape, bool)
    for slot in batch.slots:
        prompt = processor.prompt(source[slot.index])
        length = len(prompt.tokens)
        whole = slice(slot.start - length, slot.start + RESERVE)
        tokens = decoder["tokens"][slot.row, whole]
        np.testing.assert_array_equal(tokens[:length], prompt.tokens)
        assert not tokens[length:].any()
        assert len(set(decoder["segment_ids"][slot.row, whole].tolist())) == 1
        positions = decoder["positions"][slot.row, whole]
        np.testing.assert_array_equal(positions, np.arange(length + RESERVE))
        assert slot.encoders == tuple(prompt.media)
        free[slot.row, slot.start : slot.start + RESERVE] = True
    for media in decoder["media"].values():
        assert (media[free] == -1).all()


def test_answers_of_the_demo_fit_the_reserve(heldout: Source, processor: Processor) -> None:
    for index in range(len(heldout)):
        ids = processor.encode(processor.answer(heldout[index]))
        assert len(ids) + 1 <= RESERVE


def test_bad_samples_are_skipped_or_raised(processor: Processor, make_config: MakeConfig) -> None:
    liar = replace(make_sample("liar", [40]), media={"image": (Picture(16, 40, claimed=(16, 60)),)})
    long = make_sample("long", [560])
    source = ListSource([make_sample("a"), liar, long, "broken", make_sample("b", answer="")])
    (batch,) = prompt_batches(source, processor, make_config(), all_rows(4), 250)
    assert [slot.index for slot in batch.slots] == [0]
    assert sorted(name for name, _ in batch.skipped) == ["b", "bad3", "liar", "long"]
    for bad in source.samples[1:]:
        raising = prompt_batches(
            ListSource([bad]), processor, make_config(on_error="raise"), all_rows(4), 250
        )
        with pytest.raises(SampleError):
            list(raising)


def test_hosts_get_their_rows(heldout: Source, processor: Processor, config: DataConfig) -> None:
    rows = {"decoder": [2], "vision": [1], "audio": [0, 3]}
    whole = prompt_batches(heldout, processor, config, all_rows(4), RESERVE)
    parts = prompt_batches(heldout, processor, config, rows, RESERVE)
    for all_of_it, part in zip(whole, parts, strict=True):
        assert part.slots == all_of_it.slots
        expected = all_of_it.batch["decoder"]["tokens"][[2]]
        np.testing.assert_array_equal(part.batch["decoder"]["tokens"], expected)


def test_no_room_for_an_answer_is_refused(
    heldout: Source, processor: Processor, config: DataConfig
) -> None:
    with pytest.raises(ValueError, match="reserve 0"):
        next(prompt_batches(heldout, processor, config, all_rows(4), 0))
