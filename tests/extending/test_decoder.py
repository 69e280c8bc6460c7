"""The decoders of docs/extending/decoder.md: a family of known parts, and a new part."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import pytest

from mllm_jax.hf_format.decoder_rules import decoder_rules
from mllm_jax.layers.config import decoder_families
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.decoder_families import DecoderFamily
from mllm_jax.models import module as multimodal
from tests.extending.copies import copy_framework, refresh_keys, run_in, run_tests_of
from tests.models import towers
from tests.models.pretrained.stored import by_name

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "extending" / "decoder.md"
DECODERS = PAGE.read_text()
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
    assert run_in(tmp_path, "-c", ROUND_TRIP) == "MineForCausalLM\n"


def test_the_page_shows_the_part() -> None:
    assert f"```diff\n{PART.read_text()}```" in DECODERS


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
from mllm_jax.families.releases import formats
from mllm_jax.hf_format.release_format import ReleasedModel

sizes = dict(layers=2, d_model=16, heads=2, d_ff=16, vocab=32)
composition = ReleasedModel(DecoderConfig(family="mine", **sizes))
values = formats()["mine"].write_config(composition)
assert formats()["mine"].read(values) == composition
del values["head_dim"]
assert formats()["mine"].read(values) == composition
print(*values["architectures"])
"""


def test_the_lines_of_a_decoder_are_all_that_it_needs(tmp_path: Path) -> None:
    """A copy with these lines checks a configuration, computes, and has a released form."""
    copy_framework(tmp_path)
    for name, line, old in DECODER_LINES:
        file = tmp_path / "mllm_jax" / name
        assert f"| `mllm_jax/{name}` | `{line}` in " in DECODERS
        assert file.read_text().count(old) == 1
        file.write_text(file.read_text().replace(old, f"{line}, {old}"))
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    tiny = ("--config", "tiny.yaml")
    assert "family: mine" in run_in(tmp_path, "launch.py", "config", *tiny)
    result = json.loads(run_in(tmp_path, "launch.py", "verify", *tiny, "--json"))
    assert result["ok"] is True
    assert {*result["worst"]} == {"decoder"}
    assert run_in(tmp_path, "-c", ROUND_TRIP) == "MineForCausalLM\n"
