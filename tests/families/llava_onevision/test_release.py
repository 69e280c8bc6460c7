"""LLaVA-OneVision's released form: what a configuration says, which tensors, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mllm_jax.families.llava_onevision.release import LLAVA_ONEVISION as FAMILY
from mllm_jax.families.releases import write_decoder
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.families.siglip.release import read_siglip, write_siglip
from mllm_jax.hf_format.configs import read_config
from mllm_jax.hf_format.files import PretrainedError, StoredTensor, open_tensors
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.hf_format.tensor_rules import check_tensors
from tests.models.pretrained.stored import ROOT, by_name, imported, tensors_of, written

FOLDER = ROOT / "llava_onevision"
#: That of 7 billion parameters, as it is released, but for what changes nothing.
RELEASED: dict[str, Any] = {
    "architectures": ["LlavaOnevisionForConditionalGeneration"],
    "image_token_index": 151646,
    "model_type": "llava_onevision",
    "projector_hidden_act": "gelu",
    "text_config": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "max_position_embeddings": 32768,
        "model_type": "qwen2",
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "rope_theta": 1000000.0,
        "vocab_size": 152000,
    },
    "tie_word_embeddings": False,
    "use_image_newline_parameter": True,
    "vision_aspect_ratio": "anyres_max_9",
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 384,
        "intermediate_size": 4304,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 26,
        "patch_size": 14,
        "vision_use_head": False,
    },
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
}


def parts(values: dict[str, Any]) -> tuple[Any, SiglipConfig]:
    """Decoder and encoder."""
    found = FAMILY.read(values)
    vision = found.encoders["vision"]
    assert isinstance(vision, SiglipConfig)
    return found.decoder, vision


def test_the_released_one_is_ours() -> None:
    decoder, vision = parts(RELEASED)
    assert (decoder.family, decoder.layers, decoder.extra_tokens) == ("qwen2", 28, 1)
    assert (vision.layers, vision.grid, vision.final_norm) == (26, (27, 27), False)
    connector = FAMILY.read(RELEASED).connectors["vision"]
    assert connector.activation == "gelu"
    assert vision.tiles is not None
    assert (vision.tiles.pixels, vision.tiles.most) == ((384, 384), 9)
    assert vision.tiles.pinpoints[0] == (384, 384)
    assert vision.tiles.pinpoints[6:8] == ((768, 384), (768, 768))
    assert vision.tiles.pinpoints[-1] == (2304, 2304)
    assert vision.tile_inputs(connector) == 729


def test_what_is_left_out_is_the_default() -> None:
    left_out = ("vision_config", "vision_aspect_ratio", "vision_feature_layer", "image_token_index")
    fewer = {key: value for key, value in RELEASED.items() if key not in left_out}
    assert FAMILY.read(fewer) == FAMILY.read(RELEASED)


@pytest.mark.parametrize("values", [RELEASED, read_config(FOLDER)], ids=["7B", "small"])
def test_ours_becomes_what_it_came_from(values: dict[str, Any]) -> None:
    composition = FAMILY.read(values)
    assert FAMILY.read(FAMILY.write_config(composition)) == composition
    assert FAMILY.config_for(composition, values) == values
    assert FAMILY.write_config(composition)["vision_config"]["image_size"] in (18, 384)


def test_features_of_an_earlier_layer_need_fewer_layers() -> None:
    _, vision = parts({**RELEASED, "vision_feature_layer": -2})
    assert vision.layers == 25
    layer = "vision_tower.vision_model.encoder.layers.{}.layer_norm1.weight"
    names = [layer.format(24), layer.format(25)]
    assert FAMILY.unused_tensors({**RELEASED, "vision_feature_layer": -2}, names) == names[1:]


# ---- tensors -------------------------------------------------------------------------------------


def test_parameters_are_written_as_they_were_released() -> None:
    _, params, rules = imported("llava_onevision")
    tensors = open_tensors(FOLDER)
    made: dict[str, np.ndarray] = {}
    for module, own in rules.items():
        tree = params[module]
        assert {rule.parameter for rule in own} == set(by_name(tree))
        made |= written(own, by_name(tree))
    unused = FAMILY.unused_tensors(read_config(FOLDER), tensors)
    assert sorted(unused) == [
        f"vision_tower.vision_model.post_layernorm.{name}" for name in ("bias", "weight")
    ]
    assert made.keys() == tensors.keys() - {*unused}
    for name, array in made.items():
        np.testing.assert_array_equal(array, tensors[name].map_weights().astype(np.float32), name)


def test_newer_names_are_the_same_tensors() -> None:
    """The public implementation writes these names now."""
    released = open_tensors(FOLDER)

    def newer(name: str) -> str:
        name = name.replace("language_model.model.", "language_model.")
        return "model." + name.replace("vision_tower.vision_model.", "vision_tower.")

    names = {newer(name): tensor for name, tensor in released.items()}
    assert FAMILY.rename_tensors(names) == dict(released)
    assert FAMILY.rename_tensors({"lm_head.weight": 0}) == {"language_model.lm_head.weight": 0}


def test_other_tensors_are_an_error() -> None:
    tensors, rules = tensors_of(FOLDER)
    every = [rule for own in rules.values() for rule in own]
    values = read_config(FOLDER)
    lost = StoredTensor(FOLDER, 0, (32, 1), "F16")
    changed = {**tensors, "image_newline": lost, "vision_tower.extra": lost}
    del changed["multi_modal_projector.linear_1.bias"]
    with pytest.raises(PretrainedError) as refused:
        check_tensors(changed, every, FAMILY.unused_tensors(values, changed))
    for told in (
        "1 missing: multi_modal_projector.linear_1.bias",
        "1 of no parameter: vision_tower.extra",
        "1 misshapen: image_newline [32, 1], not [32]",
    ):
        assert told in str(refused.value)


# ---- what is not supported -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vision_aspect_ratio": "square"}, "'square' is not supported; valid: anyres_max_ and a"),
        ({"vision_aspect_ratio": "anyres_max_0"}, "greater than 0"),
        ({"image_grid_pinpoints": [[384, 400]]}, r"\[384, 400\] is not a whole number of tiles"),
        ({"vision_feature_select_strategy": "default"}, "'default' is not supported; valid: 'full"),
        ({"use_image_newline_parameter": False}, "False is not supported; valid: True"),
        ({"vision_feature_layer": [-2, -1]}, r"\[-2, -1\] is not supported; valid: one layer"),
        ({"vision_feature_layer": 27}, "27 is none of 26 layers"),
        ({"projector_hidden_act": "relu"}, "projector_hidden_act: 'relu' is not supported"),
        (
            {"vision_config": {"model_type": "clip_vision_model"}},
            "'clip_vision_model' is no such encoder",
        ),
        ({"text_config": {"model_type": "mamba"}}, "model_type 'mamba' is not that of a decoder"),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PretrainedError, match=told):
        FAMILY.read({**RELEASED, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tiles": None}, "tiles null, final_norm False and extra_tokens 1 are not"),
        ({"final_norm": True}, "final_norm True"),
        ({"grid": (14, 14)}, r"tiles of \[384, 384\] pixels and \(27, 27\) patches beside a grid"),
        ({"heads": 8}, "8 heads of 72 in a width of 1152 have no released format"),
    ],
    ids=str,
)
def test_what_cannot_be_released_is_refused(changes: dict[str, Any], told: str) -> None:
    found = FAMILY.read(RELEASED)
    changed = replace(
        found, encoders={"vision": found.encoders["vision"].model_copy(update=changes)}
    )
    with pytest.raises(PretrainedError, match=told):
        FAMILY.write_config(changed)


def test_what_is_only_of_the_whole_has_no_place_in_a_module_alone() -> None:
    decoder, vision = parts(RELEASED)
    with pytest.raises(PretrainedError, match=r"extra_tokens: 1 have no place .* valid: 0"):
        write_decoder(decoder)
    alone = write_siglip(vision)
    assert read_siglip(alone).model_copy(update={"final_norm": False}) == vision.model_copy(
        update={"tiles": None}
    )


def test_a_composition_of_other_modules_is_refused() -> None:
    decoder, vision = parts(RELEASED)
    for wrong in (
        ReleasedModel(decoder),
        ReleasedModel(decoder, {"vision": vision, "more": vision}),
    ):
        with pytest.raises(
            PretrainedError, match=r"is made of decoder .*, vision .*; this model is made of"
        ):
            FAMILY.write_config(wrong)
    plain = decoder.model_copy(update={"extra_tokens": 2})
    with pytest.raises(PretrainedError, match="extra_tokens 2 are not LLaVA-OneVision's"):
        FAMILY.write_config(replace(FAMILY.read(RELEASED), decoder=plain))
