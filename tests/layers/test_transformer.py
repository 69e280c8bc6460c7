"""Every family against a plain numpy version of its published layer, and published sizes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from mllm_jax.families.releases import release_formats
from mllm_jax.hf_format.configs import read_config
from mllm_jax.layers.transformer import DecoderLayer, layer_context
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from sharding.grid import MeshView
from tests.configs import ROOT
from tests.models import references, towers

PARITY = ROOT / "tests" / "parity"
LENGTH = 9


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        *[(family, {}) for family in towers.DECODERS],
        ("llama", {"parallel_block": True}),
        ("gpt", {"parallel_block": True}),
    ],
)
def test_decoder(family: str, changes: dict[str, Any]) -> None:
    config = towers.model(family, decoder_changes=changes)
    params = towers.parameters(config)["decoder"]
    tokens = towers.texts([LENGTH])
    batch = towers.text_rows(towers.lay([[LENGTH]], 12), tokens)
    run = towers.quick(lambda p: towers.decode_hidden(p, batch, None, config, MeshView())[0])
    actual = np.asarray(run(params))[0, :LENGTH] @ params["lm_head"]["kernel"]
    np.testing.assert_allclose(
        actual, references.decoder(tokens[0], params, config.decoder), atol=1e-4
    )


@pytest.mark.parametrize("family", references.ENCODERS)
def test_encoder(family: str) -> None:
    config = towers.model(encoder=family)
    settings = config.encoders["media"]
    params = towers.parameters(config)["media"]
    length = {"whisper": LENGTH, "clip": 13}.get(family, 12)
    media = towers.signals([length], settings.features)
    rows = towers.lay([[length]], 16)
    batch = towers.media_rows(config, rows, media, [4])
    run = towers.quick(lambda p: towers.encode(p, "media", batch, config, MeshView()))
    outputs = references.ENCODERS[family](media[0], params, settings)
    expected = references.connect(outputs, params["connector"], config.connector("media").joined)
    np.testing.assert_allclose(np.asarray(run(params))[0, : len(expected)], expected, atol=1e-4)


def test_every_encoder_is_compared_with_something() -> None:
    """With a plain version, or with values of the public implementation."""
    stored = (read_config(folder.parent) for folder in PARITY.glob("*/config.json"))
    released = {
        encoder.family
        for values in stored
        if values["model_type"] in release_formats()
        for encoder in release_formats()[values["model_type"]].read(values).encoders.values()
    }
    missing = {*towers.ENCODERS} - released - {*references.ENCODERS}
    assert not missing, "valid: a function in ENCODERS of references.py, or a folder in parity"


@pytest.mark.parametrize(
    ("family", "biases", "norms"),
    [
        ("llama", "", ""),
        ("qwen2", "qkv", ""),
        ("qwen3", "", "qk"),
        ("gpt", "qkvo", ""),
        ("siglip", "qkvo", ""),
        ("clip", "qkvo", ""),
        ("vit22b", "", "qk"),
        ("whisper", "qvo", ""),
    ],
)
def test_biases_and_norms_of_attention(family: str, biases: str, norms: str) -> None:
    is_decoder = family in towers.DECODERS
    config = towers.model(family) if is_decoder else towers.model(encoder=family)
    _, axes = multimodal.abstract_parameters(config)
    module = axes["decoder"] if is_decoder else axes["media"]
    attention = module["layers"]["self_attn"]
    assert {name for name in "qkvo" if "bias" in attention[f"{name}_proj"]} == set(biases)
    assert {name for name in "qk" if f"{name}_norm" in attention} == set(norms)


PUBLISHED = [
    # Llama 3.1 8B, Qwen2 7B, Qwen3 8B: parameters of the released checkpoints.
    ("llama", 32, 4096, 32, 8, 14336, 128256, 8_030_261_248),
    ("qwen2", 28, 3584, 28, 4, 18944, 152064, 7_615_616_512),
    ("qwen3", 36, 4096, 32, 8, 12288, 151936, 8_190_735_360),
]


@pytest.mark.parametrize(
    ("family", "layers", "d_model", "heads", "kv_heads", "d_ff", "vocab", "count"), PUBLISHED
)
def test_parameters_of_released_decoders(
    family: str,
    layers: int,
    d_model: int,
    heads: int,
    kv_heads: int,
    d_ff: int,
    vocab: int,
    count: int,
) -> None:
    own = {"layers": layers, "d_model": d_model, "heads": heads, "kv_heads": kv_heads}
    config = towers.model(family, decoder_changes={**own, "d_ff": d_ff, "vocab": vocab})
    shapes, _ = multimodal.abstract_parameters(config)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count


def test_gpt3_has_175_billion_parameters() -> None:
    """GPT-3 (arXiv 2005.14165), table 2.1; the output projection is the embedding."""
    own = {"layers": 96, "d_model": 12288, "heads": 96, "kv_heads": 96, "d_ff": 4 * 12288}
    rest = {"vocab": 50257, "max_positions": 2048, "tie_embeddings": True}
    shapes, _ = multimodal.abstract_parameters(towers.model("gpt", decoder_changes={**own, **rest}))
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert count == pytest.approx(175e9, rel=0.005)


@pytest.mark.parametrize("encoder", towers.ENCODERS)
def test_axes_fit_the_parameters(encoder: str) -> None:
    config = towers.model("gpt", encoder)
    shapes, axes = multimodal.abstract_parameters(config)
    assert shapes == jax.eval_shape(partial(multimodal.init_parameters, config), jax.random.key(0))

    def check(path: Any, leaf: jax.ShapeDtypeStruct, names: tuple[str | None, ...]) -> None:
        assert len(names) == len(leaf.shape), path
        assert names.count("embed") <= 1, path
        assert ("layers" in names) == ("['layers']" in jax.tree_util.keystr(path)), path

    jax.tree_util.tree_map_with_path(check, shapes, axes)


def test_initial_values_are_of_their_layer_and_scale() -> None:
    config: ModelConfig = towers.model(decoder_changes={"layers": 2, "d_model": 64, "heads": 4})
    params = multimodal.init_parameters(config, jax.random.key(0))["decoder"]
    kernel = np.asarray(params["layers"]["mlp"]["up_proj"]["kernel"])
    assert kernel.std() == pytest.approx(64**-0.5, rel=0.1)
    assert not np.allclose(kernel[0], kernel[1])
    output = np.asarray(params["layers"]["mlp"]["down_proj"]["kernel"])
    assert output.std() == pytest.approx(48**-0.5 / 2, rel=0.1)
    assert (np.asarray(params["norm"]["scale"]) == 1).all()


@pytest.mark.parametrize("encoder", towers.ENCODERS)
def test_bfloat16_follows_float32(encoder: str) -> None:
    """Activations are bfloat16 from the stem to the connector; the loss is float32 again."""
    results = []
    for dtype in ("float32", "bfloat16"):
        config = towers.model("gpt", encoder, dtype=dtype)
        params = towers.parameters(config)
        settings = config.encoders["media"]
        media = towers.signals([12], settings.features)
        batch = towers.media_rows(config, towers.lay([[12]], 16), media, [4])
        run = towers.quick(lambda p, c=config, b=batch: towers.encode(p, "media", b, c, MeshView()))
        outputs = run(params["media"])
        assert outputs.dtype == dtype
        results.append(np.asarray(outputs, np.float32)[0, : 12 // config.reduction("media")])
    difference = np.linalg.norm(results[0] - results[1]) / np.linalg.norm(results[0])
    assert 0 < difference < 0.05


@pytest.mark.parametrize("family", ["qwen3", "gpt"])
def test_bfloat16_decoder_has_a_float32_loss(family: str) -> None:
    losses = []
    for dtype in ("float32", "bfloat16"):
        config = towers.model(family, dtype=dtype)
        params = towers.parameters(config)["decoder"]
        batch = towers.text_rows(towers.lay([[LENGTH]], 12), towers.texts([LENGTH]))

        def loss(params: Any, config: ModelConfig = config, batch: ModuleRows = batch) -> Any:
            hidden, _ = towers.decode_hidden(params, batch, None, config, MeshView())
            assert hidden.dtype == config.dtype
            return towers.loss(params, hidden, batch, config, MeshView())

        losses.append(towers.quick(loss)(params))
        assert losses[-1].dtype == np.float32
    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=0.02)


@pytest.mark.parametrize("family", ["llama", "qwen2_moe"])
def test_a_parallel_block_is_the_sum_of_what_reads_one_norm(family: str) -> None:
    experts = {"experts": {"count": 4, "top_k": 2, "d_ff": 16, "shared_d_ff": 8}}
    own = {"parallel_block": True} | (experts if family == "qwen2_moe" else {})
    config = towers.model(family, decoder_changes=own)
    (kind,) = config.decoder.layer_kinds
    layer = DecoderLayer(config.decoder, "reference", kind, nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(0), (1, LENGTH, config.decoder.d_model))
    view = MeshView()
    ids, places = jnp.ones((1, LENGTH), jnp.int32), jnp.arange(LENGTH)[None]
    rows = ModuleRows(None, ids, places[..., None], places)
    segments = layer_context(rows, config.decoder)
    normed = layer.input_layernorm(x)
    attended = layer.self_attn(normed, segments, view)
    made = layer.experts(normed, segments, view)[0] if "experts" in own else layer.mlp(normed, view)
    np.testing.assert_allclose(layer(x, segments, view)[0], x + attended + made, atol=1e-6)
    assert not hasattr(layer, "post_attention_layernorm")
    counted = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(layer, nnx.Param)))
    assert sum(config.decoder.layer_elements.values()) == counted
