"""Compiling a train step for accelerators that are not here: what it says, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import yaml

import launch
from data.planning.stream import LoaderState
from mllm_jax.compile import target as ahead
from mllm_jax.compile.report import (
    GIB,
    TEMPORARIES,
    advise_on_memory,
    compile_for_target,
    parse_exhausted,
    temporary_bytes,
)
from mllm_jax.compile.target import (
    COMPILERS,
    CompileTarget,
    check_installed,
    configure_for_target,
    training_batch,
)
from mllm_jax.config.load import ConfigError, load_config
from mllm_jax.runtime.devices import DeviceError
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_train_step
from scheduling.costs.hardware import HardwareError
from tests.configs import ROOT, config, values
from tests.train.test_pipeline_run import MODEL, PIPELINED, Make

FROZEN: dict[str, Any] = {
    "train__accumulate": 4,
    "train__freeze": ["vision", "vision.connector", "audio", "audio.connector"],
}
#: Two stages of two tensor ranks with an encoder in the bubbles.
SMALL: dict[str, Any] = {
    "model__decoder": {
        "family": "llama",
        "layers": 2,
        "d_model": 256,
        "heads": 2,
        "d_ff": 512,
        "vocab": 512,
    },
    "model__encoders": {
        "vision": {
            "family": "siglip",
            "layers": 2,
            "d_model": 128,
            "heads": 2,
            "d_ff": 256,
            "patch": [16, 8],
            "channels": 1,
            "grid": [1, 8],
        }
    },
    "parallel__decoder": {"stage": 2, "tensor": 2},
    "parallel__encoders": {"vision": {"data": 2, "tensor": 2}},
    "data__rows": 1,
    "data__budgets": {"tokens": 256, "segments": 8, "vision": 256},
    "train__accumulate": 4,
    "evaluate": {"enabled": False},
}
#: The decoder alone: fewer kinds of fused tasks, each of which is compiled.
TEXT = SMALL | {
    "model__encoders": {},
    "parallel__encoders": {},
    "data__budgets": {"tokens": 256, "segments": 8},
    "parallel__overlap": "off",
}
TPU, GPU = CompileTarget.parse("tpu:v5p:2x2x1"), CompileTarget.parse("gpu:h100:1x4")


def assert_alike(one: Any, other: Any) -> None:
    """Assert that both have the same structure, shapes, types and layouts."""

    def alike(x: Any, y: Any) -> None:
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.sharding.is_equivalent_to(y.sharding, x.ndim)

    jax.tree.map(alike, one, other)


def on_devices(shapes: Any) -> Any:
    """Zeros of these shapes and layouts."""
    return jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype), x.sharding), shapes)


# ---- what is compiled ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "balance"),
    [
        pytest.param({}, "none", id="plain"),
        pytest.param({}, "per_phase", id="plain, balanced", marks=pytest.mark.slow),
        pytest.param(MODEL | PIPELINED, "none", id="pipelined", marks=pytest.mark.slow),
        pytest.param(MODEL | PIPELINED, "per_phase", id="pipelined, balanced"),
        pytest.param(MODEL | PIPELINED | FROZEN, "none", id="works ahead", marks=pytest.mark.slow),
        pytest.param(MODEL | PIPELINED | FROZEN, "per_phase", id="works ahead, balanced"),
    ],
)
def test_the_batch_is_what_training_makes(
    small_config: Make, changes: dict[str, Any], balance: str
) -> None:
    experiment = Experiment.build(small_config(**changes, data__balance=balance))
    config, step = experiment.config, experiment.joint_step
    with open_loader(experiment, LoaderState(0)) as loader:
        microbatches = [next(loader).batch for _ in range(config.train.accumulate)]
    made = place_microbatches(microbatches, step)
    expected = training_batch(config, step)
    assert (
        bool(expected.carried)
        == bool(step.program.prefetched_microbatches)
        == ("train__freeze" in changes)
    )
    assert bool(expected.routes) == (balance == "per_phase")
    assert_alike(expected.with_carried({}), made)
    if step.program.prefetched_microbatches:
        params = on_devices(step.abstract_state["params"])
        assert_alike(expected.carried, step.prime_batch(params, made).carried)
        _, scalars = jax.eval_shape(step.update, step.abstract_state, expected)
        sizes = [(x.shape, x.dtype) for x in jax.tree.leaves(expected.carried)]
        assert sizes == [(x.shape, x.dtype) for x in jax.tree.leaves(scalars["carried"])]


def test_the_step_is_that_of_training(small_config: Make) -> None:
    """The program that is lowered from shapes is the one that runs on arrays."""
    experiment = Experiment.build(small_config())
    step = experiment.joint_step
    with open_loader(experiment, LoaderState(0)) as loader:
        batch = place_microbatches([next(loader).batch], step)
    lowered = step.update.lower(step.abstract_state, training_batch(experiment.config, step))
    assert lowered.as_text() == step.update.lower(on_devices(step.abstract_state), batch).as_text()


# ---- what is refused -----------------------------------------------------------------------------


def test_topologies_are_read() -> None:
    target = CompileTarget.parse("tpu:v5p:4x4x4")
    assert (target.count, target.hardware.name, str(target)) == (64, "v5p", "tpu:v5p:4x4x4")
    assert CompileTarget.parse("gpu:h100:4x8") == CompileTarget("h100", (4, 8))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("v5p:4x4x4", "valid: tpu:CHIP:SIZES, e.g. tpu:v5p:4x4x4"),
        ("tpu:v5p", "is no topology"),
        ("tpu:v5p:4x0x4", "is no topology"),
        ("gpu:h100:4x8x", "is no topology"),
        ("tpu:h100:4x8", "h100 is a gpu, not a tpu"),
        ("gpu:h100:32", "valid: e.g. 4x8"),
        ("gpu:h100:2x16", "at most 8 devices in a host of h100"),
    ],
)
def test_impossible_topologies_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DeviceError, match=reason):
        CompileTarget.parse(text)


def test_unknown_chips_are_refused() -> None:
    with pytest.raises(HardwareError, match=r"'v9'.*v5p"):
        CompileTarget.parse("tpu:v9:4x4x4")


def test_plans_for_other_devices_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        configure_for_target(config(), CompileTarget.parse("tpu:v5p:4x4x4"))
    assert "parallel.devices: 4 is not 64, the product of 4 x 4 x 4" in str(caught.value)
    assert "a topology of 4 devices, or plans that multiply to 64" in str(caught.value)


def test_what_cannot_run_there_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model\.attention: splash cannot run .* it runs on tpu, not on gpu"
    ):
        configure_for_target(
            config(model__attention="splash", parallel__platform="tpu", **tall()), GPU
        )


def tall() -> dict[str, Any]:
    """Rows that a TPU's attention takes."""
    return {"data__budgets": {"tokens": 128, "segments": 8, "vision": 128, "audio": 256}}


def test_missing_compilers_are_told_with_their_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {
        platform: replace(compiler, module=f"no_such.{platform}")
        for platform, compiler in COMPILERS.items()
    }
    monkeypatch.setattr(ahead, "COMPILERS", missing)
    with pytest.raises(DeviceError) as caught:
        check_installed([TPU, GPU])
    message = str(caught.value)
    assert "compile (for tpu:v5p:2x2x1) and cuda13 (for gpu:h100:1x4)" in message
    assert "make install EXTRAS=compile,cuda13" in message
    with pytest.raises(DeviceError, match="EXTRAS=cuda13"):
        GPU.devices()


# ---- what is said --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 155.38G of "
        "95.74G hbm. Exceeded hbm capacity by 59.64G.",
        "Ran out of memory on HBM, the total memory required for HLO temporaries (155.38G) exceeds "
        "available HBM (95.74G).",
    ],
)
def test_what_a_tpu_lacks_is_read_off_its_compilers_message(text: str) -> None:
    needs, has = parse_exhausted(jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: {text}"))
    assert (needs, has) == (155.38 * GIB, 95.74 * GIB)


def test_a_tpus_temporaries_are_those_of_its_peak() -> None:
    found = SimpleNamespace(
        argument_size_in_bytes=1000,
        output_size_in_bytes=900,
        alias_size_in_bytes=880,
        temp_size_in_bytes=700,
        peak_memory_in_bytes=1500,
    )
    assert temporary_bytes(found, "tpu") == 1500 - 1000 - 20
    assert temporary_bytes(found, "gpu") == 700


def test_other_errors_of_the_compiler_are_not_swallowed() -> None:
    other = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem")
    with pytest.raises(jax.errors.JaxRuntimeError, match="vmem"):
        parse_exhausted(other)


def test_advice_names_changes_that_would_do() -> None:
    """120 GiB fit into 100 with an eighth of the temporaries, or with half of the state."""
    found = {"parameters": 20.0, "optimizer state": 40.0, TEMPORARIES: 26.0, "batch": 34.0}
    found = {kind: GIB * size for kind, size in found.items()}
    said = advise_on_memory(config(), found, 100 * GIB)
    assert "needs 120.0 GiB of 100.0 GiB, 20.0 GiB too much" in said
    assert "most of it is optimizer state, 40.0 GiB" in said
    assert "parallel.decoder.fsdp: 2 in place of data (now 1)" in said
    assert "model.remat: full (now layer)" in said
    assert "data.rows or data.budgets divided by 8" in said
    assert advise_on_memory(config(), found, 120 * GIB) == ""


def test_advice_does_not_promise_what_is_not_enough() -> None:
    found = {"parameters": 10.0, "optimizer state": 0.0, TEMPORARIES: 10.0, "batch": 100.0}
    found = {kind: GIB * size for kind, size in found.items()}
    said = advise_on_memory(config(), found, 50 * GIB)
    assert "fsdp" not in said
    assert "data.rows" not in said


# ---- compiled ------------------------------------------------------------------------------------


@pytest.mark.tpu_compile
def test_a_small_pipelined_step_is_compiled_for_a_tpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("libtpu")
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(values(**TEXT)))
    # JAX has started in this process.
    monkeypatch.setattr("mllm_jax.runtime.devices.start_devices", lambda parallel: None)
    words = ["compile", "--config", str(path), "--topology", str(TPU), "--json"]
    assert launch.main(words) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert result["fits"] is True
    assert result["bytes_per_device"] == sum(result["bytes_by_kind"].values())
    assert result["bytes_per_device"] < result["limit_bytes"] < 102e9
    # AdamW keeps two numbers for each of the parameters, and three counts of steps.
    kinds = result["bytes_by_kind"]
    # A TPU pads arrays to tiles of 8 x 128, which is little only where dimensions are large.
    assert 3 * kinds["parameters"] < result["predicted_bytes"] < result["bytes_per_device"]
    assert kinds["optimizer state"] == pytest.approx(2 * kinds["parameters"], abs=64)
    found = result["collectives"]
    assert {"all-gather", "reduce-scatter", "collective-permute"} <= set(found)
    for each in found.values():
        assert each["bytes"] > 0
        assert 0 <= each["overlapped_share"] <= 1
    assert result["compile_seconds"] > 0
    assert result["host_bytes"] > 2**28


@pytest.mark.tpu_compile
def test_a_step_that_does_not_fit_a_tpu_says_so() -> None:
    pytest.importorskip("libtpu")
    wide = {"layers": 8, "d_model": 16384, "heads": 128, "d_ff": 131072, "vocab": 512}
    report = compile_for_target(
        config(**TEXT | {"model__decoder": {"family": "llama"} | wide}), TPU
    )
    assert not report.fits
    # Eight layers of four matrices d x d and three d x d_ff, embedding and head, over four devices.
    d, d_ff = 16384, 131072
    count = 8 * (4 * d * d + 3 * d * d_ff + 2 * d) + 2 * 512 * d
    assert report.bytes["parameters"] == pytest.approx(count, rel=0.01)  # of four bytes
    assert report.total > report.limit
    assert "too much; most of it is" in report.advice
    assert report.to_json()["collectives"] == {}


@pytest.mark.slow
@pytest.mark.gpu_compile
def test_a_small_pipelined_step_is_compiled_for_a_gpu() -> None:
    pytest.importorskip("jax_plugins.xla_cuda13")
    report = compile_for_target(config(**SMALL), GPU)
    assert report.fits
    assert {"all-gather", "reduce-scatter", "collective-permute"} <= set(report.collectives)
    assert "fits gpu:h100:1x4" in report.summary


@pytest.mark.slow
@pytest.mark.gpu_compile
def test_a_recipe_is_compiled_for_the_gpus_it_names() -> None:
    """Triton has no tiling for one of the products, so cuBLAS must take it."""
    pytest.importorskip("jax_plugins.xla_cuda13")
    recipe = load_config(ROOT / "configs/recipes/onevision_8.yaml")
    report = compile_for_target(recipe, CompileTarget.parse("gpu:h100:1x8"))
    assert report.fits
    assert report.total == pytest.approx(report.predicted, rel=0.1)


@pytest.mark.tpu_compile
def test_auto_is_what_the_target_takes() -> None:
    """`auto` does not mean the choice of the CPU that compiles."""
    pytest.importorskip("libtpu")
    chosen = configure_for_target(config(**SMALL), TPU)
    step = build_train_step(chosen, TPU.devices())
    text = step.update.lower(step.abstract_state, training_batch(chosen, step)).as_text()
    assert "tpu_custom_call" in text
    assert "xbf16>" in text
