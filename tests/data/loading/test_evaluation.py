"""Prompts without answers: every sample once, where the slots say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from data.batch import NEXT_TOKEN
from data.config import DataConfig
from data.loading.evaluation import PromptBatch, prompt_batches
from data.processing.processor import Processor
from data.sample import SampleError
from data.sources.source import Source
from tests.data.samples import ListSource, MakeConfig, Picture, all_rows, make_sample


def test_every_heldout_sample_comes_once(
    heldout: Source, processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(rows=1, lookahead=9)
    batches = list(prompt_batches(heldout, processor, config, all_rows(1)))
    assert len(batches) > 3
    indices = [slot.index for batch in batches for slot in batch.slots]
    assert sorted(indices) == list(range(len(heldout)))
    assert not any(batch.skipped for batch in batches)
    limited = prompt_batches(heldout, processor, config, all_rows(1), limit=7)
    assert sorted(s.index for b in limited for s in b.slots) == list(range(7))
    assert {b.batch.text_rows.inputs.shape for b in batches} == {(1, 312)}


def test_slots_are_where_their_prompts_lie(
    heldout: Source, processor: Processor, config: DataConfig
) -> None:
    for batch in prompt_batches(heldout, processor, config, all_rows(4)):
        check_slots(batch, heldout, processor)


def check_slots(batch: PromptBatch, source: Source, processor: Processor) -> None:
    decoder = batch.batch.text_rows
    assert not decoder.targets[NEXT_TOKEN].weights.any()
    consumed = np.zeros(decoder.inputs.shape, bool)
    for slot in batch.slots:
        prompt = processor.process_prompt(source[slot.index, 0])
        assert slot.tokens == len(prompt.tokens)
        place = slot.row, slice(slot.start, slot.start + slot.tokens)
        np.testing.assert_array_equal(decoder.inputs[place], prompt.tokens)
        assert set(decoder.segment_ids[place].tolist()) == {slot.segment}
        np.testing.assert_array_equal(decoder.positions[place][..., 0], np.arange(slot.tokens))
        assert slot.encoders == tuple(prompt.media)
        assert not consumed[place].any()
        consumed[place] = True
    np.testing.assert_array_equal(decoder.segment_ids > 0, consumed)


def test_bad_samples_are_skipped_or_raised(processor: Processor, make_config: MakeConfig) -> None:
    liar = replace(make_sample("liar", [40]), media={"image": (Picture(16, 40, claimed=(16, 60)),)})
    long = make_sample("long", [2560])
    source = ListSource([make_sample("a"), liar, long, "broken", make_sample("b", answer="")])
    (batch,) = prompt_batches(source, processor, make_config(), all_rows(4))
    assert [slot.index for slot in batch.slots] == [0]
    assert sorted(name for name, _ in batch.skipped) == ["b", "bad3", "liar", "long"]
    for bad in source.samples[1:]:
        raising = prompt_batches(
            ListSource([bad]), processor, make_config(on_error="raise"), all_rows(4)
        )
        with pytest.raises(SampleError):
            list(raising)


def test_hosts_get_their_rows(heldout: Source, processor: Processor, config: DataConfig) -> None:
    rows = {"decoder": [2], "vision": [1], "audio": [0, 3]}
    complete = prompt_batches(heldout, processor, config, all_rows(4))
    parts = prompt_batches(heldout, processor, config, rows)
    for all_of_it, part in zip(complete, parts, strict=True):
        assert part.slots == all_of_it.slots
        expected = all_of_it.batch.text_rows.inputs[[2]]
        np.testing.assert_array_equal(part.batch.text_rows.inputs, expected)
