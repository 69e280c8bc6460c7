"""`bench accelerator` with tiny shapes on a CPU: it works, and tells what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import accelerator, accelerator_setting, emulated
from benchmarks.accelerator import bench_accelerator, on_devices
from benchmarks.accelerator_kernels import list_grouped_products
from benchmarks.accelerator_setting import SMALL_SIZES, MachineSetting
from benchmarks.cases import grouped
from benchmarks.cases.exchange import MergeCase
from benchmarks.cases.grouped import LIMIT
from benchmarks.findings import BenchmarkFindings, make_row
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from mllm_jax.layers.experts.grouped import grouped_product
from tests.configs import ROOT


def silent(line: object) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return load_config(ROOT / "configs" / "bench" / "accelerator.yaml")


@pytest.fixture(scope="module")
def setting(config: ExperimentConfig) -> MachineSetting:
    devices = jax.devices()[:1]
    return MachineSetting(on_devices(config, devices), devices, SMALL_SIZES, None, silent)


@pytest.mark.slow
def test_what_fails_is_told_and_the_rest_is_measured(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(
        setting: MachineSetting,
    ) -> Iterator[tuple[str, Callable[[], Iterator[dict[str, Any]]]]]:
        def measure() -> Iterator[dict[str, Any]]:
            yield make_row("", "before", 1.0)
            raise RuntimeError("no | such kernel\nwith a long story")

        yield "kernel", measure

    chosen = {name: accelerator.PARTS[name] for name in ("step", "exchange")}
    monkeypatch.setattr(accelerator, "PARTS", {"broken": broken, **chosen})
    found = bench_accelerator(config, silent, jax.devices()[:1])
    assert [each["what"] for each in found.rows if each["failed"]] == ["kernel"]
    assert not found.ok
    lines = found.markdown.splitlines()
    assert lines[4] == "| broken | kernel | - | - | - | FAILED: RuntimeError: no \\| such kernel |"
    assert lines[3].startswith("| broken | before | 1 |")
    assert {line.count("|") - line.count("\\|") for line in lines} == {7}
    measured = {each["what"]: each["measured"] for each in found.rows}
    # Of eight emulated devices one alone borrows the cores of the others: it may pass its peak.
    assert measured["train step, attention reference: MFU"] > 0
    assert measured["padded: error"] == 0


def test_only_the_named_parts_are_measured(config: ExperimentConfig) -> None:
    found = bench_accelerator(config, silent, jax.devices()[:1], parts=["exchange"])
    assert {each["part"] for each in found.rows} == {"device", "exchange"}
    with pytest.raises(ConfigError, match="no part 'kernels'; valid: products, step, cost_model"):
        bench_accelerator(config, silent, jax.devices()[:1], parts=["kernels"])


def test_what_is_measured_is_logged_before_an_interruption(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupted(
        setting: MachineSetting,
    ) -> Iterator[tuple[str, Callable[[], Iterator[dict[str, Any]]]]]:
        def measure() -> Iterator[dict[str, Any]]:
            yield make_row("", "before", 1.5, 2.0, "GB/s", "a note")
            raise KeyboardInterrupt

        yield "copy", measure

    monkeypatch.setattr(accelerator, "PARTS", {"products": interrupted})
    with caplog.at_level("INFO", accelerator.__name__), pytest.raises(KeyboardInterrupt):
        bench_accelerator(config, silent, jax.devices()[:1])
    device, measured = caplog.messages
    assert device.startswith("| device | ")
    assert measured == "| products | before | 1.5 | 2 | GB/s | a note |"


def test_products_by_groups_stand_beside_a_dense_one(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator, "PARTS", {"experts": list_grouped_products})
    seconds = {"grouped": 3.0, "ragged_dot": 8.0, "dense": 2.0}
    monkeypatch.setattr(
        accelerator_setting, "lower_quartiles", lambda runs, _: {way: seconds[way] for way in runs}
    )
    found = bench_accelerator(config, silent, jax.devices()[:1])
    assert found.ok, found.rows
    errors, beside = found.rows[1:3], {each["what"]: each for each in found.rows[3:]}
    assert [each["what"].split()[-1] for each in errors] == ["outputs", "gradients"]
    assert all(0 < each["measured"] < LIMIT for each in errors)
    assert {way: (own["measured"], own["reference"]) for way, own in beside.items()} == {
        "grouped": (3.0, 2.0),
        "ragged_dot": (8.0, 2.0),
    }
    assert "96 rows of 4 groups, 16 to 8; 1.5 times a dense product" in beside["grouped"]["note"]


def test_products_of_the_wrong_group_fail(
    setting: MachineSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(rows: jax.Array, kernels: jax.Array, counts: jax.Array) -> jax.Array:
        return grouped_product(rows, kernels[::-1], counts)

    monkeypatch.setattr(grouped, "grouped_product", wrong)
    measures = dict(list_grouped_products(setting))
    rows = list(measures["grouped product: errors"]())
    assert all(each["failed"] and "FAILED: above" in each["note"] for each in rows)


@pytest.mark.slow
def test_the_executor_of_a_single_stage_gives_the_gradients_of_the_plain_step(
    setting: MachineSetting,
) -> None:
    own = emulated.split_in_stages(setting.config, 1, emulated.STAGES)
    rows = list(emulated.gradient_errors(own))
    assert [name.split()[-2] for name, *_ in rows] == ["loss,", "decoder,", "vision,"]
    assert all(good for *_, good in rows), rows


@pytest.mark.slow
def test_a_pipeline_is_put_together_from_its_tasks(setting: MachineSetting) -> None:
    rows = list(emulated.emulated_rows(setting.config, setting.devices, setting.time_programs))
    emulations = [each for each in rows if each[0].startswith("4 stages")]
    assert len(emulations) == 3
    assert all(seconds > 0 for _, seconds, *_ in emulations)


def test_what_is_merged_wrongly_is_an_error() -> None:
    case = MergeCase(jax.devices()[:2], 2, 4, 8, 3, ragged=False)
    moved, gradient = case.compile_program()()
    assert case.largest_error((moved, gradient)) == 0
    assert case.largest_error((np.roll(moved, 1), gradient)) > 0
    assert case.largest_error((moved, np.roll(gradient, 1))) > 0


def test_a_table_without_failures_is_well() -> None:
    assert BenchmarkFindings([make_row("a", "b", None)]).ok
