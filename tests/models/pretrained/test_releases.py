"""Every released form: what it says, which tensors it holds, and its inverse."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.families.releases import format_named, release_formats
from mllm_jax.families.whisper.config import WhisperConfig
from mllm_jax.hf_format.configs import read_config
from mllm_jax.hf_format.files import PretrainedError, open_tensors
from mllm_jax.hf_format.tensor_rules import TensorRule, check_tensors
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.trainable import LOAD
from mllm_jax.models.module import abstract_parameters
from mllm_jax.models.pretrained.release import Release
from mllm_jax.release.import_weights import check_values
from tests.models.pretrained.stored import ROOT, by_name, composition, imported, written

FOLDERS = [
    path.parent.name
    for path in sorted(ROOT.glob("*/config.json"))
    if read_config(path.parent)["model_type"] in release_formats()
]


def test_all_stored_families_are_known() -> None:
    assert {"llama3", "qwen3", "siglip2_naflex", "clip", "whisper", "llava", "qwen2_audio"} <= {
        *FOLDERS
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_configuration_that_transformers_5_has_saved_is_the_same(folder: str) -> None:
    """tests/parity/newer.json; the stored folders have the keys of older versions."""
    values = json.loads((ROOT / "newer.json").read_text())[folder]
    assert values["transformers_version"] == "5.23.0"
    released = Release.open(ROOT / folder)
    newer = format_named(values["model_type"]).read(values)
    assert newer == released.released_model


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_parameter_has_one_rule(folder: str) -> None:
    """The rule has the parameter's shape; a checkpoint of a single module has no connector."""
    config, _, rules = imported(folder)
    shapes, _ = abstract_parameters(config)
    for module, own in rules.items():
        tree = shapes[module]
        found = {rule.parameter: (*stacked(rule), *rule.transform.shape) for rule in own}
        assert len(found) == len(own)
        whole = len(rules) > 1
        wanted = {
            name: leaf.shape
            for name, leaf in by_name(tree).items()
            if (whole or not name.startswith("connector.")) and not name.endswith(LOAD)
        }
        assert found == wanted


def stacked(rule: TensorRule) -> list[int]:
    """The dimensions of layers and of experts."""
    if rule.layers is None:
        return []
    experts = [] if rule.experts is None else [rule.experts]
    return [len(rule.names) // (rule.experts or 1), *experts]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_checkpoint_is_written_back_bit_for_bit(folder: str) -> None:
    """Parameters are written, and other tensors are copied from the source, but for a tied head."""
    values = read_config(ROOT / folder)
    family = format_named(values["model_type"])
    _, params, rules = imported(folder)
    made: dict[str, np.ndarray] = {}
    for module, own in rules.items():
        made |= written(own, by_name(params[module]))
    source = {
        name: tensor
        for path in (ROOT / folder).glob("*.safetensors")
        for name, tensor in load_file(path).items()
    }
    kept = family.copied_tensors(values, source)
    assert not set(kept) & set(made)
    assert set(source) - set(kept) - set(made) <= {"lm_head.weight"}
    for name, tensor in made.items():
        np.testing.assert_array_equal(tensor.astype(source[name].dtype), source[name], name)


@pytest.mark.parametrize("folder", ["clip", "llava", "llava_onevision"])
def test_a_norm_that_is_not_used_is_written_all_the_same(folder: str) -> None:
    values = read_config(ROOT / folder)
    family = format_named(values["model_type"])
    tensors = open_tensors(ROOT / folder)
    idle = family.filler_tensors(family.read(values))
    assert {*idle} == {name for name in tensors if "post_layernorm" in name}
    for name, tensor in idle.items():
        assert tensor.shape == tensors[name].shape
        assert (tensor == name.endswith("weight")).all()
    assert not release_formats()["qwen2_audio"].filler_tensors(composition("qwen2_audio"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_missing_or_unknown_is_listed(folder: str) -> None:
    values = read_config(ROOT / folder)
    family = format_named(values["model_type"])
    every = [rule for own in family.rules(family.read(values)).values() for rule in own]
    tensors = dict(open_tensors(ROOT / folder))
    lost = tensors.pop(every[-1].names[0])
    tensors["vision_tower.vision_model.encoder.layers.0.mlp.fc9.weight"] = lost
    with pytest.raises(PretrainedError) as refused:
        check_tensors(tensors, every, family.unused_tensors(values, tensors))
    assert f"1 missing: {every[-1].names[0]}" in str(refused.value)
    assert "1 of no parameter: vision_tower" in str(refused.value)


@pytest.mark.parametrize("folder", FOLDERS)
def test_configurations_have_inverses(folder: str) -> None:
    values = read_config(ROOT / folder)
    family = format_named(values["model_type"])
    found = family.read(values)
    assert family.config_for(found, values) == values
    made = family.config_for(found)
    assert format_named(made["model_type"]).read(made) == found
    if found.decoder is not None:
        longer = replace(found, decoder=found.decoder.model_copy(update={"layers": 6}))
        changed = family.config_for(longer, values)
        assert family.read(changed) == longer
        assert changed != values


# ---- LLaVA ---------------------------------------------------------------------------------------


def llava(**changes: Any) -> dict[str, Any]:
    values = read_config(ROOT / "llava")
    vision = values["vision_config"] | changes.pop("vision_config", {})
    return values | {"vision_config": vision} | changes


@pytest.mark.parametrize(
    ("chosen", "layers", "unused"),
    [
        (-2, 2, {"2"}),
        (-1, 3, set()),
        (1, 1, {"1", "2"}),
        (-3, 1, {"1", "2"}),
        (3, 3, set()),
        ([-2], 2, {"2"}),
    ],
)
def test_layers_after_the_features_are_not_there(
    chosen: int | list[int], layers: int, unused: set[str]
) -> None:
    family, values = release_formats()["llava"], llava(vision_feature_layer=chosen)
    assert family.read(values).encoders["vision"].layers == layers
    names = family.unused_tensors(values, open_tensors(ROOT / "llava"))
    numbers = [re.search(r"layers\.(\d+)", name) for name in names]
    assert {found[1] for found in numbers if found} == unused
    rest = {name for name, found in zip(names, numbers, strict=True) if not found}
    assert rest == {f"vision_tower.vision_model.post_layernorm.{x}" for x in ("weight", "bias")}


def test_llavas_keys_that_are_left_out() -> None:
    """LLaVA-1.5-7B is released without these keys."""
    sizes = {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096, "patch_size": 14}
    depth = {"num_hidden_layers": 24, "num_attention_heads": 16}
    text = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
    found = release_formats()["llava"].read(
        {
            "model_type": "llava",
            "text_config": {**text, "rms_norm_eps": 1e-5},
            "vision_config": {"model_type": "clip_vision_model", **sizes, **depth},
        }
    )
    decoder, vision = found.decoder, found.encoders["vision"]
    assert decoder is not None
    assert (decoder.layers, decoder.d_model, decoder.d_ff, decoder.kv_heads) == (
        32,
        4096,
        11008,
        32,
    )
    assert isinstance(vision, ClipConfig)
    assert (vision.layers, vision.grid, vision.patch) == (23, (24, 24), (14, 14))
    assert (vision.activation, vision.class_token) == ("quick_gelu", "dropped")
    assert found.connectors["vision"].activation == "gelu"
    assert found.placeholders == {"vision": 32000}


def test_a_kept_class_token_is_merged() -> None:
    found = release_formats()["llava"].read(llava(vision_feature_select_strategy="full"))
    vision = found.encoders["vision"]
    assert isinstance(vision, ClipConfig)
    assert vision.class_token == "kept"
    assert release_formats()["llava"].config_for(found)["image_seq_length"] == 17


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vision_feature_layer": [-2, -1]}, r"\[-2, -1\] is not supported; valid: one layer"),
        ({"vision_feature_layer": 0}, "0 is none of 3 layers; valid: -3 to -1, or 1 to 3"),
        ({"vision_feature_layer": -4}, "-4 is none of 3 layers"),
        ({"vision_feature_select_strategy": "cls"}, "'cls' is not supported; valid: default, full"),
        ({"projector_hidden_act": "relu"}, "'relu' is not supported; valid: gelu_pytorch_tanh"),
        ({"vision_config": {"model_type": "dino"}}, "'dino' is no such encoder; valid: clip"),
        ({"vision_config": {"image_size": [16, 32]}}, r"image_size: \[16, 32\] is not supported"),
        (
            {"text_config": {"model_type": "mamba"}},
            "'mamba' is not that of a decoder; valid: llama",
        ),
    ],
    ids=str,
)
def test_what_llava_cannot_be_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PretrainedError, match=told):
        release_formats()["llava"].read(llava(**changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": ["llava"]}, r"model_type \['llava'\] is not supported; valid: llama"),
        ({"text_config": {"hidden_size": "wide"}}, "config.json: d_model: .*integer.*, got 'wide'"),
        ({"text_config": "llama"}, "config.json holds a value of a wrong kind"),
        ({"vision_config": {"patch_size": 0}}, "config.json holds a value of a wrong kind"),
        ({"text_config": {"num_hidden_layers": 10**4}}, f"released tensors for {10**4} layers"),
        ({"text_config": {"num_hidden_layers": 10**15}}, f"layers: .* 10000, got {10**15}"),
    ],
    ids=str,
)
def test_values_of_a_wrong_kind_are_refused(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "llava", tmp_path, dirs_exist_ok=True)
    (tmp_path / "config.json").write_text(json.dumps(llava(**changes)))
    with pytest.raises(PretrainedError, match=told):
        check_values(Release.open(tmp_path), print)


def test_what_has_no_released_form_is_refused() -> None:
    found = composition("llava")
    vision = found.encoders["vision"]
    other = vision.model_copy(update={"patch": (4, 2)})
    changed: tuple[tuple[dict[str, Any], str], ...] = (
        (
            {"encoders": {}},
            r"llava is made of decoder .*, vision \(ClipConfig\); this model is made of decoder",
        ),
        ({"encoders": {"vision": other}}, "valid: squares"),
        (
            {"connectors": {"vision": ConnectorConfig(hidden=8)}},
            "hidden 8 is not LLaVA's; valid: mlp, 1, 32",
        ),
        ({"connectors": {}}, "outputs of vision are not merged; valid: encoders with a connector"),
    )
    for changes, told in changed:
        with pytest.raises(PretrainedError, match=told):
            release_formats()["llava"].config_for(replace(found, **changes))
    with pytest.raises(
        PretrainedError, match=r"qwen2 is made of decoder .*; this model is made of .*, vision"
    ):
        release_formats()["qwen2"].config_for(found)
    with pytest.raises(
        PretrainedError, match=r"clip is made of vision .*; this model is made of decoder"
    ):
        release_formats()["clip"].config_for(found)
    with pytest.raises(PretrainedError, match="'bert' is not supported; valid: llama, mixtral"):
        format_named("bert")


# ---- Qwen2-Audio, Whisper ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["llava", "llava_onevision", "qwen2_audio"])
def test_placeholders_have_two_names(kind: str) -> None:
    values, name = read_config(ROOT / kind), "audio" if "audio" in kind else "image"
    rest = {key: value for key, value in values.items() if not key.startswith(f"{name}_token_")}
    for key in ("index", "id"):
        found = release_formats()[kind].read({**rest, f"{name}_token_{key}": 11})
        assert [*found.placeholders.values()] == [11]


def test_qwen2_audios_keys_that_are_left_out() -> None:
    found = release_formats()["qwen2_audio"].read({"model_type": "qwen2_audio"})
    audio, decoder = found.encoders["audio"], found.decoder
    assert isinstance(audio, WhisperConfig)
    assert (audio.layers, audio.d_model, audio.mels, audio.max_positions) == (32, 1280, 128, 1500)
    connector = found.connectors["audio"]
    assert (audio.reduction(connector), connector.kind, audio.lookahead) == (4, "average", 2)
    assert decoder is not None
    assert (decoder.family, decoder.d_model, decoder.vocab) == ("qwen2", 4096, 151936)


def test_what_qwen2_audio_is_not_is_refused() -> None:
    found = composition("qwen2_audio")
    audio = found.encoders["audio"]
    stacked = ConnectorConfig(kind="average", stack=4)
    family = release_formats()["qwen2_audio"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"audio": audio.model_copy(update={"max_positions": None})}, "no released format"),
        ({"audio": audio.model_copy(update={"head_dim": 4})}, "4 heads of 4 in a width of 32"),
        ({"sound": audio}, "made of decoder .*, audio .*; this model is made of decoder .*, sound"),
    ]
    for encoders, told in wrong:
        with pytest.raises(PretrainedError, match=told):
            family.config_for(replace(found, encoders=encoders))
    with pytest.raises(PretrainedError, match="stack 4 and bias True is not Qwen2-Audio's; valid"):
        family.config_for(replace(found, connectors={"audio": stacked}))
    for changes, told in (
        ({"activation_function": "relu"}, "activation_function: 'relu' is not supported"),
        ({"scale_embedding": True}, "scale_embedding: True is not supported; valid: False"),
    ):
        with pytest.raises(PretrainedError, match=told):
            family.read({"audio_config": changes})
    lacking = {"encoder_layers": None, "num_hidden_layers": None}
    with pytest.raises(PretrainedError, match="whisper lacks encoder_layers"):
        release_formats()["whisper"].read({**read_config(ROOT / "whisper"), **lacking})


# ---- names ---------------------------------------------------------------------------------------

OTHER_NAMES: dict[str, list[tuple[tuple[str, str], ...]]] = {
    "llava": [
        ((r"vision_tower\.vision_model\.", "vision_tower."),),
        (
            (r"language_model\.lm_head\.", "lm_head."),
            (r"language_model\.model\.", "model.language_model."),
            (r"vision_tower\.", "model.vision_tower."),
            (r"multi_modal_projector\.", "model.multi_modal_projector."),
        ),
    ],
    "qwen2_audio": [
        (
            (r"language_model\.lm_head\.", "lm_head."),
            (r"language_model\.model\.", "model.language_model."),
            (r"audio_tower\.", "model.audio_tower."),
            (r"multi_modal_projector\.", "model.multi_modal_projector."),
        ),
    ],
    "clip": [((r"vision_model\.", ""),)],
    "whisper": [((r"model\.", ""),)],
}


@pytest.mark.parametrize(
    ("folder", "changes"),
    [(folder, changes) for folder, forms in OTHER_NAMES.items() for changes in forms],
)
def test_other_names_of_the_same_are_read(
    folder: str, changes: tuple[tuple[str, str], ...]
) -> None:
    family = format_named(read_config(ROOT / folder)["model_type"])
    names = list(open_tensors(ROOT / folder))
    assert family.rename_tensors(dict.fromkeys(names, 0)).keys() == {*names}
    other = {_first(name, changes): name for name in names}
    assert {*other} != {*names}
    assert all(new == old for new, old in family.rename_tensors(other).items())


def _first(name: str, changes: tuple[tuple[str, str], ...]) -> str:
    """`name` with the first change that fits its begin."""
    fits = (re.sub(f"^{old}", new, name) for old, new in changes if re.match(old, name))
    return next(fits, name)


def test_two_names_of_one_tensor_are_refused() -> None:
    with pytest.raises(PretrainedError, match=r"several names: language_model\.lm_head\.weight"):
        release_formats()["llava"].rename_tensors(
            {"lm_head.weight": 0, "language_model.lm_head.weight": 1}
        )


def test_a_tied_head_is_not_kept() -> None:
    values = read_config(ROOT / "qwen3")
    assert release_formats()["qwen3"].unused_tensors(values, ["lm_head.weight"]) == [
        "lm_head.weight"
    ]
    assert release_formats()["qwen3"].copied_tensors(values, ["lm_head.weight"]) == []
    untied = values | {"tie_word_embeddings": False}
    assert release_formats()["qwen3"].unused_tensors(untied, ["lm_head.weight"]) == []


def test_a_tied_head_is_the_embedding(tmp_path: Path) -> None:
    folder = tmp_path / "qwen3"
    shutil.copytree(ROOT / "qwen3", folder)
    (file,) = folder.glob("*.safetensors")
    tensors = load_file(file)
    head = tensors["model.embed_tokens.weight"].copy()
    save_file({**tensors, "lm_head.weight": head}, file)
    Release.open(folder).check_contents()
    head[-1, -1] += 1
    save_file({**tensors, "lm_head.weight": head}, file)
    with pytest.raises(PretrainedError, match=r"lm_head\.weight is another tensor; valid: tie_"):
        Release.open(folder).check_contents()
