"""Families are folders, entry points and registered ones; only what is named is imported."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from pydantic import ValidationError

from mllm_jax import families
from mllm_jax.config.inputs import media_specs, token_spec
from mllm_jax.families import registry
from mllm_jax.families.family import Family, FamilyModule, load_reference
from mllm_jax.families.functions import ModuleFunctions
from mllm_jax.families.llama.config import LlamaConfig
from mllm_jax.families.processors import released_processors
from mllm_jax.families.releases import release_formats
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.hf_format.release_format import ReleaseFormat
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import DECODER_FUNCTIONS, ShardedModule, init_parameters
from sharding.grid import MeshView
from tests.models import towers

WIDTHS: dict[str, Any] = {"layers": 1, "d_model": 8, "heads": 2, "d_ff": 8}
IMAGES: dict[str, Any] = {**WIDTHS, "patch": [2, 2], "grid": [2, 2]}


class OtherConfig(SiglipConfig):
    """Images as SigLIP's, under another name."""

    family: str = "other.vision"  # type: ignore[assignment]


OTHER = Family(
    "other", {"other.vision": FamilyModule(OtherConfig, "mllm_jax.families.siglip.model:FUNCTIONS")}
)


@pytest.fixture
def registered() -> Iterator[None]:
    registry.register(OTHER)
    yield
    registry.unregister("other")


@pytest.mark.parametrize("name", registry.family_names())
def test_what_a_family_refers_to_is_there(name: str) -> None:
    family = registry.find_family(name)
    assert family.name == name
    assert family.modules or family.formats
    if family.decoder:
        release = load_reference(family.decoder)
        assert release_formats()[release.model_type] is release.release_format
    for module in family.modules.values():
        if module.functions:
            assert isinstance(load_reference(module.functions), ModuleFunctions)
    for own in load_reference(family.formats) if family.formats else ():
        assert isinstance(own, ReleaseFormat)
        assert release_formats()[own.name] is own
    for released, reference in family.released_processors.items():
        assert released_processors().media[released] is load_reference(reference)
    assert family.placeholders.items() <= released_processors().placeholders.items()


def test_unknown_names_are_refused_with_the_valid_ones() -> None:
    valid = ", ".join(registry.family_names())
    with pytest.raises(registry.UnknownFamilyError, match=f"'dino' is unknown; valid: {valid}"):
        registry.find_family("dino")
    with pytest.raises(registry.UnknownFamilyError, match=r"'siglip\.text' is unknown; valid: "):
        registry.find_module("siglip.text")
    with pytest.raises(ValueError, match="module 'clip' of family 'other'; valid: 'other', or"):
        Family("other", {"clip": FamilyModule(OtherConfig, "clip.model:FUNCTIONS")})


@pytest.mark.usefixtures("registered")
def test_a_registered_family_is_configured_by_its_class() -> None:
    values = {"decoder": {**WIDTHS, "vocab": 8}, "encoders": {"eye": {"family": "other.vision"}}}
    values["encoders"]["eye"] |= IMAGES
    config = ModelConfig.model_validate(values)
    assert type(config.encoders["eye"]) is OtherConfig
    assert ModelConfig.model_validate(config.model_dump(mode="json")) == config
    assert pickle.loads(pickle.dumps(config)) == config
    values["encoders"]["eye"]["layers"] = 0
    with pytest.raises(ValidationError) as refused:
        ModelConfig.model_validate(values)
    assert [own["loc"] for own in refused.value.errors()] == [("encoders", "eye", "layers")]
    with pytest.raises(ValueError, match="there is a family 'siglip'; valid: another name"):
        registry.register(Family("siglip"))


PACKAGE = """
from mllm_jax.families.family import Family
FAMILY = Family("mine", formats="mllm_jax.families.clip.release:FORMATS")
"""


def test_installed_packages_and_folders_add_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "installed.py").write_text(PACKAGE)
    (tmp_path / "installed-1.dist-info").mkdir()
    points = f"[{registry.GROUP}]\nmine = installed:FAMILY\nyours = installed:FAMILY\n"
    (tmp_path / "installed-1.dist-info" / "entry_points.txt").write_text(points)
    (tmp_path / "folders" / "extra").mkdir(parents=True)
    folder = tmp_path / "folders" / "extra" / "__init__.py"
    folder.write_text(PACKAGE.replace('"mine"', '"extra"'))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(folder.parents[1])])
    registry._entry_points.cache_clear()
    try:
        assert {"extra", "mine", "siglip"} <= {*registry.family_names()}
        assert registry.find_family("mine").name == "mine"
        assert registry.find_family("extra").name == "extra"
        with pytest.raises(TypeError, match=r"family yours is Family.*; valid: a Family of that"):
            registry.find_family("yours")
    finally:
        registry._entry_points.cache_clear()


LOADED = """
import json, pickle, sys
from mllm_jax.models.model_config import ModelConfig
ModelConfig.model_validate(json.loads(sys.argv[1]))
print(json.dumps(sorted(sys.modules)))
"""
READ = """
import json, pickle, sys
read = pickle.load(sys.stdin.buffer)
print(json.dumps(sorted(sys.modules)))
"""


def test_a_configuration_imports_only_the_folders_that_it_names() -> None:
    values = towers.model("llama", "siglip").model_dump(mode="json")
    found = _modules_of(LOADED, json.dumps(values))
    folders = {name.split(".")[2] for name in found if name.count(".") == 3 and FOLDER in name}
    assert folders & {*registry.family_names()} == {"llama", "siglip"}
    assert not {"jax", "numpy"} & found


FOLDER = "mllm_jax.families."


@pytest.mark.parametrize("encoder", towers.ENCODERS)
def test_a_worker_reads_media_without_jax(encoder: str) -> None:
    media = media_specs(towers.model("llama", encoder))
    assert len(media) == 1
    found = _modules_of(READ, pickled=pickle.dumps(media))
    assert "numpy" in found
    assert not {"jax", "jaxlib", "flax"} & found


def test_a_worker_knows_the_classes_of_released_processors_without_jax() -> None:
    found = _modules_of(READ, pickled=pickle.dumps(released_processors()))
    assert "mllm_jax.families.whisper.processor" in found
    assert not {"jax", "jaxlib", "flax"} & found


def test_a_class_that_is_no_class_of_settings_is_refused() -> None:
    wrong = {"OtherImageProcessor": "mllm_jax.families.siglip.processor:PatchBudget"}
    registry.register(Family("other", released_processors=wrong))
    try:
        with pytest.raises(TypeError, match="PatchBudget'>; valid: a class of MediaSettings"):
            released_processors()
    finally:
        registry.unregister("other")


def _modules_of(program: str, *arguments: str, pickled: bytes = b"") -> set[str]:
    """Modules that a new process has imported."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, input=pickled, capture_output=True, check=True)
    return {*json.loads(done.stdout)}


class LouderConfig(LlamaConfig):
    """A decoder as Llama's, whose embeddings are twice as large."""

    family: str = "louder"  # type: ignore[assignment]


def _embed_twice(*arguments: Any) -> jax.Array:
    embedded: jax.Array = 2 * DECODER_FUNCTIONS.embed(*arguments)
    return embedded


LOUDER = replace(DECODER_FUNCTIONS, embed=_embed_twice)


def test_a_decoder_computes_by_the_functions_that_its_family_names() -> None:
    functions = f"{__name__}:LOUDER"
    assert load_reference(functions).embed is not DECODER_FUNCTIONS.embed
    registry.register(Family("louder", {"louder": FamilyModule(LouderConfig, functions)}))
    try:
        decoder = {**WIDTHS, "vocab": 16}
        usual, louder = (
            ModelConfig.model_validate({"decoder": decoder | {"family": name}, "dtype": "float32"})
            for name in ("llama", "louder")
        )
        params = init_parameters(usual, jax.random.key(0))["decoder"]
        rows = token_spec(usual).empty_rows((1, 4), ())
        once, twice = (
            ShardedModule(config, config.backbone, MeshView()).embed(params, rows)
            for config in (usual, louder)
        )
        assert jnp.abs(once).max() > 0
        assert jnp.array_equal(twice, 2 * once)
    finally:
        registry.unregister("louder")
