"""The share of a GPU's memory: processes take what plans count with."""

from __future__ import annotations

import os

import pytest

from mllm_jax.config.hardware import hardware_names, load_hardware
from mllm_jax.config.load import ParallelConfig
from mllm_jax.config.sections import ConfigError
from mllm_jax.plan.memory import device_room
from mllm_jax.runtime.devices import DevicesStartedError, start_devices
from mllm_jax.runtime.hardware.gpu_memory import VARIABLES, set_share, user_share
from scheduling.costs.hardware import GPU_SHARE, RESERVED

OURS, NEWER = VARIABLES


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_process_takes_at_least_what_plans_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    environment: dict[str, str] = {}
    set_share(environment)
    share = float(environment[OURS])
    assert f"JAX may take {share:g} of each GPU's memory" in caplog.text
    gpus = [own for own in map(load_hardware, hardware_names()) if own.platform == "gpu"]
    assert gpus
    for own in gpus:
        assert own.usable_memory <= share * own.memory
        assert own.usable_memory <= own.memory - RESERVED["gpu"]
    assert device_room(load_hardware("h100"))[0] == 80e9 - 2 * 2**30


@pytest.mark.parametrize("name", VARIABLES)
def test_a_share_that_the_user_sets_stays_and_plans_count_with_it(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "0.5")
    environment = {name: "0.5"}
    set_share(environment)
    assert environment == {name: "0.5"}
    assert f"{name} lets JAX take 0.5 of each GPU's memory, and `plan` counts" in caplog.text
    assert device_room(load_hardware("h100")) == (40e9, f", by {name}=0.5")
    assert device_room(load_hardware("v5p"))[1] == ""
    caplog.clear()
    set_share({name: f"{GPU_SHARE}"})
    assert not caplog.records


@pytest.mark.parametrize("text", ["0", "-0.1", "1.5", "most", "nan", "x" * 10_000])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"{OURS}=.*no share .* valid: above 0, up to 1") as told:
        user_share({OURS: text})
    assert len(str(told.value)) < 300
    with pytest.raises(ConfigError, match="both set; valid: one"):
        user_share({OURS: "0.5", NEWER: "0.5"})
    assert user_share({OURS: "", NEWER: "0.7"}) == (NEWER, 0.7)


def test_the_share_is_set_before_jax_looks_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:

    def begun(*_: object) -> None:
        raise DevicesStartedError("no devices are looked for here")

    monkeypatch.setattr("mllm_jax.runtime.devices._choose_platform", begun)
    for platform, expected in (("tpu", None), ("gpu", f"{GPU_SHARE:g}")):
        with pytest.raises(DevicesStartedError):
            start_devices(ParallelConfig(platform=platform, devices=1))
        assert os.environ.get(OURS) == expected
