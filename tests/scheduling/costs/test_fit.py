"""Fitting constants: known ones are found again, impossible inputs are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.config.hardware import load_hardware
from scheduling.costs.fit import MeasuredTime, fit_efficiency, fit_link, fit_rows
from scheduling.costs.hardware import Hardware, HardwareError

#: Linear and quadratic FLOPs, bytes and layers of tasks that tell all terms apart.
TASKS = [
    (1e12, 1e11, 1e9, 2),
    (2e12, 8e11, 2e9, 2),
    (5e11, 1e10, 6e8, 8),
    (0.0, 0.0, 3e9, 0),
    (4e12, 1e10, 4e9, 1),
    (1e11, 4e11, 3e8, 4),
]
SIZES = (1e5, 1e6, 1e7, 1e8)
H100 = load_hardware("h100")

fractions = st.floats(0.05, 0.95)


def with_efficiency(hardware: Hardware, **values: float) -> Hardware:
    efficiency = hardware.efficiency.model_copy(update=values)
    return hardware.model_copy(update={"efficiency": efficiency})


def task(linear: float, quadratic: float, moved: float, layers: int) -> Callable[..., float]:
    def seconds(hardware: Hardware) -> float:
        own, peak = hardware.efficiency, hardware.peak_flops("bfloat16")
        products = linear / own.matmul + quadratic / own.attention
        moving = moved / hardware.memory_bandwidth / own.memory
        return products / peak + moving + layers * own.layer_seconds

    return seconds


def timed(
    true: Hardware, tasks: list[tuple[float, float, float, int]] = TASKS
) -> list[MeasuredTime]:
    predictions = [task(*sizes) for sizes in tasks]
    return [MeasuredTime(f"task {i}", each(true), each) for i, each in enumerate(predictions)]


def collectives(true: Hardware, devices: int = 8) -> list[MeasuredTime]:
    def gather(size: float) -> Callable[[Hardware], float]:
        return lambda hardware: hardware.group_seconds(size, devices, devices)

    return [MeasuredTime(f"{size:g} bytes", gather(size)(true), gather(size)) for size in SIZES]


def gathers(true: Hardware) -> list[MeasuredTime]:
    def gather(size: float) -> Callable[[Hardware], float]:
        return lambda hardware: size / hardware.gather_bandwidth

    return [MeasuredTime(f"{size:g} bytes", gather(size)(true), gather(size)) for size in SIZES]


@given(fractions)
def test_the_speed_of_gathers_is_found_again(rows: float) -> None:
    assert H100.gather_bandwidth == H100.memory_bandwidth * H100.efficiency.memory
    found = fit_rows(gathers(with_efficiency(H100, rows=rows)), H100)
    assert found.hardware.efficiency.rows == pytest.approx(rows)
    assert with_efficiency(found.hardware, rows=rows) == with_efficiency(H100, rows=rows)
    assert (found.bounds, found.undetermined) == ({}, ())


def test_gathers_are_at_most_as_fast_as_the_memory() -> None:
    found = fit_rows(gathers(with_efficiency(H100, rows=1.5)), H100)
    assert found.hardware == with_efficiency(H100, rows=1.0)
    assert found.bounds == {"rows": 1.0}


@given(fractions, fractions, fractions, st.floats(0, 1e-3))
def test_known_constants_are_found_again(
    matmul: float, attention: float, memory: float, layer: float
) -> None:
    values = {"matmul": matmul, "attention": attention, "memory": memory, "layer_seconds": layer}
    found = fit_efficiency(timed(with_efficiency(H100, **values)), H100, raise_peaks=False)
    assert found.undetermined == ()
    for name, value in values.items():
        assert getattr(found.hardware.efficiency, name) == pytest.approx(value, rel=1e-3, abs=1e-7)


def test_one_slow_moment_changes_little() -> None:
    true = with_efficiency(H100, matmul=0.5, attention=0.3, memory=0.7, layer_seconds=1e-5)
    twice = timed(true) * 3
    twice[2] = MeasuredTime("slow", 3 * twice[2].seconds, twice[2].predict)
    found = fit_efficiency(twice, H100, raise_peaks=False).hardware.efficiency
    assert found.matmul == pytest.approx(0.5, rel=0.05)
    assert found.memory == pytest.approx(0.7, rel=0.05)


def test_peaks_that_were_measured_too_low_are_raised() -> None:
    true = with_efficiency(H100, matmul=0.5, attention=0.25, memory=0.8)
    low = H100.model_copy(
        update={"flops": {"bfloat16": 0.25 * H100.peak_flops("bfloat16")}, "memory_bandwidth": 1e12}
    )
    found = fit_efficiency(timed(true), low, raise_peaks=True).hardware
    assert (found.efficiency.matmul, found.efficiency.memory) == (1.0, 1.0)
    assert found.efficiency.attention == pytest.approx(0.5, rel=1e-3)
    for each in timed(true):
        assert each.predict(found) == pytest.approx(each.seconds, rel=1e-3)


def test_given_peaks_are_never_exceeded() -> None:
    fast = with_efficiency(H100, matmul=1.5, attention=0.3, memory=0.7)
    found = fit_efficiency(timed(fast), H100, raise_peaks=False).hardware
    assert found.efficiency.matmul == pytest.approx(1.0)
    assert found.flops == H100.flops


def test_constants_at_their_bounds_are_named() -> None:
    fast = with_efficiency(H100, matmul=1.5, attention=0.3, memory=0.7, layer_seconds=1e-5)
    assert fit_efficiency(timed(fast), H100, raise_peaks=False).bounds["matmul"] == 1.0
    assert fit_efficiency(timed(fast), H100, raise_peaks=True).bounds == {}
    # Faster the more layers a task has.
    prompt = [
        MeasuredTime(own.name, own.seconds * 0.95 ** sizes[-1], own.predict)
        for own, sizes in zip(timed(H100), TASKS, strict=True)
    ]
    found = fit_efficiency(prompt, H100, raise_peaks=False)
    assert found.bounds == {"layer_seconds": 0.0}
    assert found.hardware.efficiency.layer_seconds == pytest.approx(0, abs=1e-9)


def test_links_at_their_bounds_are_named() -> None:
    link = H100.link.model_copy(update={"latency": 0.0, "bandwidth": 2 * H100.link.bandwidth})
    fast = with_efficiency(H100.model_copy(update={"link": link}), link=1.0)
    found = fit_link(collectives(fast), H100, "link", raise_peaks=False)
    assert found.bounds == {"link.bandwidth": H100.link.bandwidth, "link.latency": 0.0}
    raised = fit_link(collectives(fast), H100, "link", raise_peaks=True)
    assert raised.bounds == {"link.latency": 0.0}
    usual = fit_link(collectives(H100), H100, "link", raise_peaks=False)
    assert usual.bounds == {}


def test_a_term_that_no_time_has_keeps_its_value() -> None:
    true = with_efficiency(H100, matmul=0.5, memory=0.7)
    tasks = [(linear, 0.0, moved, layers) for linear, _, moved, layers in TASKS]
    found = fit_efficiency(timed(true, tasks), H100, raise_peaks=False)
    assert found.undetermined == ("attention",)
    assert found.hardware.efficiency.attention == H100.efficiency.attention
    assert found.hardware.efficiency.matmul == pytest.approx(0.5, rel=1e-3)


def test_terms_that_grow_alike_are_not_told_apart() -> None:
    true = with_efficiency(H100, matmul=0.5)
    tasks = [(linear, quadratic, linear / 500, n) for linear, quadratic, _, n in TASKS if linear]
    found = fit_efficiency(timed(true, tasks), H100, raise_peaks=False)
    assert found.undetermined == ("memory",)
    assert found.hardware.efficiency.matmul == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("raise_peaks", [False, True])
def test_latency_and_bandwidth_are_found_again(raise_peaks: bool) -> None:
    link = H100.link.model_copy(update={"latency": 2e-5})
    true = with_efficiency(H100.model_copy(update={"link": link}), link=0.4)
    found = fit_link(collectives(true), H100, "link", raise_peaks=raise_peaks).hardware
    assert found.link.latency == pytest.approx(2e-5, rel=1e-3)
    assert found.reached_link.bandwidth == pytest.approx(true.reached_link.bandwidth, rel=1e-3)
    assert found.efficiency.link == pytest.approx(1.0 if raise_peaks else 0.4, rel=1e-3)


def test_latencies_alone_leave_the_bandwidth() -> None:
    free = H100.model_copy(
        update={"link": H100.link.model_copy(update={"bandwidth": 1e30, "latency": 1e-4})}
    )
    found = fit_link(collectives(free), H100, "link", raise_peaks=True)
    assert found.undetermined == ("link.bandwidth",)
    assert found.hardware.reached_link.bandwidth == pytest.approx(H100.reached_link.bandwidth)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_times_that_cannot_be_are_refused(seconds: float) -> None:
    with pytest.raises(HardwareError, match=r"layers: .* valid: finite and above 0"):
        MeasuredTime("layers", seconds, task(*TASKS[0]))


def test_too_few_times_are_refused() -> None:
    with pytest.raises(HardwareError, match=r"3 measured times cannot distinguish 4 constants"):
        fit_efficiency(timed(H100)[:3], H100, raise_peaks=False)
    with pytest.raises(HardwareError, match=r"1 measured times cannot distinguish 2 constants"):
        fit_link(collectives(H100)[:1], H100, "link", raise_peaks=False)
