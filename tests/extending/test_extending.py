"""The worked example of docs/extending/: a family that is added computes under every plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import jax
import numpy as np
import pytest
from pydantic import Field, create_model

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scattered, synthetic_batch
from mllm_jax.check.verify import compare, initial_parameters, loss_and_gradients
from mllm_jax.config.inputs import row_specs
from mllm_jax.families import registry as families
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.hf_format.decoder_rules import decoder_rules
from mllm_jax.hf_format.files import OtherModulesError, PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.layers.config import decoder_families
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_families import DecoderFamily
from mllm_jax.models import module as multimodal
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.work.flops import encoder_work
from mllm_jax.models.work.profile import tower_profiles
from sharding.grid import View
from sharding.plan import ParallelPlan
from tests.extending.aimv2 import model as aimv2
from tests.extending.aimv2.config import Aimv2Config
from tests.extending.aimv2.release import AIMV2
from tests.models import towers
from tests.models.pretrained.stored import by_name, written

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending" / "encoder.md"
DECODERS = PAGE.with_name("decoder.md").read_text()
#: The lines that give decoders a part that no family has.
PART = Path(__file__).with_name("sandwich.patch")
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


#: A model as it is with the family among those that a configuration may name.
Encoder = Annotated[SiglipConfig | Aimv2Config, Field(discriminator="family")]
Model: Any = create_model(
    "Model", __base__=ModelConfig, encoders=(dict[str, Encoder], Field(default_factory=dict))
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The family beside the others."""
    known = MappingProxyType({**families.FAMILIES, "aimv2": aimv2.AIMV2})
    monkeypatch.setattr(families, "FAMILIES", known)


def model(**changes: Any) -> ModelConfig:
    decoder = {"layers": 1, "d_model": 16, "heads": 4, "d_ff": 16, "vocab": 32}
    settings = {"dtype": "float32", "attention": "reference", "loss_chunk": 16}
    return Model.model_validate(
        {"decoder": decoder, "encoders": {"vision": VISION | changes}, **settings}
    )


@pytest.mark.parametrize("name", ["config", "model", "release", "reference"])
def test_the_page_shows_the_code(name: str) -> None:
    code = (Path(__file__).parent / "aimv2" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in PAGE.read_text(), f"{name}.py is not as in {PAGE}"


def _named(folder: Path) -> None:
    """The lines of the page's last table, in a copy of the framework."""
    package = folder / "mllm_jax"
    shutil.copytree(Path(__file__).parent / "aimv2", package / "families" / "aimv2")
    for file, module, old, new in (
        ("models/graph.py", "config import Aimv2Config", "| Whisper", "| Aimv2Config | Whisper"),
        ("families/registry.py", "model import AIMV2", '"siglip":', '"aimv2": AIMV2, "siglip":'),
        ("models/pretrained/releases.py", "release import AIMV2", "LLAVA,", "AIMV2, LLAVA,"),
    ):
        text, place = (package / file).read_text(), "from mllm_jax"
        assert text.count(old) == 1
        line = f"from mllm_jax.families.aimv2.{module}\n{place}"
        (package / file).write_text(text.replace(old, new).replace(place, line, 1))


def _copied(folder: Path, *more: str) -> None:
    """A copy of the framework in which `launch.py` runs, and of further folders."""
    for name in ("benchmarks", "configs", "data", "mllm_jax", "scheduling", "sharding", *more):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("launch.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)


def _run(folder: Path, *arguments: str) -> str:
    """The output of a Python process that imports the copy in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_is_followed_to_the_letter(tmp_path: Path) -> None:
    _copied(tmp_path)
    _named(tmp_path)
    choice = "model.encoders.vision.family=aimv2"
    demo = ("launch.py", "config", "--config", "configs/demo.yaml", choice)
    assert "family: aimv2" in _run(tmp_path, *demo)
    released = "from mllm_jax.models.pretrained.releases import FAMILIES; print(*FAMILIES)"
    for first in ("families.aimv2.config", "layers.modules"):  # circles depend on where one begins
        found = _run(tmp_path, "-c", f"import mllm_jax.{first}; {released}")
        assert "aimv2_vision_model" in found
    linter = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    assert "0 broken" in _run(tmp_path, "-c", linter, "--no-cache")


@pytest.mark.slow
def test_an_encoder_that_the_page_adds_leaves_tests_green(tmp_path: Path) -> None:
    _copied(tmp_path, "docs", "tests")
    _named(tmp_path)
    references = tmp_path / "tests" / "models" / "references.py"
    example = (ROOT / "tests" / "extending" / "aimv2" / "reference.py").read_text()
    text, table = references.read_text(), "#: What the tower"
    text = text.replace(table, f"{example[example.index('def aimv2') :]}\n\n{table}")
    references.write_text(text.replace('"clip": clip,', '"clip": clip, "aimv2": aimv2,'))
    _refresh_keys(tmp_path)
    names = _tests_of(tmp_path, "aimv2")
    for test in ("test_encoder[aimv2]", "test_axes_fit_the_parameters[aimv2]"):
        assert f"test_transformer.py::{test}" in names


@pytest.mark.slow
def test_a_part_that_the_page_adds_leaves_tests_green(tmp_path: Path) -> None:
    _copied(tmp_path, "docs", "tests")
    subprocess.run(["git", "apply", PART], cwd=tmp_path, check=True)
    _refresh_keys(tmp_path)
    assert "test_transformer.py::test_decoder[mine-" in _tests_of(tmp_path, "mine")
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    verify = ("launch.py", "verify", "--config", "tiny.yaml", "--json")
    assert json.loads(_run(tmp_path, *verify))["ok"] is True
    assert _run(tmp_path, "-c", ROUND_TRIP) == "MineForCausalLM\n"


def test_the_page_shows_the_part() -> None:
    assert f"```diff\n{PART.read_text()}```" in DECODERS


def _refresh_keys(folder: Path) -> None:
    _run(folder, "launch.py", "config", "--write-keys", "docs/reference/keys")


def _tests_of(folder: Path, family: str) -> str:
    """The names of the tests of a family, all of which pass in the copy in `folder`."""
    chosen = f"{family} or refused or pages or family or compared"
    places = ["tests/layers/test_transformer.py"]
    places += [f"tests/models/{name}" for name in ("test_packing.py", "test_graph.py", "work")]
    options = ("-n", "0", "-v", "-k", chosen, *places, "tests/config/test_load.py")
    return _run(folder, "-m", "pytest", *options)


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
    rows = scattered(batch(), model(), 2)
    result = compare(loss_and_gradients(model(), plans, parameters(), [rows]), on_one_device())
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


def test_packed_images_are_as_if_alone() -> None:
    config = model()
    params = multimodal.init_parameters(config, jax.random.key(0))["encoders"]["vision"]
    own = Model(**{**dict(config), "encoders": {"media": config.encoders["vision"]}})
    media = towers.signals([4, 12, 6], 12)
    found = []
    for layout in ([[4, 12, 6], [], []], [[4], [12], [6]]):
        rows = towers.lay(layout, 24, 2)
        batch = towers.media_rows(own, rows, media, [2, 4, 3])
        outputs = multimodal.encode(params, "media", batch, own, View())
        spans = [(row, slice(start // 2, (start + n) // 2)) for row, start, n in rows.spans]
        found.append(np.concatenate([outputs[span] for span in spans]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_its_cost_is_counted() -> None:
    config = model()
    shapes, _ = multimodal.abstract_parameters(config)
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes["encoders"]["vision"]))
    assert tower_profiles(config)["vision"].parameters == count
    work = encoder_work(config.encoders["vision"], 16)
    # Four projections and three products of the MLP; a query against every key, and back.
    assert work.linear > 2 * 2 * (4 * 16 * 16 + 3 * 16 * 24)
    assert work.quadratic == 2 * 4 * 16
    (spec,) = row_specs(config)
    assert (spec.kind, spec.features, spec.reduction) == ("image", 12, 2)


def test_its_released_form_has_an_inverse() -> None:
    config = model(grid=[4, 4], connector={})
    composition = AIMV2.read(AIMV2.write_config(_alone(config)))
    assert composition == _alone(config)
    params = multimodal.init_parameters(config, jax.random.key(0))["encoders"]["vision"]
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


# ---- a decoder -----------------------------------------------------------------------------------


class Decoder(DecoderConfig):
    """A decoder as it is with a family `mine`."""

    family: Literal["mine"]  # type: ignore[assignment]


def test_a_decoder_family_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new family combines parts that other families have."""
    mine = DecoderFamily(biases="qo", qk_norm=True)
    known = MappingProxyType({**decoder_families.FAMILIES, "mine": mine})
    monkeypatch.setattr(decoder_families, "FAMILIES", known)
    sizes = {"layers": 2, "d_model": 16, "heads": 4, "d_ff": 16, "vocab": 32}
    decoder = Decoder.model_validate({"family": "mine", **sizes})
    config = towers.model().model_copy(update={"decoder": decoder})
    shapes = by_name(multimodal.abstract_parameters(config)[0]["decoder"])
    attention = {name.split(".", 2)[2] for name in shapes if "self_attn" in name}
    assert {"q_proj.bias", "o_proj.bias", "q_norm.scale", "k_norm.scale"} <= attention
    assert not {"k_proj.bias", "v_proj.bias"} & attention
    assert {rule.parameter for rule in decoder_rules(decoder)} == {*shapes}


#: The lines of the page's table of decoders, each before what it is put in front of.
DECODER_LINES = (
    (
        "layers/config/decoder_families.py",
        '"mine": DecoderFamily(biases="qo", qk_norm=True)',
        '"llama": DecoderFamily()',
    ),
    ("layers/config/decoder.py", '"mine"', '"llama", "qwen2"'),
    ("hf_format/decoder_rules.py", '"mine": "MineForCausalLM"', '"llama": "LlamaForCausalLM"'),
)
TINY = {
    "run": {"name": "tiny"},
    "model": {"decoder": {"family": "mine", "layers": 2, "d_model": 16, "heads": 2, "d_ff": 16}},
    "parallel": {"platform": "cpu", "devices": 2, "decoder": {"tensor": 2}},
    "data": {
        "source": {"kind": "demo"},
        "rows": 2,
        "budgets": {"tokens": 312, "segments": 24},
    },
    "train": {"steps": 1, "learning_rate": 0.001},
}
#: Writes the released configuration of a decoder, and reads it again.
ROUND_TRIP = """
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.models.pretrained.releases import FAMILIES
from mllm_jax.hf_format.release_format import ReleasedModel

sizes = dict(layers=2, d_model=16, heads=2, d_ff=16, vocab=32)
composition = ReleasedModel(DecoderConfig(family="mine", **sizes))
values = FAMILIES["mine"].write_config(composition)
assert FAMILIES["mine"].read(values) == composition
del values["head_dim"]
assert FAMILIES["mine"].read(values) == composition
print(*values["architectures"])
"""


def test_the_lines_of_a_decoder_are_all_that_it_needs(tmp_path: Path) -> None:
    """A copy with these lines checks a configuration, computes, and has a released form."""
    _copied(tmp_path)
    for name, line, old in DECODER_LINES:
        file = tmp_path / "mllm_jax" / name
        assert f"| `mllm_jax/{name}` | `{line}` in " in DECODERS
        assert file.read_text().count(old) == 1
        file.write_text(file.read_text().replace(old, f"{line}, {old}"))
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    tiny = ("--config", "tiny.yaml")
    assert "family: mine" in _run(tmp_path, "launch.py", "config", *tiny)
    result = json.loads(_run(tmp_path, "launch.py", "verify", *tiny, "--json"))
    assert result["ok"] is True
    assert {*result["worst"]} == {"decoder"}
    assert _run(tmp_path, "-c", ROUND_TRIP) == "MineForCausalLM\n"
