"""Calibration: the file it writes is read again and simulated with; steps beside predictions."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks import cost as bench_cost
from mllm_jax.calibrate import measure as calibrate
from mllm_jax.config.hardware import load_hardware, read_hardware
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.layers.attention.limits import computed_pair_share
from mllm_jax.layers.config.kinds import MaskKind
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from scheduling.costs.hardware import HardwareError
from tests.configs import config


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of every program, on small matrices."""
    for module in (calibrate, bench_cost):
        monkeypatch.setattr(module, "REPETITIONS", 1)
    monkeypatch.setattr("mllm_jax.calibrate.probes.MATRIX", {True: 64})
    monkeypatch.setattr("mllm_jax.calibrate.probes.COPY_BYTES", {True: 2**16})
    monkeypatch.setattr("mllm_jax.calibrate.probes.COLLECTIVE_BYTES", (2**12, 2**16))


def text_only(**parallel: int) -> ExperimentConfig:
    """A decoder alone, on as many devices as its plan has."""
    count = int(np.prod(list(parallel.values())))
    return config(
        model__encoders={},
        model__decoder={"family": "llama", "layers": 2, "d_model": 16, "heads": 2, "d_ff": 32},
        parallel={"devices": count, "decoder": parallel, "encoders": {}},
        data__budgets={"tokens": 64, "segments": 8},
        train__accumulate=2,
    )


@pytest.mark.slow
def test_a_calibration_is_a_description_to_simulate_with(tmp_path: Path) -> None:
    told: list[str] = []
    own, path = text_only(data=2), tmp_path / "runs" / "mine.yaml"
    found = calibrate.calibrate_hardware(own, path, told.append)
    again = read_hardware(path)
    assert again == found.hardware
    assert (again.name, again.platform, again.kinds) == ("mine", "cpu", ())
    assert "Written by `launch.py calibrate`" in path.read_text()
    assert "network" in found.unfitted
    assert {row["what"].split(":")[0] for row in found.rows} == {
        "decoder",
        "optimizer",
        "gather of 1024 rows of 16",
        "gather of 256 rows of 16",
        "gather of 512 rows of 16",
        "all_gather",
        "reduce_scatter",
        "send",
    }
    assert all(row["measured"] > 0 and row["error"] > -1 for row in found.rows)
    assert simulate_step(own, load_hardware(str(path))).makespan > 0
    assert told


def test_a_file_of_another_kind_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"hardware\.json: .* ends in \.yaml or \.yml"):
        calibrate.calibrate_hardware(text_only(data=1), tmp_path / "hardware.json", lambda _: None)


def test_notes_name_what_was_kept_and_what_is_at_a_bound() -> None:
    bounds = {"link.latency": 0.0, "attention": 1.0}
    found = calibrate.HardwareCalibration(CPU, [], ("network",), bounds)
    assert found.notes == [
        "network: kept as it was; the times do not tell it",
        "link.latency: left at 0, its bound; the times ask for less",
        "attention: left at 1, its bound; the times ask for more",
    ]
    assert found.to_json()["bounds"] == bounds


def test_one_device_has_no_link_to_measure() -> None:
    domains = calibrate._split_domains(jax.devices()[:1], 1)
    assert domains.shape == (1, 1)
    assert calibrate._split_domains(jax.devices(), 4).shape == (2, 4)
    assert calibrate._split_domains(jax.devices()[:6], 4).shape == (1, 6)


#: What runs here; layers are traced with its kernels.
CPU = load_hardware("h100").model_copy(update={"name": "cpu", "platform": "cpu", "kinds": ()})


@pytest.mark.slow
def test_steps_stand_beside_their_predictions(tmp_path: Path) -> None:
    path = tmp_path / "cpu.yaml"
    calibrate.write_hardware(CPU, path)
    rows = bench_cost.bench_cost(text_only(data=2), lambda _: None, hardware=str(path))
    assert [row["what"] for row in rows[::2]] == [
        "one device: seconds",
        "data 2: seconds",
        "tensor 2: seconds",
        "stage 2: seconds",
    ]
    assert [row["devices"] for row in rows] == [1, 1, 2, 2, 2, 2, 2, 2]
    for row in rows:
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)


def test_a_step_on_one_device_alone_has_one_variant() -> None:
    assert list(bench_cost.list_variants(text_only(data=1), lambda _: None)) == ["one device"]


def test_plans_that_a_model_does_not_fit_are_left_out_and_told() -> None:
    told: list[str] = []
    found = bench_cost.list_variants(text_only(data=2, tensor=2), told.append)
    assert list(found) == ["configured", "one device", "data 4"]
    assert told[0].startswith("tensor 4: left out: parallel.decoder.tensor: 4")
    assert told[1].startswith("stage 4: left out: model.decoder.layers: 2 ")


def test_memory_of_a_step_is_what_its_parts_add_up_to() -> None:
    plain, piped = (predict_memory(own, CPU) for own in (text_only(data=2), text_only(stage=2)))
    assert plain.total == pytest.approx(sum(plain.by_kind.values()))
    # The layers are shared by the stages, and so is the vocabulary.
    assert piped.parameters < 0.6 * plain.parameters


@pytest.mark.parametrize(("tokens", "share"), [(32, 1.0), (64, 1.0), (128, 0.75), (1024, 0.5625)])
def test_causal_attention_leaves_out_blocks(tokens: int, share: float) -> None:
    assert computed_pair_share("reference", tokens, MaskKind()) == pytest.approx(share)


def test_a_window_leaves_out_what_is_before_it() -> None:
    # Eight blocks of 128 queries, with windows that begin 64 keys before each but the first.
    assert computed_pair_share("reference", 1024, MaskKind(window=65)) == pytest.approx(
        (128 + 7 * 192) / 8 / 1024
    )
    assert computed_pair_share("splash", 1024, MaskKind(window=65)) == pytest.approx(
        (128 + 7 * 256) / 8 / 1024
    )
    full = computed_pair_share("cudnn", 1024, MaskKind())
    assert computed_pair_share("cudnn", 1024, MaskKind(window=65)) == full
    full = computed_pair_share("splash", 1024, MaskKind())
    assert computed_pair_share("splash", 1024, MaskKind(window=1024)) == full


def test_chunks_and_spans_leave_out_what_a_backend_can_skip() -> None:
    """Those that read ids skip other chunks; the reference sees spans after its blocks."""
    chunks, spans = MaskKind(chunk=256), MaskKind(spans=True)
    # Of every chunk of two blocks the first block sees itself, and the second both.
    assert computed_pair_share("pallas_gpu", 1024, chunks) == pytest.approx(1.5 * 128 / 1024)
    assert computed_pair_share("reference", 1024, chunks) == computed_pair_share(
        "reference", 1024, MaskKind()
    )
    windows = MaskKind(causal=False, bounds="window_ids")
    assert computed_pair_share("pallas_gpu", 1024, windows, 128) == pytest.approx(1 / 8)
    assert computed_pair_share("cudnn", 1024, windows, 128) == 1
    assert [computed_pair_share(name, 1024, spans) for name in ("reference", "cudnn")] == [1, 1]
    assert computed_pair_share("pallas_gpu", 1024, spans) == computed_pair_share(
        "pallas_gpu", 1024, MaskKind()
    )
    # The reference sees a window on both sides.
    both = computed_pair_share("reference", 1024, MaskKind(window=65, spans=True))
    assert both == pytest.approx((2 * 192 + 6 * 256) / 8 / 1024)


def test_flash_attention_leaves_out_nearly_half() -> None:
    assert computed_pair_share("pallas_gpu", 4096, MaskKind()) == pytest.approx(0.5, abs=0.02)
