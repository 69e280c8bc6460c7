"""Cards of exported models: what they say of use, origin and licence; they have no paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mllm_jax.config.load import load_config
from mllm_jax.families.releases import release_formats
from mllm_jax.release.model_card import adapters_card, model_card, usage_text
from mllm_jax.release.origin import ReleaseOrigin
from tests.configs import ROOT


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """A run with absolute paths wherever a configuration may have them."""
    paths = {
        "run.directory": tmp_path / "runs",
        "data.source.path": tmp_path / "secret.json",
        "data.source.media": tmp_path / "media",
        "data.source.heldout": tmp_path / "held.json",
        "data.cache": tmp_path / "cache",
        "data.processor": ROOT / "configs/processors/llava",
        "checkpoint.local_folder": tmp_path / "snapshots",
    }
    lora = f"{{targets: ['decoder.layers.*'], rank: 2, begin_with: {tmp_path / 'first'}}}"
    overrides = [*(f"{key}={path}" for key, path in paths.items()), f"train.lora={lora}"]
    return load_config(ROOT / "configs/llava.yaml", overrides).model_dump(mode="json")


def release(folder: Path, head: str = "", origin: str | None = None) -> str:
    folder.mkdir()
    if head:
        (folder / "README.md").write_text(f"---\n{head}\n---\n# A model\n---\n")
    if origin:
        ReleaseOrigin(origin, "abc").write(folder)
    return str(folder)


def head(text: str) -> dict[str, Any]:
    _, found, _ = text.split("---\n", 2)
    values: dict[str, Any] = yaml.safe_load(found)
    return values


def written(config: dict[str, Any], *folders: str) -> str:
    sources: dict[str, str | None] = {f"part{i}": own for i, own in enumerate(folders)}
    return model_card("llava", 7, config, sources | {"random": None}, ["tokenizer.json"])


def test_no_card_has_a_path(config: dict[str, Any], tmp_path: Path) -> None:
    base = release(tmp_path / "base")
    texts = [written(config), written(config, base), adapters_card(7, config, base)]
    for text in texts:
        assert str(tmp_path) not in text
        assert str(ROOT) not in text
        shown = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
        assert shown["train"]["learning_rate"] == config["train"]["learning_rate"]
        assert shown["model"]["decoder"]["family"] == "qwen2"
        assert {*shown} == {"model", "data", "train"}
        assert len(text.splitlines()) < 120
    assert "`base`" in texts[1]
    assert "Random values." in texts[0]


def test_a_model_from_random_values_has_no_base(config: dict[str, Any]) -> None:
    text = written(config)
    assert head(text) == {"library_name": "transformers", "tags": ["mllm_jax"]}
    assert "whoever publishes these weights chooses one" in text


def test_a_release_of_a_hub_is_the_base_with_its_licence(
    config: dict[str, Any], tmp_path: Path
) -> None:
    base = release(tmp_path / "a", "license: apache-2.0\nbase_model: older/one", "org/name")
    for text in (written(config, base, base), adapters_card(7, config, base)):
        assert head(text)["base_model"] == "org/name"
        assert head(text)["license"] == "apache-2.0"
        assert "## Licence" not in text
        assert "`org/name@abc`" in text


def test_a_release_of_a_folder_hands_on_what_it_began_with(
    config: dict[str, Any], tmp_path: Path
) -> None:
    first = release(tmp_path / "a", "base_model: [org/name]\nlicense: other\nlicense_name: x")
    assert head(written(config, first))["base_model"] == "org/name"
    assert head(written(config, first))["license_name"] == "x"


def test_different_licences_are_nobody_s(config: dict[str, Any], tmp_path: Path) -> None:
    first = release(tmp_path / "a", "license: mit", "org/a")
    second = release(tmp_path / "b", "license: apache-2.0", "org/b")
    text = written(config, first, second)
    assert head(text)["base_model"] == ["org/a", "org/b"]
    assert "license" not in head(text)
    assert "## Licence" in text


@pytest.mark.parametrize("damaged", ["a: [", "- list", "text"])
def test_a_damaged_card_of_a_release_says_nothing(
    config: dict[str, Any], tmp_path: Path, damaged: str
) -> None:
    assert "license" not in head(written(config, release(tmp_path / "a", damaged)))


def test_every_format_with_a_decoder_says_how_it_is_loaded() -> None:
    for name, release in release_formats().items():
        text = usage_text(name, has_texts=True)
        assert bool(text) == ("decoder" in release.modules), name
        assert usage_text(name, has_texts=False) == ""
    assert "AutoTokenizer, AutoModelForCausalLM" in usage_text("qwen3_moe", has_texts=True)
    assert "torchvision" in usage_text("llava_onevision", has_texts=True)
