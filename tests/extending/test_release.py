"""The released model of docs/extending/family.md: its folder is enough, from data to loss."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from data.batch import PackedBatch
from data.config import DataConfig
from data.loading.assemble import BatchArrays
from data.media.image.media_type import NoiseImage
from data.planning.layout import SamplePlacement, lay_out
from data.planning.packing import make_capacity
from data.processing.processor import Processor, make_processor
from data.sample import DataError, Example, Grid, Sample, Turn
from mllm_jax.check.verify import compare_gradients
from mllm_jax.config.inputs import released_of, row_specs
from mllm_jax.families import registry
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.models import module as multimodal
from mllm_jax.models.decoding import CachedDecoder, next_positions
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.pretrained.forms import form_of
from mllm_jax.models.pretrained.release import Release, compose_model
from sharding.grid import MeshView
from sharding.plan import ParallelPlan
from tests.data.hf_format.stored import ROOT
from tests.extending.duo import FAMILY
from tests.models import towers
from tests.models.pretrained.stored import by_name, imported_from, written
from tests.train.step.gradients import CompiledOnce

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "extending" / "family.md").read_text()
WIDTHS = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 24}
MODEL: dict[str, Any] = {
    "decoder": {**WIDTHS, "family": "duo", "vocab": 32},
    "encoders": {
        "vision": {
            **WIDTHS,
            "family": "siglip",
            "patch": [2, 2],
            "grid": [3, 3],
            "connector": {"kind": "linear"},
        }
    },
}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """The family among the others."""
    registry.register(FAMILY)
    yield
    registry.unregister(FAMILY.name)


@pytest.mark.parametrize("name", ["__init__", "config", "processor", "release"])
def test_the_page_shows_the_code(name: str) -> None:
    code = (HERE / "duo" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in PAGE, f"{name}.py is not as in the page"


def released(config: ModelConfig) -> ReleasedModel:
    connectors = {"vision": config.connector("vision")}
    return ReleasedModel(config.decoder, dict(config.encoders), {"vision": 31}, connectors)


def test_a_model_is_written_checked_and_read_again(tmp_path: Path) -> None:
    config = ModelConfig.model_validate(MODEL)
    model = released(config)
    duo = form_of(model)
    assert duo.name == "duo"
    (tmp_path / "config.json").write_text(json.dumps(duo.write_config(model)))
    params = multimodal.init_parameters(config, jax.random.key(0))
    leaves = {name: {k: np.asarray(x) for k, x in by_name(params[name]).items()} for name in params}
    tensors = {
        name: tensor
        for module, rules in duo.rules(model).items()
        for name, tensor in written(rules, leaves[module]).items()
    }
    save_file(tensors, tmp_path / "model.safetensors")
    release = Release.open(tmp_path)
    release.check_contents()
    assert release.released_model == model
    assert (
        ModelConfig.model_validate({**compose_model(str(tmp_path)), "pretrained": None}) == config
    )
    _, loaded, _ = imported_from(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, loaded, jax.device_get(params))


def test_other_connectors_are_refused() -> None:
    values = json.loads(json.dumps(MODEL))
    values["encoders"]["vision"]["connector"] = {"kind": "mlp"}
    config = ModelConfig.model_validate(values)
    model = released(config)
    with pytest.raises(PretrainedError, match=r"duo: connector .*mlp.* valid: linear"):
        form_of(model)


# ---- from data to loss ---------------------------------------------------------------------------

#: Pixels of images; of patches of 4 they have 2 x 4, 3 x 1 and 1 x 2.
SIZES = ((9, 15), (12, 4), (5, 7))
TEXTS = ("<image>\nWhat is it? And <image>", "So <image> then")
BUDGETS = {"tokens": 160, "segments": 8, "vision": 32}
#: Preprocessor of a release, which names no placeholder.
PREPROCESSOR = {
    "image_processor_type": "DuoImageProcessor",
    "patch_size": 4,
    "processor_class": "DuoProcessor",
}


@pytest.fixture
def processor(tmp_path: Path) -> Processor:
    """That of a released folder, as a configuration finds it."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(ROOT / "llava" / name, tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    data = DataConfig(processor=tmp_path, budgets=BUDGETS)
    return make_processor(data, row_specs(model()), released=released_of(data))


@cache
def model() -> ModelConfig:
    """A small model in float32, of which the tokenizer's ids are the vocabulary."""
    vision = {**MODEL["encoders"]["vision"], "patch": [4, 4]}
    decoder = {**MODEL["decoder"], "layers": 2, "vocab": 384}
    settings = {"dtype": "float32", "attention": "reference", "loss_chunk": 64}
    return ModelConfig.model_validate(
        {"decoder": decoder, "encoders": {"vision": vision}, **settings}
    )


def samples() -> list[Sample]:
    """Two conversations, the first of which has two images."""
    images = [NoiseImage(size, seed) for seed, size in enumerate(SIZES)]
    media = images[:2], images[2:]
    turns = [(Turn("user", text), Turn("assistant", "Yes, so it is.")) for text in TEXTS]
    return [
        Sample(str(number), dialogue, {"image": tuple(seen)})
        for number, (dialogue, seen) in enumerate(zip(turns, media, strict=True))
    ]


def packed(
    processor: Processor, examples: Sequence[Example], rows: Sequence[int]
) -> tuple[PackedBatch, tuple[SamplePlacement, ...]]:
    """The examples in two rows, and their images in the same, as the loader writes them."""
    capacity = make_capacity(BUDGETS, [*processor.specs.values()])
    lengths = [(number, example.lengths) for number, example in enumerate(examples)]
    media = [
        {"vision": [row] * len(example.media["vision"])}
        for row, example in zip(rows, examples, strict=True)
    ]
    placements = lay_out(lengths, rows, capacity.specs, media)
    arrays = BatchArrays({name: range(2) for name in ("decoder", "vision")}, capacity)
    for example, placement in zip(examples, placements, strict=True):
        arrays.write_text(placement, example)
        for number, medium in enumerate(example.media["vision"]):
            arrays.write_medium(placement, "vision", number, medium)
    return arrays.batch, placements


def test_the_folder_says_how_images_and_positions_are_written(processor: Processor) -> None:
    examples = [processor.process(sample) for sample in samples()]
    media = [medium for example in examples for medium in example.media["vision"]]
    assert [medium.grid for medium in media] == [Grid(1, 2, 4), Grid(1, 3, 1), Grid(1, 1, 2)]
    assert [len(medium.inputs) for medium in media] == [8, 3, 2]
    batch, placements = packed(processor, examples, [0, 0])
    first, second = (
        batch.text_rows.positions[0, at.start : at.start + at.lengths.total("decoder")]
        for at in placements
    )
    image = examples[1].starts["vision"][0]
    np.testing.assert_array_equal(second[:image], np.arange(image)[:, None].repeat(3, axis=1))
    np.testing.assert_array_equal(
        second[image : image + 3] - image, [[0, 0, 0], [0, 0, 1], [2, 2, 2]]
    )
    # The first image has 8 tokens and reaches 4 positions far, the second 3 and 3.
    assert first.max() == len(first) - 1 - 4
    assert pickle.loads(pickle.dumps(processor)).specs["decoder"] == processor.specs["decoder"]


def test_classes_that_no_family_has_are_refused(processor: Processor, tmp_path: Path) -> None:
    del processor
    other = PREPROCESSOR | {"image_processor_type": "TrioImageProcessor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(other))
    data = DataConfig(processor=tmp_path, budgets=BUDGETS)
    with pytest.raises(
        DataError, match=r"images by TrioImageProcessor; valid: .*DuoImageProcessor"
    ):
        make_processor(data, row_specs(model()), released=released_of(data))


def test_packed_samples_are_as_if_alone(processor: Processor) -> None:
    examples = [processor.process(sample) for sample in samples()]
    plans = dict.fromkeys(("decoder", "vision"), ParallelPlan())
    step: CompiledOnce = CompiledOnce.under(model(), plans, towers.parameters(model()))
    one_row, two_rows = (packed(processor, examples, rows)[0] for rows in ([0, 0], [1, 0]))
    result = compare_gradients(step([one_row]), step([two_rows]))
    assert result.loss_error < 1e-6, result
    assert {*result.worst} == {"decoder", "vision"}
    assert max(result.worst.values()) < 2e-5, result
    rows = one_row.text_rows
    straight = replace(rows, positions=np.repeat(np.asarray(rows.index)[..., None], 3, axis=-1))
    loss, _ = step([replace(one_row, rows={**one_row.rows, "decoder": straight})])
    assert abs(float(loss) - float(step([one_row])[0])) > 1e-5


def test_a_token_after_a_cache_is_as_in_its_whole_row(processor: Processor) -> None:
    """The last token has the position that generation gives it."""
    batch, (placement,) = packed(processor, [processor.process(samples()[1])], [0])
    length, cached = placement.lengths.total("decoder"), CachedDecoder(model(), MeshView())
    text, images = (replace(batch.rows[name], targets={}) for name in ("decoder", "vision"))

    @towers.quick
    def both(params: Any, text: ModuleRows, images: ModuleRows) -> tuple[jax.Array, ...]:
        decoder = params["decoder"]
        outputs = towers.encode(params["vision"], "vision", images, model(), MeshView())
        index, flat = text.merges["vision"], outputs.reshape(-1, outputs.shape[-1])
        media = jnp.where((index >= 0)[..., None], flat[index], 0)
        expected, _ = towers.decode_hidden(decoder, text, media, model(), MeshView())
        split = cached.unstack_parameters(decoder)
        known = jax.tree.map(lambda array: array[:1, : length - 1], text)
        cache = cached.empty_cache(1, length).with_tokens(cached.token_ids(known), 0)
        _, cache = cached.forward_cached(split, known, media[:1, : length - 1], cache, None)
        place = next_positions(known, jnp.ones((1, 1), jnp.int32))
        last = jax.tree.map(lambda array: array[:1, length - 1 : length], text)
        last = replace(last, positions=jnp.repeat(place[..., None], 3, axis=-1))
        cache = cache.with_tokens(cached.token_ids(last), length - 1)
        hidden, _ = cached.forward_cached(split, last, None, cache, jnp.int32(length - 1))
        return expected[0, length - 1], hidden[0, 0], place

    expected, hidden, place = both(
        towers.parameters(model()), *jax.tree.map(jnp.asarray, (text, images))
    )
    np.testing.assert_allclose(hidden, expected, rtol=2e-5, atol=2e-5)
    assert int(place[0, 0]) == text.positions[0, length - 1, 0]
