"""The decoder of docs/extending/family.md, and the part that docs/extending/decoder.md adds."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mllm_jax.families import registry
from mllm_jax.families.releases import decoder_rules, format_named, read_text_decoder
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.models import module as multimodal
from tests.extending.copies import copy_framework, refresh_keys, run_in, run_tests_of
from tests.extending.mine import FAMILY
from tests.extending.mine.config import MineConfig
from tests.models import towers
from tests.models.pretrained.stored import by_name

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs" / "extending"
FAMILIES = (PAGES / "family.md").read_text()
#: The lines that give decoders a part that no family has.
PART = HERE / "sandwich.patch"


@pytest.mark.slow
def test_a_part_that_the_page_adds_leaves_tests_green(tmp_path: Path) -> None:
    copy_framework(tmp_path, "docs", "tests")
    subprocess.run(["git", "apply", PART], cwd=tmp_path, check=True)
    refresh_keys(tmp_path)
    assert "test_transformer.py::test_decoder[mine-" in run_tests_of(tmp_path, "mine")
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    verify = ("launch.py", "verify", "--config", "tiny.yaml", "--json")
    assert json.loads(run_in(tmp_path, *verify))["ok"] is True


def test_the_page_shows_the_part() -> None:
    subprocess.run(["git", "apply", "--check", PART], cwd=HERE.parents[1], check=True)
    assert f"```diff\n{PART.read_text()}```" in (PAGES / "decoder.md").read_text()


@pytest.mark.parametrize("name", ["__init__", "config", "release"])
def test_the_page_shows_the_code(name: str) -> None:
    code = (HERE / "mine" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in FAMILIES, f"{name}.py is not as in the page"


@pytest.fixture
def registered() -> Iterator[None]:
    """The family among the others."""
    registry.register(FAMILY)
    yield
    registry.unregister(FAMILY.name)


@pytest.mark.usefixtures("registered")
def test_a_family_has_the_parts_that_it_names() -> None:
    config = towers.model("mine")
    assert config.decoder.parts == MineConfig.parts
    shapes = by_name(multimodal.abstract_parameters(config)[0]["decoder"])
    attention = {name.split(".", 2)[2] for name in shapes if "self_attn" in name}
    assert {"q_proj.bias", "o_proj.bias", "q_norm.scale", "k_norm.scale"} <= attention
    assert not {"k_proj.bias", "v_proj.bias"} & attention
    assert {rule.parameter for rule in decoder_rules(config.decoder)} == {*shapes}
    model = ReleasedModel(config.decoder)
    values = format_named("mine").write_config(model)
    assert values["architectures"] == ["MineForCausalLM"]
    del values["head_dim"]
    assert format_named("mine").read(values) == model
    assert read_text_decoder({"text_config": values}, "llama") == config.decoder


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


def test_a_folder_is_all_that_a_decoder_needs(tmp_path: Path) -> None:
    """A copy with the folders checks a configuration, computes, and has their release formats."""
    copy_framework(tmp_path)
    for name in ("mine", "duo"):
        shutil.copytree(HERE / name, tmp_path / "mllm_jax" / "families" / name)
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    tiny = ("--config", "tiny.yaml")
    assert "family: mine" in run_in(tmp_path, "launch.py", "config", *tiny)
    result = json.loads(run_in(tmp_path, "launch.py", "verify", *tiny, "--json"))
    assert result["ok"] is True
    assert {*result["worst"]} == {"decoder"}
    formats = "from mllm_jax.families.releases import release_formats; print(*release_formats())"
    assert {"mine", "duo", "duo_text"} <= {*run_in(tmp_path, "-c", formats).split()}
    classes = (
        "from mllm_jax.families.processors import released_processors; "
        "print(*released_processors().media)"
    )
    assert "DuoImageProcessor" in run_in(tmp_path, "-c", classes).split()
