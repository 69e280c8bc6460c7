"""configs/recipes: released models as they are, rows that hold their media, true heads."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import jax
import pytest

from data.processing.processor import make_processor
from data.sample import DataError
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import released_of, row_specs
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.encoder import AudioEncoderConfig, ImageEncoderConfig
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import abstract_parameters
from mllm_jax.models.pretrained.release import compose_model
from mllm_jax.models.work.flops import module_work
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from tests.configs import ROOT

RECIPES = sorted((ROOT / "configs" / "recipes").glob("*.yaml"))
#: Parameters of released checkpoints, by how the names of recipes begin.
RELEASED = {"llava15": 7.06e9, "onevision": 8.03e9, "qwen2_audio": 8.40e9, "qwen3_moe": 30.95e9}
#: LLaVA-1.5's connector: 1024 to 4096 to 4096, with biases.
CONNECTOR = 1024 * 4096 + 4096 + 4096 * 4096 + 4096
#: What released `config.json`s say of shapes, less what their classes have by default.
CONFIGS: dict[str, dict[str, Any]] = {
    "llava15_finetune": {
        "model_type": "llava",
        "text_config": {"model_type": "llama", "vocab_size": 32064, "rms_norm_eps": 1e-5}
        | {"max_position_embeddings": 4096},
        "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024}
        | {"image_size": 336, "patch_size": 14, "intermediate_size": 4096}
        | {"num_hidden_layers": 24, "num_attention_heads": 16},
    },
    "onevision_8": {
        "model_type": "llava_onevision",
        "text_config": {"model_type": "qwen2", "vocab_size": 152128, "rope_theta": 1e6}
        | {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28}
        | {"num_attention_heads": 28, "num_key_value_heads": 4},
    },
    "qwen2_audio": {
        "model_type": "qwen2_audio",
        "text_config": {"model_type": "qwen2", "vocab_size": 156032, "rms_norm_eps": 1e-5}
        | {"intermediate_size": 11008, "max_position_embeddings": 8192},
        "audio_config": {"model_type": "qwen2_audio_encoder", "num_mel_bins": 128}
        | {"encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120}
        | {"d_model": 1280, "max_source_positions": 1500},
    },
}
#: The same of two releases that a recipe joins.
PARTS: dict[str, dict[str, Any]] = {
    "decoder": {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 151936,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "max_position_embeddings": 40960,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "router_aux_loss_coef": 0.001,
        "output_router_logits": False,
    },
    "vision": {
        "model_type": "siglip",
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152}
        | {"image_size": 384, "patch_size": 14, "intermediate_size": 4304}
        | {"num_hidden_layers": 27, "num_attention_heads": 16},
    },
}
each_recipe = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


def recipe(name: str) -> ExperimentConfig:
    """The recipe in the file of this name."""
    return load_config(ROOT / "configs" / "recipes" / f"{name}.yaml")


def sizes(tree: Any) -> int:
    """Parameters of a tree."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def trained(config: ExperimentConfig) -> int:
    """Parameters that change."""
    shapes, _ = abstract_parameters(config.model)
    frozen = jax.tree.leaves(FrozenParameters(config.train.freeze).frozen_mask(shapes))
    leaves = jax.tree.leaves(shapes)
    return sum(sizes(leaf) for leaf, own in zip(leaves, frozen, strict=True) if not own)


@each_recipe
def test_a_recipe_has_the_parameters_that_were_released(path: Path) -> None:
    (released,) = [n for name, n in RELEASED.items() if path.stem.startswith(name)]
    shapes, _ = abstract_parameters(load_config(path).model.adapted_like(None))
    assert sizes(shapes) == pytest.approx(released, rel=0.01)


def modules_of(model: dict[str, Any]) -> dict[str, Any]:
    """Values of the modules, whose connectors have the last layer alone."""
    for encoder in model["encoders"].values():
        assert encoder.pop("deepstack") == []
    return {key: model[key] for key in ("decoder", "encoders")}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_recipe_is_what_import_reads(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]))
    model = recipe(name).model.model_dump(mode="json")
    assert compose_model(str(tmp_path)) == modules_of(model)


def test_parts_of_a_recipe_are_what_import_reads(tmp_path: Path) -> None:
    """Two releases joined: the recipe has what `import` writes, but for the losses of experts."""
    folders: dict[str, str | None] = {"vision.connector": None}
    for name, values in PARTS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(values))
        folders[name] = str(tmp_path / name)
    model = recipe("qwen3_moe_64").model.model_dump(mode="json")
    model["decoder"]["experts"]["balance_weight"] = 0.0
    assert model["encoders"]["vision"].pop("connector") == ConnectorConfig().model_dump(mode="json")
    assert compose_model(folders) == modules_of(model)
    sources = recipe("qwen3_moe_64").model.sources
    assert [part for part, folder in sources.items() if folder is None] == ["vision.connector"]


def test_a_recipe_with_experts_has_few_active_parameters() -> None:
    """Qwen3-30B-A3B: 3.3 of 30.5 billion parameters, of which the embedding is in no product."""
    model = recipe("qwen3_moe_64").model
    decoder = model.decoder
    active = module_work(model, "decoder").linear / 2 + decoder.d_model * decoder.vocab_size
    assert active == pytest.approx(3.35e9, rel=0.01)


def test_a_recipe_trains_what_it_says() -> None:
    whole, _ = abstract_parameters(recipe("llava15_finetune").model)
    vision = sizes(whole["vision"]) - CONNECTOR
    assert trained(recipe("llava15_finetune")) == sizes(whole)
    assert trained(recipe("llava15_frozen_encoder")) == sizes(whole) - vision
    assert trained(recipe("llava15_align")) == CONNECTOR


def test_alignment_begins_with_a_new_connector() -> None:
    sources = recipe("llava15_align").model.sources
    assert [part for part, folder in sources.items() if folder is None] == ["vision.connector"]


def largest(model: ModelConfig, name: str) -> int:
    """Input positions of the largest medium of an encoder."""
    encoder = model.encoders[name]
    if isinstance(encoder, AudioEncoderConfig):
        assert encoder.longest
        return encoder.longest + encoder.lookahead
    assert isinstance(encoder, ImageEncoderConfig)
    if encoder.tiles is None:
        return math.prod(encoder.grid) + (encoder.class_tokens != "none")
    area = max(math.prod(pinpoint) for pinpoint in encoder.tiles.pinpoints)
    return (1 + area // math.prod(encoder.tiles.pixels)) * model.tile_inputs(name)


@each_recipe
def test_a_row_holds_the_largest_medium(path: Path) -> None:
    config = load_config(path)
    for name in config.model.encoders:
        assert largest(config.model, name) <= config.data.budgets[name]


def test_onevision_has_an_image_of_37_tiles() -> None:
    assert largest(recipe("onevision_8").model, "vision") == 37 * 729


@each_recipe
def test_the_head_states_what_is_predicted(path: Path) -> None:
    text = path.read_text()
    said = re.search(r"predicted ([\d.]+) s a step, [\d.]+ % MFU and ([\d.]+) GiB", text)
    config, h100 = load_config(path), load_hardware("h100")
    assert said is not None
    assert float(said[1]) == pytest.approx(simulate_step(config, h100).makespan, rel=0.01)
    assert float(said[2]) == pytest.approx(predict_memory(config, h100).total / 2**30, rel=0.01)


QWEN2_AUDIO = ROOT / "configs" / "recipes" / "qwen2_audio.yaml"


def test_a_recipe_loads_without_the_weights_and_cannot_read_data(tmp_path: Path) -> None:
    config = load_config(QWEN2_AUDIO, [f"data.processor={tmp_path / 'missing'}"])
    with pytest.raises(DataError, match=r"data\.processor: .*missing is not a folder"):
        make_processor(config.data, row_specs(config.model), released=released_of(config.data))


def test_a_missing_processor_gives_no_vocabulary(tmp_path: Path) -> None:
    missing = [f"data.processor={tmp_path / 'missing'}", "model.decoder.vocab=null"]
    with pytest.raises(ConfigError, match=r"data\.processor: .*missing is not a folder"):
        load_config(QWEN2_AUDIO, missing)


def test_a_processor_that_is_there_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json"):
        load_config(QWEN2_AUDIO, [f"data.processor={tmp_path}"])
