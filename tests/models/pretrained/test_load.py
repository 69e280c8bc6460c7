"""Released tensors become the parameters they came from, wherever these lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.families.releases import decoder_rules
from mllm_jax.families.siglip.release import siglip_rules
from mllm_jax.families.whisper.release import whisper_rules
from mllm_jax.hf_format import files, transforms
from mllm_jax.hf_format.dtype_ranges import RangeError
from mllm_jax.hf_format.files import PretrainedError, open_tensors
from mllm_jax.hf_format.tensor_rules import TensorRule, check_tensors
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import abstract_parameters, init_parameters
from mllm_jax.models.pretrained.load import load_tensors
from mllm_jax.train.step.build import build_step
from scheduling.schedules.backbone_schedules import interleaved_schedule
from sharding.plan import ParallelPlan
from tests.models.pretrained.stored import by_name, written
from tests.train.models import small_model

LAYERS = 3


def model(family: str, tied: bool = False) -> ModelConfig:
    """A decoder of a number of layers that no number of stages divides."""
    values = small_model(family).model_dump(mode="json")
    values["decoder"] |= {"layers": LAYERS, "tie_embeddings": tied, "rope_scaling": None}
    return ModelConfig.model_validate(values | {"encoders": {}})


def sharded(folder: Path, tensors: dict[str, np.ndarray]) -> None:
    """Save in three files with an index."""
    names = sorted(tensors)
    weight_map = {
        name: f"model-{i % 3 + 1:05}-of-00003.safetensors" for i, name in enumerate(names)
    }
    for file in set(weight_map.values()):
        save_file({n: tensors[n] for n in names if weight_map[n] == file}, folder / file)
    (folder / files.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


# ---- transforms ----------------------------------------------------------------------------------


@given(st.data())
def test_forms_have_inverses(data: st.DataObject) -> None:
    sizes = st.integers(1, 4)
    dims = st.lists(sizes, min_size=1, max_size=2).map(tuple)
    form = data.draw(
        st.one_of(
            st.builds(transforms.dense_kernel, dims, dims),
            st.builds(transforms.flat_vector, dims),
            st.builds(transforms.convolution_kernel, sizes, sizes, sizes),
            st.builds(transforms.patch_kernel, sizes, sizes, sizes, sizes),
        )
    )
    x = np.arange(np.prod(form.released)).reshape(form.released)
    assert form.to_parameter(x).shape == form.shape
    np.testing.assert_array_equal(form.to_released(form.to_parameter(x)), x)


def test_a_released_product_is_ours() -> None:
    random = np.random.default_rng(0)
    weight, x = random.normal(size=(6, 8)), random.normal(size=(5, 8))
    ours = transforms.dense_kernel((2, 4), (3, 2)).to_parameter(weight)
    product = np.tensordot(x.reshape(5, 2, 4), ours, 2).reshape(5, 6)
    np.testing.assert_allclose(product, x @ weight.T)
    pixels, kernel = random.normal(size=(2, 3, 4)), random.normal(size=(7, 4, 2, 3))
    ours = transforms.patch_kernel(2, 3, 4, 7).to_parameter(kernel)
    want = np.einsum("hwc,ochw->o", pixels, kernel)
    np.testing.assert_allclose(pixels.reshape(-1) @ ours, want)


# ---- loading -------------------------------------------------------------------------------------

PLANS = [
    (ParallelPlan(), None),
    (ParallelPlan(data=2, fsdp=2, tensor=2), None),
    (ParallelPlan(fsdp=2, stage=2, tensor=2), PipelinePlan(interleaved_schedule(2, 2, 4))),
]


@pytest.mark.parametrize(
    ("family", "tied"), [("llama", False), ("qwen2", True), ("qwen3", False)], ids=str
)
def test_every_plan_loads_the_same_parameters(family: str, tied: bool, tmp_path: Path) -> None:
    own = model(family, tied)
    parameters = jax.tree.map(np.asarray, init_parameters(own, jax.random.key(1)))
    rules = decoder_rules(own.decoder)
    sharded(tmp_path, written(rules, by_name(parameters["decoder"])))
    tensors = open_tensors(tmp_path)
    assert len(tensors.files) == 3
    check_tensors(tensors, rules)
    for plan, pipeline in PLANS:
        step = build_step(own, {"decoder": plan}, pipeline)
        target = by_name(step.abstract_state["params"]["decoder"])
        found = load_tensors(tensors, rules, target)
        wanted = by_name(jax.tree.map(np.asarray, step.form.to_stored(parameters))["decoder"])
        assert found.keys() == wanted.keys()
        for name, leaf in found.items():
            assert leaf.sharding == target[name].sharding, name
            np.testing.assert_array_equal(leaf, wanted[name], err_msg=f"{plan}: {name}")


def test_a_file_of_all_tensors_comes_before_an_index(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float32)})
    save_file({"a": np.ones(2, np.float32)}, tmp_path / files.SINGLE)
    assert [*open_tensors(tmp_path)] == ["a"]


def test_halves_are_widened(tmp_path: Path) -> None:
    half = np.arange(8, dtype=files.TYPES["BF16"]).reshape(2, 4)
    save_file({"a": half}, tmp_path / files.SINGLE)
    mesh = jax.make_mesh((1,), ("data",), devices=jax.devices()[:1])
    layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    target = {"a": jax.ShapeDtypeStruct((4, 2), np.float32, sharding=layout)}
    found = load_tensors(
        open_tensors(tmp_path), [TensorRule("a", "a", transforms.dense_kernel((4,), (2,)))], target
    )["a"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.arange(8).reshape(2, 4).T)


@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize(
    ("value", "stored", "dtype", "told"),
    [
        (np.nan, "F32", np.float32, "nan, which is no finite number"),
        (-np.inf, "F16", np.float32, "-inf, which is no finite number"),
        (1e300, "F64", np.float32, r"1e\+300, which float32 \(at most 3.40282e\+38\) cannot hold"),
        (3.4e38, "F32", jnp.bfloat16, r"3.4e\+38, which bfloat16 .* hold; valid: float32"),
    ],
)
def test_a_number_that_a_parameter_cannot_hold_is_named(
    value: float, stored: str, dtype: Any, told: str, layers: int | None, tmp_path: Path
) -> None:
    names = ["a"] if layers is None else ["a.0", "a.1"]
    values = {name: np.ones((2, 4), files.TYPES[stored]) for name in names}
    values[names[-1]][1, 2] = value
    save_file(values, tmp_path / files.SINGLE)
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])
    spec = jax.sharding.PartitionSpec(*[None] * len(names[1:]), "data")
    shape = (4, 2) if layers is None else (2, 4, 2)
    layout = jax.sharding.NamedSharding(mesh, spec)
    target = {"x": jax.ShapeDtypeStruct(shape, dtype, sharding=layout)}
    rule = TensorRule(
        "x", "a" if layers is None else "a.{layer}", transforms.dense_kernel((4,), (2,)), layers
    )
    with pytest.raises(RangeError, match=f"{names[-1]} holds {told}"):
        load_tensors(open_tensors(tmp_path), [rule], target)


@pytest.mark.parametrize(("name", "rules"), [("vision", siglip_rules), ("audio", whisper_rules)])
def test_encoders_have_a_rule_for_every_parameter(name: str, rules: Any) -> None:
    """The rules have the parameters' shapes; the connector is not part of the release."""
    own = small_model()
    shapes, _ = abstract_parameters(own)
    tower = by_name(shapes[name])
    wanted = {key: leaf.shape for key, leaf in tower.items() if not key.startswith("connector.")}
    found = {}
    for rule in rules(own.encoders[name]):
        assert rule.parameter not in found
        found[rule.parameter] = (
            *([] if rule.layers is None else [rule.layers]),
            *rule.transform.shape,
        )
    assert found == wanted


# ---- what is refused -----------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Path, list[TensorRule]]:
    """A sharded folder, and its rules."""
    own = model("llama")
    rules = decoder_rules(own.decoder)
    shapes = {name: rule.transform.released for rule in rules for name in rule.names}
    sharded(tmp_path, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    return tmp_path, rules


def test_missing_extra_and_misshapen_tensors_are_listed(
    whole: tuple[Path, list[TensorRule]],
) -> None:
    folder, rules = whole
    tensors = dict(open_tensors(folder))
    lost = tensors.pop("model.norm.weight")
    tensors["model.nrom.weight"] = lost
    tensors["lm_head.weight"] = lost
    with pytest.raises(PretrainedError) as refused:
        check_tensors(tensors, rules)
    for told in (
        "1 missing: model.norm.weight",
        "1 of no parameter: model.nrom.weight",
        "1 misshapen: lm_head.weight [16], not [31, 16]",
    ):
        assert told in str(refused.value)
    rest = open_tensors(folder)
    check_tensors({**tensors, **rest}, rules, unused=["model.nrom.weight"])


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (files.INDEX, b"{", "is no index"),
        (files.INDEX, b"[" * 100_000, "is no index of safetensors"),
        (files.INDEX, b'{"weight_map": {"a": 1}}', "does not map tensors to files"),
        (files.INDEX, b'{"weight_map": {"a": "../model.safetensors"}}', "is no name of"),
        (files.INDEX, b'{"weight_map": {"a": "/etc/passwd"}}', "is no name of"),
        (files.INDEX, b'{"weight_map": {"a": "model.bin"}}', "is no name of"),
        (files.INDEX, b'{"weight_map": {"a": "b.safetensors"}}', "is no whole safetensors file"),
        (files.SINGLE, b"\x80\x02}", "is no whole safetensors file"),
        ("pytorch_model.bin", b"\x80\x02}", "only safetensors are read"),
    ],
)
def test_damaged_folders_are_refused(file: str, content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(PretrainedError, match=told):
        open_tensors(tmp_path)


def test_a_truncated_file_is_refused(whole: tuple[Path, list[TensorRule]]) -> None:
    folder, _ = whole
    file = sorted(folder.glob("*.safetensors"))[1]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(PretrainedError, match=f"{file.name} is no whole safetensors file"):
        open_tensors(folder)


def test_an_index_lists_what_its_files_hold(whole: tuple[Path, list[TensorRule]]) -> None:
    folder, _ = whole
    index = json.loads((folder / files.INDEX).read_text())
    index["weight_map"].pop("model.norm.weight")
    (folder / files.INDEX).write_text(json.dumps(index))
    with pytest.raises(PretrainedError, match=r"do not hold the same tensors: model\.norm\.weight"):
        open_tensors(folder)


def test_a_tensor_is_in_the_file_that_the_index_names(whole: tuple[Path, list[TensorRule]]) -> None:
    """No other file may hold the tensor, as its values might differ there."""
    folder, _ = whole
    places = json.loads((folder / files.INDEX).read_text())["weight_map"]
    name, own = next(iter(places.items()))
    other = next(file for file in places.values() if file != own)
    twice = {**load_file(folder / other), name: load_file(folder / own)[name] + 1}
    save_file(twice, folder / other)
    with pytest.raises(PretrainedError, match=rf"{other} holds {name}, which is in {own} by"):
        open_tensors(folder)
    places[name] = other
    (folder / files.INDEX).write_text(json.dumps({"weight_map": places}))
    with pytest.raises(PretrainedError, match=rf"{own} holds {name}, which is in {other} by"):
        open_tensors(folder)
