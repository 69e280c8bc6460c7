"""Self-checks find nothing where nothing is wrong, and every injected fault by its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.health import devices, links, machine
from mllm_jax.health.check import checks, examine, insist, wanted
from mllm_jax.health.finding import Finding, Health, HealthError, judged
from mllm_jax.runtime.exits import Exit, code_of
from mllm_jax.runtime.part import Peers, peers, take_part
from tests.runtime.beside import Beside

#: Devices of the checks here.
COUNT = 4


def own() -> list[jax.Device]:
    return jax.devices()[:COUNT]


def steady(work: Callable[[], object]) -> float:
    """The seconds of any work, on a busy machine, too."""
    work()
    return 0.01


def faults(findings: Iterator[Finding]) -> list[Finding]:
    return [finding for finding in judged(findings) if finding.fault]


@pytest.fixture
def beside() -> Iterator[Callable[..., Peers]]:
    """Lets this process be the first of two."""
    before = peers()

    def begin(part: Peers) -> Peers:
        take_part(part)
        return part

    yield begin
    take_part(before)


def test_nothing_is_found_where_nothing_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "timed", steady)
    every = checks(tmp_path, own())
    every |= {
        "memory": lambda: devices.memory(own(), steady),
        "host to device": lambda: devices.from_host(own(), steady),
    }
    health = examine(every)
    assert health.ok, str(health)
    assert "nothing is wrong, by 8 checks" in str(health)
    places = {name: sum(found.check == name for found in health.findings) for name in every}
    once = dict.fromkeys(("packages", "clock", "disk", "loopback"), 1)
    assert places == {**once, "products": 4, "memory": 4, "host to device": 4, "neighbours": 8}
    assert Finding.from_json(health.findings[0].to_json()) == health.findings[0]
    assert [*tmp_path.iterdir()] == []
    insist(health)


@pytest.mark.parametrize("dtype", devices.TYPES)
def test_a_device_that_computes_one_bit_wrongly_is_named(dtype: str) -> None:
    def flipped(left: jax.Array, right: jax.Array) -> jax.Array:
        found = np.array(devices.multiply(left, right))
        if left.devices() == {own()[2]} and left.dtype == dtype:
            found.view(np.uint32)[7, 9] ^= 1
        return jnp.asarray(found)

    (found,) = faults(devices.products(own(), flipped))
    assert found.place.startswith("device 2 (cpu) of process 0")
    assert (
        f"1 of 65536 numbers of a product of {dtype} matrices are wrong, the first at [7, 9]"
        in found.fault
    )


def test_slow_memory_and_a_slow_way_to_a_device_are_found() -> None:
    calls = iter(range(100))

    def slow(work: Callable[[], object]) -> float:
        return steady(work) * (3 if next(calls) % COUNT == 1 else 1)

    for check in (devices.memory, devices.from_host):
        (found,) = faults(check(own(), slow))
        assert found.place.startswith("device 1 ")
        assert "/s, the median of all is " in found.fault


def test_memory_far_below_its_data_sheet_is_found_without_others() -> None:
    alone = Finding("memory", "device 0", rate=1e12, sheet=3.35e12)
    (found,) = faults(iter([alone]))
    assert found.fault == "1 TB/s, by its data sheet 3.35 TB/s"
    assert not faults(iter([replace(alone, rate=2.8e12)]))


def test_numbers_that_change_on_the_way_to_a_device_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = jax.device_put

    def damaged(x: Any, device: Any) -> Any:
        if device == own()[3]:
            x = x.copy()
            x[5] ^= 1 << 30
        return put(x, device)

    monkeypatch.setattr(jax, "device_put", damaged)
    (found,) = faults(devices.from_host(own(), steady))
    assert found.place.startswith("device 3 ")
    assert found.fault.startswith("1 of 4194304 numbers have changed")


def damaged(number: int) -> links.Run:
    """Runs programs whose results have a flipped bit on one device."""

    def by(program: Callable[..., Any], x: jax.Array) -> jax.Array:
        done = links.run(program, x)
        parts = [np.array(shard.data) for shard in done.addressable_shards]
        parts[number][0, 11] ^= 1
        arrays = [
            jax.device_put(part, shard.device)
            for part, shard in zip(parts, done.addressable_shards, strict=True)
        ]
        return jax.make_array_from_single_device_arrays(done.shape, done.sharding, arrays)

    return by


def test_a_link_that_changes_a_bit_is_named() -> None:
    (found,) = faults(links.loopback(own(), damaged(2)))
    assert found.fault.startswith(
        "a sum over the devices of the process is wrong on device 2 (cpu)"
    )
    found_, other = faults(links.neighbours(own(), damaged(2)))
    assert found_.place.startswith("link of device 3 to device 2 ")
    assert other.place.startswith("link of device 1 to device 2 ")
    assert "1 of 1048576 numbers have changed on the way" in other.fault


def test_a_slow_link_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.01, 0.05])
    monkeypatch.setattr(links, "timed", lambda work: next(seconds))
    rates = [own.rate for own in links.neighbours(own())]
    assert rates[:4] == pytest.approx([5 * rate for rate in rates[4:] if rate])
    fast = [Finding("neighbours", f"link {at}", rate=10e9) for at in range(4)]
    (found,) = faults(iter([*fast, Finding("neighbours", "link 4", rate=1e9)]))
    assert (found.place, found.fault) == ("link 4", "1 GB/s, the median of all is 10 GB/s")


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8])
def test_neighbours_of_all_are_met_in_two_rounds(count: int) -> None:
    met = set()
    for first in (0, 1):
        partner = links._partners(count, first)
        assert [partner[own] for own in partner] == [*range(count)]
        met |= {frozenset((at, other)) for at, other in enumerate(partner) if at != other}
    chain = {frozenset((at, at + 1)) for at in range(count - 1)}
    assert met >= chain


def test_a_disk_that_is_full_slow_or_forgetful_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = faults(machine.disk(tmp_path / "gone"))
    assert found.fault == "cannot be written: No such file or directory"
    (found,) = list(machine.disk(tmp_path))
    assert not found.fault or "writes" in found.fault  # other work may be on the disk
    assert "/s, " in found.told
    monkeypatch.setattr(machine, "_written", lambda file, data: (file.write_bytes(b"x"), 1e-3)[1])
    (found,) = faults(machine.disk(tmp_path))
    assert found.fault == "what was written is not what is read"
    assert machine._fault_of_disk(1e6, 1e12, same=True).startswith(
        "writes 1 MB/s; checkpoints need"
    )
    assert machine._fault_of_disk(1e9, 2**20, same=True).startswith("1 MiB are free")


class Skewed(Peers):
    """Process 1 of two, whose clock is ahead by 90 s."""

    index, count = 1, 2

    def gather(self, name: str, value: Any) -> list[Any]:
        return [None if value is None else value - 90.0, value]


def test_a_clock_that_is_wrong_is_found(beside: Callable[[Peers], Peers]) -> None:
    assert not faults(machine.clock())
    beside(Skewed())
    (found,) = faults(machine.clock(time.time))
    assert found.place.startswith("process 1 (host ")
    assert found.fault == "its clock is +90.0 s from that of process 0"


class Third(Peers):
    """Process 2 of three; the others have another version of a package."""

    index, count = 2, 3

    def gather(self, name: str, value: Any) -> list[Any]:
        other = value | {"msgpack": "1.0.0"}
        return [other, other, value]


def test_a_package_in_another_version_is_found(beside: Callable[[Peers], Peers]) -> None:
    installed = machine.versions()
    assert installed["jax"] == jax.__version__
    beside(Beside())
    assert not faults(machine.packages())
    beside(Third())
    (found,) = faults(machine.packages())
    assert found.place.startswith("process 2 (host ")
    assert found.fault == f'has msgpack "{installed["msgpack"]}", the others "1.0.0"'


def test_faults_keep_training_from_beginning_and_are_bad_input() -> None:
    sick = Health((Finding("products", "device 3", fault="1 of 9 numbers are wrong"),), 1.0)
    with pytest.raises(HealthError) as refused:
        insist(sick)
    assert str(refused.value) == (
        "self-check: 1 fault\n  device 3: 1 of 9 numbers are wrong (products)\n"
        "  run.self_check: false trains nevertheless"
    )
    assert code_of(refused.value) == Exit.BAD_INPUT
    assert not sick.to_json()["ok"]


def test_devices_of_cpus_are_checked_only_if_that_is_asked_for() -> None:
    assert [wanted("auto", name) for name in ("cpu", "gpu", "tpu")] == [False, True, True]
    assert wanted(True, "cpu")
    assert not wanted(False, "gpu")
