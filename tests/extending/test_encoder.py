"""The worked example of docs/extending/encoder.md: an added folder computes under every plan."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.config.inputs import media_specs
from mllm_jax.families import registry
from mllm_jax.hf_format.files import OtherModulesError, PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import module_work
from mllm_jax.models.work.profile import module_profiles
from sharding.grid import MeshView
from sharding.plan import ParallelPlan
from tests.extending.aimv2 import FAMILY
from tests.extending.aimv2.release import AIMV2
from tests.extending.copies import copy_framework, refresh_keys, run_in, run_tests_of
from tests.models import towers
from tests.models.pretrained.stored import by_name, written

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "extending" / "encoder.md"
VISION = {
    "family": "aimv2",
    "layers": 2,
    "d_model": 16,
    "heads": 4,
    "d_ff": 24,
    "patch": [2, 2],
    "grid": [3, 4],
    "connector": {"stack": [1, 2]},
}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """The family among the others."""
    registry.register(FAMILY)
    yield
    registry.unregister(FAMILY.name)


def model(**changes: Any) -> ModelConfig:
    decoder = {"layers": 1, "d_model": 16, "heads": 4, "d_ff": 16, "vocab": 32}
    settings = {"dtype": "float32", "attention": "reference", "loss_chunk": 16}
    return ModelConfig.model_validate(
        {"decoder": decoder, "encoders": {"vision": VISION | changes}, **settings}
    )


@pytest.mark.parametrize("name", ["__init__", "config", "model", "release", "reference"])
def test_the_page_shows_the_code(name: str) -> None:
    code = (HERE / "aimv2" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in PAGE.read_text(), f"{name}.py is not as in {PAGE}"


def _added(folder: Path) -> None:
    """The folder of the family, in a copy of the framework."""
    shutil.copytree(HERE / "aimv2", folder / "mllm_jax" / "families" / "aimv2")


def test_the_page_is_followed_to_the_letter(tmp_path: Path) -> None:
    copy_framework(tmp_path)
    _added(tmp_path)
    choice = "model.encoders.vision.family=aimv2"
    demo = ("launch.py", "config", "--config", "configs/demo.yaml", choice)
    assert "family: aimv2" in run_in(tmp_path, *demo)
    released = "from mllm_jax.families.releases import release_formats; print(*release_formats())"
    for first in ("families.aimv2.config", "layers.modules"):  # circles depend on where one begins
        found = run_in(tmp_path, "-c", f"import mllm_jax.{first}; {released}")
        assert "aimv2_vision_model" in found
    linter = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    assert "0 broken" in run_in(tmp_path, "-c", linter, "--no-cache")


@pytest.mark.slow
def test_an_encoder_that_the_page_adds_leaves_tests_green(tmp_path: Path) -> None:
    copy_framework(tmp_path, "docs", "tests")
    _added(tmp_path)
    references = tmp_path / "tests" / "models" / "references.py"
    example = (ROOT / "tests" / "extending" / "aimv2" / "reference.py").read_text()
    text, table = references.read_text(), "#: What the tower"
    text = text.replace(table, f"{example[example.index('def aimv2') :]}\n\n{table}")
    references.write_text(text.replace('"clip": clip,', '"clip": clip, "aimv2": aimv2,'))
    refresh_keys(tmp_path)
    names = run_tests_of(tmp_path, "aimv2")
    for test in ("test_encoder[aimv2]", "test_axes_fit_the_parameters[aimv2]"):
        assert f"test_transformer.py::{test}" in names


PLANS = [
    {"decoder": ParallelPlan(data=2, tensor=2), "vision": ParallelPlan(fsdp=2, context=2)},
    {"decoder": ParallelPlan(fsdp=4), "vision": ParallelPlan(data=2, tensor=2)},
]


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


def batch() -> PackedBatch:
    return synthetic_batch(model(), rows=4, tokens=24, budgets={"vision": 32}, seed=1)


@cache
def on_one_device() -> tuple[np.ndarray, Any]:
    single = dict.fromkeys(("decoder", "vision"), ParallelPlan())
    return loss_and_gradients(model(), single, parameters(), [batch()])


@pytest.mark.parametrize(
    "plans",
    [
        pytest.param(PLANS[0], id="context", marks=pytest.mark.slow),
        pytest.param(PLANS[1], id="tensor"),
    ],
)
def test_every_plan_computes_what_one_device_computes(plans: dict[str, ParallelPlan]) -> None:
    rows = scatter_rows(batch(), model(), 2)
    result = compare_gradients(
        loss_and_gradients(model(), plans, parameters(), [rows]), on_one_device()
    )
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_packed_images_are_as_if_alone() -> None:
    config = model()
    params = multimodal.init_parameters(config, jax.random.key(0))["vision"]
    values = config.model_dump()
    values["encoders"] = {"media": values["encoders"]["vision"]}
    own = ModelConfig.model_validate(values)
    media = towers.signals([4, 12, 6], 12)
    found = []
    for layout in ([[4, 12, 6], [], []], [[4], [12], [6]]):
        rows = towers.lay(layout, 24, 2)
        batch = towers.media_rows(own, rows, media, [2, 4, 3])
        outputs = towers.encode(params, "media", batch, own, MeshView())
        spans = [(row, slice(start // 2, (start + n) // 2)) for row, start, n in rows.spans]
        found.append(np.concatenate([outputs[span] for span in spans]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_its_cost_is_counted() -> None:
    config = model()
    shapes, _ = multimodal.abstract_parameters(config)
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes["vision"]))
    assert module_profiles(config)["vision"].parameters == count
    work = module_work(config, "vision")
    # Four projections and three products of the MLP; a query against every key, and back.
    assert work.linear > 2 * 2 * (4 * 16 * 16 + 3 * 16 * 24)
    assert work.quadratic == 2 * 4 * 16
    (spec,) = media_specs(config)
    assert (spec.kind, spec.features, spec.reduction) == ("image", 12, 2)


def test_its_released_form_has_an_inverse() -> None:
    config = model(grid=[4, 4], connector={})
    composition = AIMV2.read(AIMV2.write_config(_alone(config)))
    assert composition == _alone(config)
    params = multimodal.init_parameters(config, jax.random.key(0))["vision"]
    leaves = {n: np.asarray(x) for n, x in by_name(params).items() if not n.startswith("conn")}
    (rules,) = AIMV2.rules(composition).values()
    assert {rule.parameter for rule in rules} == {*leaves}
    for rule in rules:
        shape = leaves[rule.parameter].shape[rule.layers is not None :]
        assert shape == rule.transform.shape, rule
    assert len(written(rules, leaves)) == 5 + 2 * 9
    assert AIMV2.unused_tensors(AIMV2.write_config(composition), ["head.k.weight", "x"]) == [
        "head.k.weight"
    ]
    whole = ReleasedModel(config.decoder, dict(config.encoders))
    with pytest.raises(OtherModulesError, match=r"of vision .*; this model is made of decoder"):
        AIMV2.write_config(whole)
    with pytest.raises(PretrainedError, match="is_native: True is not supported; valid: False"):
        AIMV2.read({"is_native": True})


def _alone(config: ModelConfig) -> ReleasedModel:
    return ReleasedModel(encoders=dict(config.encoders))
