"""Configurations of experts: what is refused, which layers have them, what they count."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from pydantic import ValidationError

from mllm_jax.families.releases import decoder_rules, write_decoder
from mllm_jax.hf_format.expert_rules import check_equal_biases
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.layers.experts.block import make_dispatch
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import ShardedModule, abstract_parameters
from mllm_jax.models.work.flops import module_work
from mllm_jax.models.work.profile import module_profiles
from sharding.grid import MeshView

EXPERTS = {"count": 8, "top_k": 2, "d_ff": 24}
DECODER = {"layers": 4, "d_model": 32, "heads": 4, "vocab": 64}


def model(family: str = "mixtral", decoder: Any = (), **experts: Any) -> ModelConfig:
    own = {"family": family, **DECODER, "experts": EXPERTS | experts} | dict(decoder)
    return ModelConfig.model_validate({"decoder": own, "dtype": "float32"})


SIGMOID = {"router": "sigmoid", "groups": 4, "top_groups": 2}


@pytest.mark.parametrize(
    ("experts", "told"),
    [
        ({"top_k": 9}, r"top_k 9 is above experts.count 8; choose top_k from 1 to 8"),
        ({"shared_gate": True}, "shared_gate true has no effect, as experts.shared_d_ff is 0"),
        (
            {"groups": 4, "top_groups": 2},
            r"groups 4 and experts.top_groups 2 are of scores by sigmoid, .*router is softmax",
        ),
        ({"top_groups": 2}, "top_groups 2 are of scores by sigmoid, .*; valid: both 1, or router"),
        ({"top_k": 1}, "normalise true with experts.top_k 1 gives every expert the weight 1"),
        (SIGMOID | {"groups": 3}, r"count 8 does not make experts.groups 3 .* from \[1, 2, 4\]"),
        (SIGMOID | {"groups": 8}, r"groups 8 of two experts or more; choose groups from \[1, 2, 4"),
        (SIGMOID | {"top_groups": 5}, r"top_groups 5 of 4 .*; choose top_groups from 1 to 4"),
        (SIGMOID | {"top_k": 5}, r"no place for top_k 5; choose top_groups from 3 to 4"),
        (
            {"every": 3},
            r"of experts.every 3; choose layers 6, or experts.every from \[1, 2, 4\] \[",
        ),
        ({"every": 5}, r"leave none of 4 layers with experts; choose every from \[1, 2, 4\] \["),
        ({"every": 3, "first_dense": 3}, r"leave none of 4 .*; choose first_dense below 3 \["),
        ({"buffer": float("inf")}, "experts.buffer\n.*finite number"),
        ({"buffer": 0}, "experts.buffer\n.*greater than 0"),
        ({"first_dense": 4}, r"leave none of 4 layers with experts; choose first_dense below 4 \["),
    ],
)
def test_impossible_experts_are_refused(experts: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        model(**experts)


@pytest.mark.parametrize(
    ("pattern", "every", "valid"),
    [
        (["window", "full"], 3, "layers 6, or experts.every from [1, 2, 4]"),
        (3 * ["window"], 2, "layers 6, or another pattern"),
        (3 * ["window"], 3, "layers 6, or experts.every from [1, 2, 4] with another pattern"),
        (3 * ["window"], 1, "layers 6, or another pattern"),
    ],
)
def test_layers_are_whole_periods(pattern: list[str], every: int, valid: str) -> None:
    """What is offered instead of four layers is valid."""
    with pytest.raises(ValidationError) as refused:
        model(decoder={"pattern": pattern, "window": 3, "d_ff": 8}, every=every)
    cause = f"of pattern {pattern}" + (f" and experts.every {every}" if every > 1 else "")
    assert refused.value.errors()[0]["msg"].endswith(f"{cause}; choose {valid}")


@pytest.mark.parametrize(
    ("buffer", "slots"), [(1e-320, 4), (0.5, 16), (1.25, 40), (4.0, 4 * 30), (1e9, 4 * 30)]
)
def test_slots_are_no_more_than_all_ranks_fill(buffer: float, slots: int) -> None:
    """Four ranks of thirty copies each; every rank has as many slots for each of them."""
    own = model(buffer=buffer).decoder.experts
    assert own is not None
    assert (
        make_dispatch(own, 30, MeshView(expert=("expert",), sizes=(("expert", 4),))).slots == slots
    )


def test_families_have_experts_or_none() -> None:
    with pytest.raises(ValidationError, match=r"family llama has no experts; .* such as mixtral"):
        model("llama")
    with pytest.raises(ValidationError, match="family mixtral needs the section experts"):
        model(decoder={"experts": None, "d_ff": 8})
    assert model().decoder.d_ff == EXPERTS["d_ff"]


@pytest.mark.parametrize(
    ("experts", "layers", "period"),
    [
        ({}, (0, 1, 2, 3), 1),
        ({"every": 2}, (1, 3), 2),
        ({"first_dense": 1}, (1, 2, 3), 4),
        ({"every": 2, "first_dense": 2}, (3,), 4),
    ],
)
def test_layers_with_experts(experts: dict[str, Any], layers: Any, period: int) -> None:
    own = model(**experts).decoder
    assert (own.layers_with_experts, own.period) == (layers, period)
    windows = model(decoder={"pattern": ["window", "full"], "window": 3}, **experts).decoder
    assert len(windows.layer_kinds) == windows.period
    assert [kind.mask.window for kind in windows.layer_kinds[:2]] == [3, None]


@pytest.mark.parametrize(
    ("experts", "sparse"),
    [(None, []), ({}, [0, 1, 2, 3]), ({"every": 2}, [1, 3]), ({"first_dense": 1}, [1, 2, 3])],
)
def test_tensors_of_a_layer_are_those_of_its_mlp_or_of_its_experts(
    experts: dict[str, Any] | None, sparse: list[int]
) -> None:
    family = "llama" if experts is None else "qwen3_moe"
    own = {"experts": None, "d_ff": 40} if experts is None else {"d_ff": 40}
    config = model(family, decoder=own, **(experts or {})).decoder
    rules = {rule.parameter: rule for rule in decoder_rules(config)}
    dense = [layer for layer in range(4) if layer not in sparse]
    mlp = rules.get("layers.mlp.up_proj.kernel")
    found = mlp.names if mlp else []
    assert found == [f"model.layers.{layer}.mlp.up_proj.weight" for layer in dense]
    router = rules.get("layers.experts.router.kernel")
    found = router.names if router else []
    assert found == [f"model.layers.{layer}.mlp.gate.weight" for layer in sparse]


@pytest.mark.parametrize(
    "experts",
    [{}, {"every": 2, "shared_d_ff": 8}, {"first_dense": 1, "shared_d_ff": 8, "shared_gate": True}],
)
def test_elements_are_those_of_the_parameters(experts: dict[str, Any]) -> None:
    config = model("qwen2_moe", decoder={"d_ff": 40}, **experts)
    shapes, _ = abstract_parameters(config)
    profile = module_profiles(config)["decoder"]
    assert profile.parameters == sum(leaf.size for leaf in jax.tree.leaves(shapes))
    of_experts = sum(n for axes, n in profile.layer_parameters.items() if "experts" in axes)
    assert of_experts * 4 == config.decoder.expert_layers * 8 * 3 * 24 * 32


def test_parameters_that_some_layers_have_are_stacked_for_these() -> None:
    config = model("qwen3_moe", decoder={"d_ff": 40}, every=2)
    layers = abstract_parameters(config)[0]["decoder"]["layers"]
    assert layers["mlp"]["up_proj"]["kernel"].shape == (2, 32, 40)
    assert layers["experts"]["up_proj"]["kernel"].shape == (2, 8, 32, 24)
    assert layers["input_layernorm"]["scale"].shape == (4, 32)
    spec = ShardedModule(config, "decoder", MeshView()).spec
    assert spec.without == (frozenset({"experts"}), frozenset({"mlp"}))


def test_work_is_that_of_the_experts_of_a_token() -> None:
    """As of a dense decoder of equal active parameters, and the router's product."""
    sparse = module_work(model(shared_d_ff=16), "decoder")
    dense = module_work(model("llama", decoder={"experts": None, "d_ff": 2 * 24 + 16}), "decoder")
    assert sparse.linear - dense.linear == 4 * 2 * 32 * 8
    assert sparse.quadratic == dense.quadratic
    half = module_work(model(decoder={"d_ff": 64}, every=2, shared_d_ff=16), "decoder")
    assert half.linear == (sparse.linear + dense.linear) / 2


@pytest.mark.parametrize(
    ("family", "experts", "told"),
    [
        ("mixtral", {"router": "sigmoid"}, "router: sigmoid has no place in the .* valid: softmax"),
        ("qwen3_moe", SIGMOID, "has no place in the released format of qwen3_moe"),
        (
            "qwen2_moe",
            {"bias_rate": 0.1, "shared_d_ff": 8, "shared_gate": True},
            "bias_rate: 0.1",
        ),
        ("qwen2_moe", {"shared_d_ff": 8}, "shared_gate: False has no place .* valid: True"),
        ("qwen3_moe", {"scale": 2.0}, r"scale: 2\.0 has no place .* valid: 1\.0"),
        ("qwen3_moe", {"shared_d_ff": 8}, "shared_d_ff: 8 has no place .* valid: 0"),
        ("mixtral", {"every": 2}, "every: 2 has no place .* valid: 1"),
        ("mixtral", {"normalise": False}, "normalise: False has no place .* valid: True"),
    ],
)
def test_export_refuses_what_the_released_format_has_no_place_for(
    family: str, experts: Any, told: str
) -> None:
    with pytest.raises(PretrainedError, match=told):
        write_decoder(model(family, **experts).decoder)


def test_biases_that_choose_experts_are_not_exported() -> None:
    own = model("qwen3_moe", decoder={"d_ff": 64}, every=2).decoder
    biases = np.array([[0.0] * 8, [0.5] * 8], np.float32)
    check_equal_biases(own, biases)
    biases[1, 2] = -0.25
    with pytest.raises(
        PretrainedError, match=r"layer 3 are from -0\.25 to 0\.5, .* qwen3_moe; valid: equal biases"
    ):
        check_equal_biases(own, biases)


def test_what_a_run_alone_needs_is_left_out_at_export() -> None:
    usual, trained = (
        write_decoder(model("qwen3_moe", **own).decoder)
        for own in ({}, {"buffer": 2.0, "z_weight": 0.1})
    )
    assert usual == trained
