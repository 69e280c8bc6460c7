"""The exchange that a run takes is told with what chose it, and beside what predictions count."""

from __future__ import annotations

import pytest

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.plan.exchanges import bucket_exchanges
from scheduling.costs.estimate import ModuleTiming
from tests.configs import ROOT

HARDWARE = "schedule.hardware=h100"


def config(*more: str) -> ExperimentConfig:
    return load_config(ROOT / "configs" / "demo_pipeline.yaml", [*more])


def test_without_hardware_bytes_choose_and_nothing_is_predicted() -> None:
    own = config()
    for found in bucket_exchanges(own):
        assert found.runs == configure_step(own).exchanges[found.bucket]
        assert (found.counted, found.hardware, found.seconds) == (None, None, {})
        assert str(found).endswith("by the bytes that it moves, as schedule.hardware is not given")


def test_a_run_and_its_prediction_agree_on_the_hardware_of_the_schedule() -> None:
    own = config(HARDWARE)
    found = bucket_exchanges(own)
    assert [each.bucket for each in found] == list(own.model.buckets)
    for each in found:
        assert each.runs == each.counted == min(each.seconds, key=lambda name: each.seconds[name])
        assert "this prediction uses" not in str(each)
        assert each.why == "the seconds on schedule.hardware h100"


def test_other_hardware_than_that_of_the_run_is_told_beside_it() -> None:
    own, hardware = config(), load_hardware("h100")
    for each in bucket_exchanges(own, hardware):
        assert each.runs == configure_step(own).exchanges[each.bucket] == "gather"
        assert each.counted == "all_to_all"
        assert "this prediction uses all_to_all, the fastest on h100" in str(each)
        # What is told is what the simulation counts.
        there = configure_step(own, hardware.platform)
        timing = ModuleTiming(there.workload, there.chosen, hardware, each.bucket)
        assert timing.exchange_seconds == each.seconds["all_to_all"]


@pytest.mark.parametrize("exchange", ["gather", "reduce_scatter"])
def test_the_exchange_that_is_asked_for_is_that_of_both(exchange: str) -> None:
    own = config(f"parallel.exchange={exchange}")
    for each in bucket_exchanges(own, load_hardware("h100")):
        assert (each.runs, each.counted, each.why) == (exchange, exchange, "parallel.exchange")
        assert each.to_json()["microbatch_seconds"][exchange] == each.seconds[each.runs]


def test_text_alone_has_no_exchange() -> None:
    own = config()
    model = own.model.with_others({})
    assert bucket_exchanges(own.model_copy(update={"model": model})) == ()
