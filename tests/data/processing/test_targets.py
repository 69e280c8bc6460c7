"""What objectives besides the next token need of a sample, and where their targets lie in rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data.batch import SampleTargets
from data.config import FieldsConfig
from data.loading.assemble import BatchArrays, mask_sample
from data.planning.layout import SamplePlacement
from data.planning.packing import make_capacity
from data.processing.processor import make_processor
from data.rows.spec import MediaRowSpec
from data.sample import ConversationError, MediumLengths, Sample, SampleError, Turn
from data.sources.formats.records.record import RecordForm
from data.targets import NEXT_TOKEN_ONLY, LabelSpec, PairSpec, ValuesSpec
from tests.data.samples import TEXT, VISION, MakeConfig, Picture

ASKED = (Turn("user", "<image> a cat"),)
SAMPLE = Sample("s", ASKED, {"image": (Picture(16, 30),)}, labels={"scene": 2, "place": [1, 0.5]})
MARKS = {"image": "<image>", "audio": "<audio>", "video": "<video>"}
SCENE, PLACE = LabelSpec("scene", 3), ValuesSpec("place", 2)
#: Images of which an objective reads one output.
MERGED = replace(VISION, class_token="kept", one_per_sample=True)
SELECTED = replace(MERGED, selected=True)


def labelled(**labels: Any) -> Sample:
    return replace(SAMPLE, labels=labels)


def test_labels_are_made_of_a_sample() -> None:
    SCENE.check(SAMPLE)
    PLACE.check(SAMPLE)
    assert (SCENE.make(SAMPLE).tolist(), PLACE.make(SAMPLE).tolist()) == (2, [1.0, 0.5])
    one = ValuesSpec("place", 1)
    one.check(labelled(place=3))
    assert one.make(labelled(place=3)).tolist() == [3.0]


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({}, "the sample has no label scene; it has no labels"),
        ({"kind": 1}, "the sample has no label scene; it has kind"),
        ({"scene": 3}, "labels.scene: 3 is no class; valid: 0 to 2"),
        ({"scene": -1}, "labels.scene: -1 is no class"),
        ({"scene": True}, "labels.scene: True is no class"),
        ({"scene": "cat"}, "labels.scene: 'cat' is no class"),
        ({"scene": 1, "place": [1]}, "valid: 2 finite numbers"),
        ({"scene": 1, "place": [1, float("nan")]}, "valid: 2 finite numbers"),
        ({"scene": 1, "place": [1, 1e40]}, "valid: 2 finite numbers"),
    ],
)
def test_other_labels_are_refused(labels: dict[str, Any], reason: str) -> None:
    spec = PLACE if "place" in labels else SCENE
    with pytest.raises(ConversationError, match=reason):
        spec.check(labelled(**labels))


def test_records_have_labels_by_objective() -> None:
    form = RecordForm(FieldsConfig(), MARKS)
    record = {"question": "Hi", "answer": "Hello.", "labels": {"scene": 2, "place": None}}
    assert form.parse_record("r", record, None).labels == {"scene": 2}
    talk = {"messages": [{"role": "user", "content": "Hi"}], "labels": {"place": [1, 2]}}
    assert form.parse_record("r", talk, None).labels == {"place": [1, 2]}
    with pytest.raises(SampleError, match="labels: texts are read, not tokens"):
        form.parse_record("r", record | {"labels": [1, 2]}, None)


def test_a_medium_for_an_objective_has_no_tokens(make_config: MakeConfig) -> None:
    """Its first output lies at the first token, wherever the text mentions it."""
    make = make_processor(make_config(), [TEXT, SELECTED], targets={"pairs": PairSpec("pairs")})
    example = make.process(SAMPLE)
    assert example.starts == {"vision": (0,)}
    assert make.placeholder_id("vision") not in example.tokens
    plain = make_processor(make_config(), [TEXT], targets={})
    text = plain.process(replace(SAMPLE, turns=(Turn("user", " a cat"),), media={}))
    assert example.tokens.tolist() == text.tokens.tolist()
    count = len(example.media["vision"][0].inputs)
    assert list(SELECTED.merge_runs(MediumLengths(count))) == [(0, 0, 1)]


@pytest.mark.parametrize("spec", [SELECTED, MERGED], ids=("selected", "merged"))
def test_an_objective_reads_one_medium_of_every_sample(
    make_config: MakeConfig, spec: MediaRowSpec
) -> None:
    """Whether the outputs of the medium are merged, too, or not."""
    make = make_processor(make_config(), [TEXT, spec], targets={"pairs": PairSpec("pairs")})
    for media in ((), SAMPLE.media["image"] * 2):
        turns = (Turn("user", "<image>" * len(media) + " a cat"),)
        with pytest.raises(SampleError, match="of vision, of which an objective reads one; valid"):
            make.measure(replace(SAMPLE, turns=turns, media={"image": media}))


def test_targets_lie_in_the_slot_of_their_segment(make_config: MakeConfig) -> None:
    targets = {**NEXT_TOKEN_ONLY, "scene": SCENE, "place": PLACE}
    make = make_processor(make_config(), [TEXT], targets=targets)
    answered = Sample(
        "s", (Turn("user", "1 ?"), Turn("assistant", "2")), labels=dict(SAMPLE.labels)
    )
    example = make.process(answered)
    capacity = make_capacity({"tokens": 64, "segments": 8}, (TEXT,))
    arrays = BatchArrays({TEXT.name: [0, 1]}, capacity, make.targets)
    placement = SamplePlacement(0, 1, 5, 3, example.lengths, {})
    arrays.write_text(placement, example)
    decoder = arrays.batch.rows[TEXT.name]
    scene, place = decoder.targets["scene"], decoder.targets["place"]
    assert isinstance(scene, SampleTargets)
    assert isinstance(place, SampleTargets)
    assert np.argwhere(scene.weights).tolist() == [[1, 2]]
    assert scene.values[1, 2] == 2
    assert place.values[1, 2].tolist() == [1.0, 0.5]
    assert decoder.next_token.weights.sum() == example.loss_weight.sum()
    mask_sample(arrays.batch, [0, 1], placement)
    assert not scene.weights.any()
    assert not decoder.next_token.weights.any()


def test_prompts_have_no_labels_to_learn(make_config: MakeConfig) -> None:
    targets = {**NEXT_TOKEN_ONLY, "scene": SCENE}
    make = make_processor(make_config(), [TEXT], targets=targets)
    turns = Turn("user", "1 ?"), Turn("assistant", "2")
    example = make.process_prompt(Sample("s", turns, labels={"scene": 2}))
    capacity = make_capacity({"tokens": 64, "segments": 8}, (TEXT,))
    arrays = BatchArrays({TEXT.name: [0]}, capacity, make.targets)
    arrays.write_text(SamplePlacement(0, 0, 0, 1, example.lengths, {}), example)
    scene = arrays.batch.rows[TEXT.name].targets["scene"]
    assert isinstance(scene, SampleTargets)
    assert not scene.weights.any()
