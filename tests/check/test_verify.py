"""`verify` passes what is right and fails what is not."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.check import verify
from mllm_jax.check.routers import ONE_EXPERT, ONE_RANK
from mllm_jax.check.verify import VerificationResult, leaf_errors, relative_error, shrink_model
from mllm_jax.cli.training import answer_verification
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ScheduleConfig
from mllm_jax.families.siglip.config import SiglipConfig
from mllm_jax.models import merge
from sharding.plan import ParallelPlan
from tests.configs import ENCODERS_HALVED, HALVED, VALUES, config
from tests.train.models import small_model
from tests.train.test_run import launch

PLANS = {
    "decoder": ParallelPlan(data=2, tensor=2),
    "vision": ParallelPlan(data=4),
    "audio": ParallelPlan(fsdp=2, tensor=2),
}


#: The leaf of the decoder's largest error.
DECODER = {"decoder": "x"}


class BuiltError(Exception):
    """A step was to be built."""


def test_collectives_that_the_program_moves_are_verified_too(small_config, monkeypatch):
    def built(*_, overlap, **__):
        raise BuiltError(sorted(overlap.kinds))

    monkeypatch.setattr(verify, "build_step", built)
    config = small_config(parallel__overlap=["tensor"])
    with pytest.raises(BuiltError, match="tensor"):
        verify.verify_plans(config)


STAGED = {
    "parallel__decoder": {"stage": 2},
    "parallel__encoders": {"vision": {"data": 2}, "audio": {"data": 2}},
    "parallel__devices": 2,
    "model__decoder__layers": 2,
    "train__accumulate": 4,
}


#: Microbatches of the images' own, several for each of the decoder's.
OWN = STAGED | {
    "schedule__independent_microbatches": True,
    "schedule__independent_budgets": {"vision": 32},
    "data__image": {"height": 16, "max_patches": 32},
}


#: Likewise of two buckets, in which ranks share rows and have rows of their own.
OWN_LANES = OWN | {
    "model__encoders__vision__buckets": {"short": 16, "long": None},
    "parallel__devices": 4,
    "parallel__decoder": {"stage": 2, "data": 2},
    "parallel__encoders": {
        "short": {"data": 4},
        "long": {"data": 2, "context": 2},
        "audio": {"data": 4},
    },
    "schedule__independent_budgets": {"short": 16, "long": 32},
    "data__budgets": {"tokens": 64, "segments": 8, "short": 64, "long": 64, "audio": 128},
}


#: A decoder of experts, whose ranks share them, with encoders in the bubbles of its pipeline.
SPARSE = {
    "model__decoder__family": "qwen3_moe",
    "model__decoder__layers": 4,
    "model__decoder__experts": {"count": 4, "top_k": 2, "d_ff": 16, "every": 2},
    "model__encoders__audio__layers": 2,
    "parallel__encoders": {"vision": {"data": 4}, "audio": {"fsdp": 2, "stage": 2}},
    "train__accumulate": 4,
}


@pytest.mark.slow
def test_experts_with_encoders_in_the_bubbles_pass(small_config):
    config = small_config(**SPARSE, parallel__decoder={"stage": 2, "expert": 2})
    result = verify.verify_plans(config)
    assert result.ok, result
    assert result.to_json() == {
        "ok": True,
        "loss_error": result.loss_error,
        "worst": result.worst,
        "routers": result.routers,
    }
    assert set(result.worst) == {"decoder", "vision", "audio"}
    assert set(result.routers) == {"random", ONE_EXPERT, ONE_RANK}


#: Tokens, copies and widths of a decoder of experts over three of the axes that can share them.
SHARED = {
    "model__encoders": {},
    "model__decoder__family": "qwen2_moe",
    "model__decoder__heads": 4,
    "model__decoder__experts": {
        "count": 8,
        "top_k": 3,
        "d_ff": 8,
        "router": "sigmoid",
        "groups": 4,
        "top_groups": 2,
        "shared_d_ff": 8,
        "bias_rate": 0.1,
        "buffer": 1.5,
    },
    "parallel__devices": 8,
    "parallel__decoder": {"expert": 2, "context": 2, "tensor": 2},
    "parallel__encoders": {},
    "data__budgets": {"tokens": 64, "segments": 8},
}


def test_routers_of_experts_are_random_and_adversarial(small_config, monkeypatch):
    loads, right = [], verify.compare_gradients

    def compare(got, expected):
        loads.append(expected[1]["decoder"]["layers"]["experts"]["router"]["load_bias"])
        return right(got, expected)

    monkeypatch.setattr(verify, "compare_gradients", compare)
    result = verify.verify_plans(small_config(**SHARED))
    assert max(result.routers.values()) < 2e-5, result
    assert list(result.routers) == ["random", ONE_EXPERT, ONE_RANK]
    shares = dict(zip(result.routers, loads, strict=True))
    assert shares["random"].max() < 1
    np.testing.assert_allclose(shares[ONE_EXPERT][:, -1], 1, rtol=1e-6)
    np.testing.assert_allclose(shares[ONE_RANK][:, -4:].sum(axis=1), 3, rtol=1e-6)


def test_the_largest_errors_of_all_routers_are_told():
    found = {
        "random": VerificationResult(
            1e-6, {"decoder": 1e-5, "vision": 2e-6}, DECODER | {"vision": "y"}
        ),
        ONE_RANK: VerificationResult(
            2e-6, {"decoder": 3e-2, "vision": 1e-6}, DECODER | {"vision": "z"}
        ),
    }
    worst = VerificationResult.from_results(found, {})
    assert not worst.ok
    assert worst.rows == [
        ("loss", "2.0e-06", ""),
        ("decoder", "3.0e-02", "x"),
        ("vision", "2.0e-06", "y"),
        ("router: random", "1.0e-05", ""),
        (f"router: {ONE_RANK}", "3.0e-02", ""),
    ]
    assert worst.to_json()["routers"] == {"random": 1e-5, ONE_RANK: 3e-2}


def test_the_largest_errors_of_all_loads_are_told_beside_those_of_routers():
    found = [VerificationResult(0.0, {"decoder": error}, DECODER) for error in (1e-5, 2e-5, 3e-2)]
    worst = VerificationResult.from_results(
        {"random": found[0]}, {"full": found[1], "late": found[2]}
    )
    assert not worst.ok
    assert worst.worst == {"decoder": 3e-2}
    assert worst.rows[2:] == [
        ("router: random", "1.0e-05", ""),
        ("load: full", "2.0e-05", ""),
        ("load: late", "3.0e-02", ""),
    ]
    assert worst.to_json()["loads"] == {"full": 2e-5, "late": 3e-2}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        OWN,
        OWN | {"schedule__kind": "zero_bubble"},
        OWN_LANES,
        STAGED | {"schedule__kind": "zero_bubble"},
        STAGED | {"schedule__kind": "zero_bubble", "train__lora": {"rank": 2}},
        {"train__lora": {"targets": ["*"], "rank": 2, "rank_stabilized": True}},
    ],
    ids=[
        "own",
        "own beside zero bubble",
        "own of buckets",
        "zero bubble",
        "adapters apart",
        "adapters",
    ],
)
def test_schedules_and_adapters_pass(small_config, changes):
    result = verify.verify_plans(small_config(**changes))
    assert result.ok, result


@pytest.mark.parametrize(
    ("exchange", "balance"),
    [
        pytest.param("reduce_scatter", "none", marks=pytest.mark.slow),
        pytest.param("reduce_scatter", "per_phase", marks=pytest.mark.slow),
        ("all_to_all", "per_phase"),
    ],
)
def test_a_wrong_exchange_fails(small_config, monkeypatch, exchange, balance):
    functions = {"gather": "gather_outputs", "reduce_scatter": "scatter_outputs"}
    name = functions.get(exchange, "route_outputs")
    right = getattr(merge, name)

    def wrong(outputs, **how):
        # Right on a single device, whose exchange is another.
        return right(outputs, **how) * 1.01

    monkeypatch.setattr(merge, name, wrong)
    config = small_config(
        model__encoders={"vision": VALUES["model"]["encoders"]["vision"]},
        parallel__encoders={"vision": {"data": 4}},
        data__budgets={"tokens": 64, "segments": 8, "vision": 64},
        data__balance=balance,
        parallel__exchange=exchange,
    )
    result = verify.verify_plans(config)
    assert not result.ok
    assert result.to_json()["ok"] is False


def test_the_shrunken_encoders_are_cut_like_those_of_the_experiment(small_config):
    plans = {
        "parallel__decoder": {"stage": 2},
        "parallel__encoders": {"vision": {"data": 2}, "audio": {"data": 2}},
    }
    config = small_config(
        **plans,
        parallel__devices=2,
        model__decoder__layers=2,
        model__encoders__vision__layers=12,
        model__encoders__audio__layers=6,
        train__accumulate=8,
    )
    cuts = configure_step(config).strategy.chunks
    assert max(cuts.values()) > 1
    assert configure_step(verify.shrink_experiment(config)).strategy.chunks == cuts


def test_the_shrunken_encoder_has_several_microbatches_for_one_of_the_decoder(small_config):
    config = small_config(**OWN)
    small = verify.shrink_experiment(config)
    units = [configure_step(own).workload.microbatch_counts["vision"] for own in (config, small)]
    assert min(units) > 1
    assert small.schedule.independent_budgets["vision"] < small.data.budgets["vision"]
    assert small.data.budgets["vision"] < config.data.budgets["vision"]


def test_the_shrunken_layers_repeat_like_those_of_the_experiment(small_config):
    config = small_config(
        parallel__decoder={"stage": 2},
        parallel__encoders={"vision": {"data": 2}, "audio": {"data": 2}},
        parallel__devices=2,
        schedule__pad_layers=True,
        model__decoder__layers=15,
        model__decoder__window=40,
        model__decoder__pattern=["window", "window", "full"],
        model__decoder__activation_penalty=0.5,
    )
    small = verify.shrink_experiment(config).model.decoder
    assert [kind.mask.window for kind in small.layer_kinds] == [3, 3, None]
    assert small.aux == {"activation": 0.5}
    assert small.layers == 9, "padded, in whole periods"


def test_a_shrunken_encoder_has_whole_periods_of_layers():
    class ThreeKinds(SiglipConfig):
        @property
        def layer_kinds(self):
            return super().layer_kinds * 3

    sizes = {"family": "siglip", "layers": 9, "d_model": 24, "heads": 4, "d_ff": 32}
    encoder = ThreeKinds(**sizes, patch=[4, 4], grid=[2, 2])
    plans = ParallelPlan(stage=2), ParallelPlan(fsdp=2, tensor=3)
    small = ThreeKinds.model_validate(encoder.shrink(plans, [2, 1]))
    assert small.layers == 12
    assert [need.is_met(plan) for plan in plans for need in small.requirements()] == [True] * 6


def test_not_a_number_is_not_ok():
    assert not VerificationResult(0.0, {"decoder": math.nan}, {"decoder": "x"}).ok
    assert not VerificationResult(math.nan, {"decoder": 0.0}, {"decoder": "x"}).ok
    assert VerificationResult(0.0, {"decoder": 1e-5}, {"decoder": "x"}).ok


def test_relative_error_of_real_and_of_vanishing_leaves():
    one = np.array([1.0, 2.0])
    assert relative_error(one, one) == 0
    assert relative_error(one * 1.1, one) == pytest.approx(0.1)
    assert relative_error(np.zeros(2), np.zeros(2)) == 0
    assert relative_error(np.ones(2), np.zeros(2)) == math.inf
    assert relative_error(np.array([0.0, math.nan]), np.ones(2)) == math.inf
    # Noise of a zero gradient beside leaves of size 1, and a small leaf that is no noise.
    assert relative_error(np.array([2e-9]), np.array([-1e-9]), largest=1.0) == pytest.approx(3e-9)
    assert relative_error(np.array([2e-5]), np.array([1e-5]), largest=1.0) == pytest.approx(1.0)
    assert leaf_errors({"a": one, "b": one}, {"a": one, "b": one * 2}) == {"a": 0.0, "b": 0.5}


@given(
    tensor=st.sampled_from([1, 2, 3, 4, 8]),
    fsdp=st.sampled_from([1, 2, 3]),
    vocab=st.integers(40, 60),
    kv_heads=st.sampled_from([1, 2, 3, 4, 6, 12]),
    decoder=st.sampled_from(["llama", "gpt"]),
    vision=st.sampled_from(["siglip", "clip", "vit22b"]),
)
def test_the_shrunken_model_can_be_split_by_every_plan(
    tensor, fsdp, vocab, kv_heads, decoder, vision
):
    """The vocabulary is padded and the heads are copied like those of the whole model."""
    devices = 2 * tensor * fsdp
    plans = {
        "decoder": ParallelPlan(data=2, fsdp=fsdp, tensor=tensor),
        "vision": ParallelPlan(fsdp=devices),
        "audio": ParallelPlan(data=2 * fsdp, tensor=tensor),
    }
    own = small_model(decoder, vision)
    grouped = {"heads": 24, "kv_heads": kv_heads} if decoder == "llama" else {}
    own = own.model_copy(
        update={"decoder": own.decoder.model_copy(update={"vocab": vocab, **grouped})}
    )
    model = shrink_model(own, plans, ScheduleConfig())
    new, old = model.decoder, own.decoder
    assert (new.vocab_size % tensor == 0) == (vocab % tensor == 0)
    if grouped:
        assert math.gcd(new.kv_heads, tensor) == math.gcd(old.kv_heads, tensor)
    assert new.heads % new.kv_heads == 0
    assert (new.heads == new.kv_heads) == (old.heads == old.kv_heads)
    for name, plan in plans.items():
        for need in model.requirements(name):
            assert need.is_met(plan), (name, need)


#: Plans, and how the outputs of two encoders of images meet; the second encoder has no stages.
TWO = {
    "apart": ({"parallel__decoder": {"fsdp": 2, "tensor": 2}}, "tokens"),
    "stages": ({"parallel__decoder": {"data": 2, "stage": 2}, "train__accumulate": 4}, "sum"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["apart", "stages"])
def test_two_encoders_of_images(small_config, case):
    changes, join = TWO[case]
    if "stage" in changes["parallel__decoder"]:
        changes = changes | {"model__decoder__layers": 2}
    other = {**VALUES["model"]["encoders"]["vision"], "family": "clip", "d_model": 32}
    config = small_config(
        model__encoders__other=other,
        parallel__encoders__other={"data": 2, "fsdp": 2},
        data__budgets__other=64,
        data__routes={"image": {"join": join}},
        **changes,
    )
    result = verify.verify_plans(config)
    assert result.ok, result
    assert set(result.worst) == {"decoder", "vision", "audio", "other"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_six_degrees_above_one_equal_one_device():
    """Experts under every kind of parallelism, on 64 emulated devices in a process of their own."""
    plan = "{data: 2, fsdp: 2, stage: 2, expert: 2, context: 2, tensor: 2}"
    vision = "{data: 32, stage: 2}"
    audio = "{data: 8, fsdp: 2, context: 2, tensor: 2}"
    process = launch(
        "verify",
        Path("configs/demo_experts.yaml"),
        "--json",
        "parallel.devices=64",
        f"parallel.decoder={plan}",
        f"parallel.encoders={{vision: {vision}, audio: {audio}}}",
        "data.rows=32",
        "schedule.pad_layers=true",
        "train.accumulate=2",
    )
    said, _ = process.communicate(timeout=850)
    result = json.loads(said)
    assert result["ok"], result
    assert set(result["worst"]) == {"decoder", "vision", "audio"}
    assert set(result["routers"]) == {"random", ONE_EXPERT, ONE_RANK}


def test_slices_of_some_devices_beside_whole_devices_pass(small_config):
    result = verify.verify_plans(small_config(parallel=ENCODERS_HALVED))
    assert result.ok, result


def test_the_groups_that_have_run_are_named() -> None:
    request: Any = SimpleNamespace(config=config(parallel=HALVED))
    result = SimpleNamespace(rows=[], ok=True, to_json=dict)
    assert answer_verification(result, request).lines == [
        "group text: decoder on 50% of devices 0 to 1",
        "group media: vision, audio on 50% of devices 0 to 1",
        "ok",
    ]
