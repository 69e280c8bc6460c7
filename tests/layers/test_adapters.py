"""Adapters beside linear layers: which there are, what they begin with and what they compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from mllm_jax.layers.adapters import has_linear
from mllm_jax.layers.config.adapters import AdapterError
from mllm_jax.layers.config.linear import LinearLayer
from mllm_jax.layers.dense import Dense
from mllm_jax.layers.parameters import ParameterBlock
from mllm_jax.layers.trainable import FrozenParts
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.work.flops import model_flops
from mllm_jax.models.work.profile import module_profiles
from tests.train.models import small_model

HEAD = "decoder.lm_head"
EXPERTS = {"count": 4, "top_k": 2, "d_ff": 16, "shared_d_ff": 16, "shared_gate": True, "every": 2}


def mixture() -> ModelConfig:
    whole = small_model().model_dump(mode="json")
    decoder = whole["decoder"] | {"family": "qwen2_moe", "layers": 4, "experts": EXPERTS}
    encoders = whole["encoders"]
    encoders["vision"] |= {"deepstack": [1]}
    encoders["audio"]["connector"] = {"kind": "linear"}
    return ModelConfig.model_validate(whole | {"decoder": decoder, "encoders": encoders})


def found(tower: Mapping[str, ParameterBlock], module: str) -> dict[str, LinearLayer]:
    """The linear layers of a tower's modules."""
    layers: dict[str, LinearLayer] = {}
    for name, block in tower.items():
        part = module if name in ("layers", "lm_head") else f"{module}.connector"
        for build in (block.build, *block.others) if has_linear(name) else ():
            made = nnx.eval_shape(lambda b=build: b(nnx.Rngs(params=0)))
            for path, dense in inside(made, f"{module}.{name}"):
                old = layers.get(path, LinearLayer(path, part, *dense.dims, share=0.0))
                layers[path] = replace(old, share=old.share + 1 / block.period)
    return layers


def inside(module: nnx.Module, name: str) -> Iterator[tuple[str, Dense]]:
    if isinstance(module, Dense):
        yield name, module
    for own, value in vars(module).items():
        if isinstance(value, nnx.Module):
            yield from inside(value, f"{name}.{own}")


@pytest.mark.parametrize(
    "model",
    [small_model("gpt", "vit22b"), small_model("llama", "clip"), mixture()],
    ids=["gpt", "llama", "mixture"],
)
def test_the_linear_layers_are_those_of_the_modules(model: ModelConfig) -> None:
    wanted = found(multimodal._build_blocks(model, "decoder"), "decoder")
    for name in model.encoders:
        wanted |= found(multimodal._build_blocks(model, name), name)
    assert {layer.name: layer for layer in model.linear_layers} == wanted


def test_a_target_that_matches_nothing_is_told_what_there_is() -> None:
    message = r"decoder\.q_proj matches no linear layer; valid: patterns of decoder\.layers\.self_"
    with pytest.raises(AdapterError, match=message):
        small_model().with_adapters(["decoder.*", "decoder.q_proj"], 2, 1.0)
    with pytest.raises(AdapterError, match=r"o_proj.*\. Routers and the experts that .* a head"):
        tied().with_adapters(["decoder.lm_head"], 2, 1.0)


def tied() -> ModelConfig:
    """A model whose head is its embedding."""
    values = small_model().model_dump(mode="json")
    values["decoder"] |= {"tie_embeddings": True}
    return ModelConfig.model_validate(values)


def test_the_head_has_an_adapter_where_it_is_named() -> None:
    """As with PEFT, whose pattern of all linear layers leaves it out."""
    for targets in (["*"], ["decoder.*"]):
        own = small_model().with_adapters(targets, 2, 1.0).adapters
        assert own is not None
        assert HEAD not in own.names
    named = small_model().with_adapters(["*.lm_head"], 2, 1.0).adapters
    assert named is not None
    assert named.names == {HEAD}


def test_adapters_change_nothing_at_first() -> None:
    """And all other parameters are as without them."""
    model, key = small_model(), jax.random.key(3)
    plain, own = (multimodal.init_parameters(m, key) for m in (model, adapted(model)))
    leaves = dict(jax.tree_util.tree_leaves_with_path(own))
    for path, leaf in jax.tree_util.tree_leaves_with_path(plain):
        np.testing.assert_array_equal(leaves.pop(path), leaf)
    assert {path[-1].key for path in leaves} == {"lora_a", "lora_b"}
    assert all(bool(leaf.any()) == (path[-1].key == "lora_a") for path, leaf in leaves.items())


def adapted(model: ModelConfig) -> ModelConfig:
    return model.with_adapters(["*", HEAD], 2, 0.5)


def test_an_adapter_is_a_kernel_of_low_rank() -> None:
    dense = Dense((("heads", 2), (None, 3)), (("embed", 5),), nnx.Rngs(params=0), bias=True)
    dense.add_adapter(2, 0.5, nnx.Rngs(params=1))
    dense.lora_b = nnx.Param(jax.random.normal(jax.random.key(0), (2, 5)))
    x = jax.random.normal(jax.random.key(1), (4, 2, 3))
    kernel = dense.kernel[...] + 0.5 * jnp.tensordot(dense.lora_a[...], dense.lora_b[...], 1)
    np.testing.assert_allclose(dense(x), jnp.tensordot(x, kernel, 2), rtol=1e-5, atol=1e-6)
    assert jnp.abs(dense.lora_a[...]).max() <= 6**-0.5
    narrow = dense(x.astype(jnp.bfloat16))
    assert narrow.dtype == jnp.bfloat16


@pytest.mark.parametrize("model", [small_model("qwen3", "siglip"), mixture()], ids=["", "mixture"])
def test_their_elements_are_counted(model: ModelConfig) -> None:
    own = adapted(model)
    shapes, _ = multimodal.abstract_parameters(own)
    sizes = {
        name: sum(leaf.size for leaf in jax.tree.leaves(tree)) for name, tree in shapes.items()
    }
    assert {name: p.parameters for name, p in module_profiles(own).items()} == sizes


def test_their_products_are_counted() -> None:
    """Of the whole model less without adapters: twice their elements for each token."""
    model = small_model()
    own, lengths = adapted(model), {"decoder": [8.0]}
    frozen = FrozenParts.from_config((), own.adapted)
    assert own.adapters is not None
    layers = model.decoder.layers * sum(own.adapters.layer_elements("decoder").values())
    head = sum(own.adapters.end_elements("decoder").values())
    plain = model_flops(model, lengths, FrozenParts(("decoder",)), targets=5)
    more = model_flops(own, lengths, frozen, targets=5) - plain
    assert more == pytest.approx(3 * 2 * (8 * layers + 5 * head))
