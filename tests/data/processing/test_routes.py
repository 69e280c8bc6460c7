"""Two encoders of one kind of media: where a medium goes, and how the outputs meet in the text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from data.config import FieldsConfig, ImageConfig
from data.loading.loader import DataLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.media.image.media_type import ImageProcessor
from data.media.image.row_spec import ImageRowSpec
from data.media.registry import MEDIA_TYPES
from data.planning.stream import TrainingDemand
from data.processing.processor import Processor, make_processor
from data.rows.spec import LengthBucket
from data.sample import DataError, SampleError
from data.sources.formats.records.record import RecordForm
from data.text.chat import marks_of
from tests.data.samples import (
    AUDIO,
    TEXT,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    assert_same_arrays,
    make_sample,
    mixed_source,
)

#: Half as many outputs of an image as `VISION`.
COARSE = ImageRowSpec("coarse", patch=(8, 8), channels=1, block=(2, 2))
#: As many, of other patches.
EVEN = replace(COARSE, name="even", block=(2, 1))
BUDGETS = {"tokens": 400, "vision": 96, "audio": 640, "segments": 24}


def processor(make_config: MakeConfig, second: ImageRowSpec, **route: Any) -> Processor:
    config = make_config(budgets=BUDGETS | {second.name: 192}, rows=2, routes={"image": route})
    return make_processor(config, [TEXT, VISION, AUDIO, second])


def test_outputs_stand_one_after_the_other(make_config: MakeConfig) -> None:
    both = processor(make_config, COARSE)
    sample = make_sample("s", [64, 32], [800])
    example = both.process(sample)
    (one, two), (third, fourth) = (example.starts[name] for name in ("vision", "coarse"))
    assert example.lengths.counts("vision") == (8, 4)
    assert example.lengths.counts("coarse") == (16, 8)
    assert (third - one, fourth - two) == (8, 4)
    mark = both.placeholder_id("vision")
    assert example.tokens[one : one + 8 + 4].tolist() == [mark] * 12
    alone = make_processor(make_config(), [TEXT, VISION, AUDIO]).process(sample)
    assert len(example.tokens) == len(alone.tokens) + 4 + 2
    turned = processor(make_config, COARSE, encoders=("coarse", "vision")).process(sample)
    assert turned.starts["vision"][0] - turned.starts["coarse"][0] == 4


def test_outputs_that_are_added_have_the_same_tokens(make_config: MakeConfig) -> None:
    sample = make_sample("s", [64, 32])
    example = processor(make_config, EVEN, join="sum").process(sample)
    assert example.starts["vision"] == example.starts["even"]
    alone = make_processor(make_config(), [TEXT, VISION, AUDIO]).process(sample)
    np.testing.assert_array_equal(example.tokens, alone.tokens)
    np.testing.assert_array_equal(
        example.media["vision"][0].inputs, alone.media["vision"][0].inputs
    )
    with pytest.raises(SampleError, match=r"vision and coarse make 8 and 4 tokens of an image"):
        processor(make_config, COARSE, join="sum").measure(sample)


def test_a_record_names_the_encoder_of_each_image(make_config: MakeConfig) -> None:
    both = processor(make_config, COARSE, encoders=("vision",))
    sample = replace(make_sample("s", [64, 32, 48]), encoders={"image": ("coarse", None, "coarse")})
    example = both.process(sample)
    assert example.lengths.counts("vision") == (4,)
    assert example.lengths.counts("coarse") == (16, 12)
    assert both.process_text(sample, example.lengths).tokens.tolist() == example.tokens.tolist()
    medium = both.read_medium(sample, "coarse", 1, example.lengths)
    np.testing.assert_array_equal(medium.inputs, example.media["coarse"][1].inputs)
    assert both.measure_prompt(sample).of("coarse") == example.lengths.of("coarse")
    other = replace(sample, encoders={"image": ("none", None, None)})
    with pytest.raises(SampleError, match="the encoder 'none', which takes none; valid: vision"):
        both.measure(other)
    with pytest.raises(DataError, match=r"data\.routes\.image\.encoders: 'audio' takes no image"):
        processor(make_config, COARSE, encoders=("audio",))


def test_records_say_which_encoder(make_config: MakeConfig) -> None:
    form = RecordForm(FieldsConfig(), marks_of(make_config()))
    turns = [{"from": "human", "value": "<image><image> ?"}, {"from": "gpt", "value": "yes"}]
    record = {"conversations": turns, "image": ["a.png", "b.png"]}
    assert form.parse_record("r", record).encoders == {}
    named = form.parse_record("r", record | {"image_encoder": "coarse"})
    assert named.encoders == {"image": ("coarse", "coarse")}
    listed = form.parse_record("r", record | {"image_encoders": [None, "coarse"]})
    assert listed.encoders == {"image": (None, "coarse")}
    parts = [{"type": "image", "index": 1}, {"type": "image", "index": 0}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "yes"}]
    turned = {"messages": messages, "images": record["image"], "image_encoders": [None, "coarse"]}
    found = form.parse_record("r", turned)
    assert (found.media["image"], found.encoders["image"]) == (["b.png", "a.png"], ("coarse", None))
    for value, reason in (
        (["coarse"], "1 names of 2 image media"),
        (3, "3 is no name, nor a list"),
    ):
        with pytest.raises(SampleError, match=reason):
            form.parse_record("r", record | {"image_encoders": value})


def test_a_source_says_which_field_names_the_encoder(make_config: MakeConfig) -> None:
    form = RecordForm(FieldsConfig(image_encoder="module"), marks_of(make_config()))
    turns = [{"from": "human", "value": "<image> ?"}, {"from": "gpt", "value": "yes"}]
    record = {"conversations": turns, "image": "a.png"}
    assert form.parse_record("r", record).encoders == {}
    with pytest.raises(SampleError, match="image_encoder: it is not read"):
        form.parse_record("r", record | {"image_encoder": "coarse"})
    assert form.parse_record("r", record | {"module": "coarse"}).encoders == {"image": ("coarse",)}


def test_an_encoder_has_settings_of_its_own(make_config: MakeConfig) -> None:
    """The others read the same as without them."""
    sample = make_sample("s", [64, 32])
    plain = processor(make_config, COARSE)
    image = make_config().image.model_dump() | {"mean": (0.25,)}
    own = ImageConfig(**image | {"modules": {"coarse": {"height": 8}}})
    assert own.for_encoder("coarse").mean == (0.25,)
    assert own.for_encoder("vision") == own
    both = Processor(plain.config.model_copy(update={"image": own}), [TEXT, VISION, AUDIO, COARSE])
    example, before = both.process(sample), plain.process(sample)
    assert example.lengths.counts("vision") == before.lengths.counts("vision") == (8, 4)
    assert example.lengths.counts("coarse") == (8, 4)  # half as high, padded to blocks of two
    assert before.lengths.counts("coarse") == (16, 8)
    assert both.fingerprint != plain.fingerprint
    bucket = replace(COARSE, name="short", bucket=LengthBucket("coarse", 0, 64))
    images = MEDIA_TYPES["image"].make_processor(both.config, bucket)
    assert isinstance(images, ImageProcessor)
    assert images.reader.config.height == 8
    again = ImageConfig(**own.model_dump())
    assert again == own


@pytest.mark.parametrize("balance", ["none", "backbone", "per_phase"])
def test_loaders_pack_both(balance: str, make_config: MakeConfig) -> None:
    """Lengths measured beforehand and lengths measured when read make the same batches."""
    budgets = BUDGETS | {"coarse": 192}
    routes = {"image": {"join": "tokens"}}
    config = make_config(budgets=budgets, rows=2, balance=balance, lookahead=20, routes=routes)
    both = make_processor(config, [TEXT, VISION, AUDIO, COARSE])
    source = mixed_source(30)
    samples = [s for s in source.samples if not isinstance(s, str)]
    named = ListSource([_named(s) if i % 3 else s for i, s in enumerate(samples)])
    rows = {name: [0, 1] for name in ("decoder", "vision", "audio", "coarse")}
    consumer = TrainingDemand({**WORK, "coarse": WORK["vision"]})
    loader = DataLoader(named, both, config, 0, rows, consumer=consumer)
    reading = MeasuringDataLoader(named, both, config, 0, [rows], None, consumer, SingleHost())
    for _ in range(3):
        one, other = next(loader).batch, next(reading).batch
        assert_same_arrays(one, other)
        merged = {name: (index >= 0).sum() for name, index in one.text_rows.merges.items()}
        assert merged["coarse"]
        assert merged["vision"]
        places = np.stack([index >= 0 for index in one.text_rows.merges.values()])
        assert places.sum(0).max() == 1
    loader.close()
    reading.close()


def _named(sample: Any) -> Any:
    """A sample whose images are for one encoder or the other."""
    names = ["vision" if number % 2 else "coarse" for number in range(len(sample.of("image")))]
    return replace(sample, encoders={"image": tuple(names)} if names else {})
