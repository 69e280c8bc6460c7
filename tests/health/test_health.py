"""Self-checks find nothing where nothing is wrong, and every injected fault by its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh

from mllm_jax.health import devices, links, machine
from mllm_jax.health.check import list_checks, require_healthy, run_checks, should_check
from mllm_jax.health.finding import HealthError, HealthFinding, HealthReport, judge_findings
from mllm_jax.runtime.agreement import installed_versions
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.run_peers import PeerError, RunPeers, current_peers, set_peers
from tests.runtime.beside import Beside

#: Devices of the checks here.
COUNT = 4


def own() -> list[jax.Device]:
    return jax.devices()[:COUNT]


def steady(work: Callable[[], object]) -> float:
    """The seconds of any work, on a busy machine, too."""
    work()
    return 0.01


def written(file: Path, data: bytes) -> float:
    """The seconds in which any disk writes, beside other programs, too."""
    file.write_bytes(data)
    return 0.01


def faults(findings: Iterator[HealthFinding]) -> list[HealthFinding]:
    return [finding for finding in judge_findings(findings) if finding.fault]


@pytest.fixture
def beside() -> Iterator[Callable[..., RunPeers]]:
    """Lets this process be the first of two."""
    before = current_peers()

    def begin(part: RunPeers) -> RunPeers:
        set_peers(part)
        return part

    yield begin
    set_peers(before)


def test_nothing_is_found_where_nothing_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "time_best", steady)
    monkeypatch.setattr(machine, "_time_write", written)
    every = list_checks(tmp_path, own())
    every |= {
        "memory": lambda: devices.check_memory(own(), steady),
        "host to device": lambda: devices.check_host_transfer(own(), steady),
    }
    health = run_checks(every)
    assert health.ok, str(health)
    assert "nothing is wrong, by 8 checks" in str(health)
    places = {name: sum(found.check == name for found in health.findings) for name in every}
    once = dict.fromkeys(("packages", "clock", "disk", "loopback"), 1)
    assert places == {**once, "products": 4, "memory": 4, "host to device": 4, "neighbours": 8}
    assert HealthFinding.from_json(health.findings[0].to_json()) == health.findings[0]
    assert [*tmp_path.iterdir()] == []
    assert {own.processes for own in health.findings} == {(0,)}
    require_healthy(health)


@pytest.mark.parametrize("dtype", devices.TYPES)
def test_a_device_that_computes_one_bit_wrongly_is_named(dtype: str) -> None:
    def flipped(left: jax.Array, right: jax.Array) -> jax.Array:
        found = np.array(devices.multiply_matrices(left, right))
        if left.devices() == {own()[2]} and left.dtype == dtype:
            found.view(np.uint32)[7, 9] ^= 1
        return jnp.asarray(found)

    (found,) = faults(devices.check_products(own(), flipped))
    assert found.place.startswith("device 2 (cpu) of process 0")
    assert (
        f"1 of 65536 numbers of a product of {dtype} matrices are wrong, the first at [7, 9]"
        in found.fault
    )


def test_slow_memory_and_a_slow_way_to_a_device_are_found() -> None:
    calls = iter(range(100))

    def slow(work: Callable[[], object]) -> float:
        return steady(work) * (3 if next(calls) % COUNT == 1 else 1)

    for check in (devices.check_memory, devices.check_host_transfer):
        (found,) = faults(check(own(), slow))
        assert found.place.startswith("device 1 ")
        assert "/s, the median of all is " in found.fault


def test_memory_far_below_its_data_sheet_is_found_without_others() -> None:
    alone = HealthFinding("memory", "device 0", rate=1e12, sheet=3.35e12)
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
    (found,) = faults(devices.check_host_transfer(own(), steady))
    assert found.place.startswith("device 3 ")
    assert found.fault.startswith("1 of 4194304 numbers have changed")


def damaged(number: int) -> links.Run:
    """Runs programs whose results have a flipped bit on one device."""

    def received(shard: jax.Shard) -> jax.Array:
        part = np.array(shard.data)
        part[0, 11] ^= shard.device == own()[number]
        return jax.device_put(part, shard.device)

    def by(program: Callable[..., Any], x: jax.Array) -> jax.Array:
        done = links.run_until_ready(program, x)
        arrays = [received(shard) for shard in done.addressable_shards]
        return jax.make_array_from_single_device_arrays(done.shape, done.sharding, arrays)

    return by


def test_a_link_that_changes_a_bit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "time_best", lambda work: 0.01)
    (found,) = faults(links.check_loopback(own(), damaged(2)))
    assert found.fault.startswith(
        "a sum over the devices of the process is wrong on device 2 (cpu)"
    )
    found_, other = faults(links.check_neighbours(own(), damaged(2)))
    assert found_.place.startswith("link of device 1 to device 2 ")
    assert other.place.startswith("link of device 3 to device 2 ")
    assert "1 of 1048576 numbers have changed on the way" in other.fault


@pytest.mark.parametrize("times", [2.5, 5.0])
def test_a_slow_link_is_found_by_both_of_its_ends(
    times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of device 1 and device 2, in whatever order links have their turn."""

    def exchange(mesh: Mesh, size: int) -> Callable[..., Any]:
        slow = {device.id for device in mesh.devices.flat} == {1, 2}
        return partial(swapped, seconds=0.01 * times if slow else 0.01)

    monkeypatch.setattr(links, "_compile_exchange", exchange)
    monkeypatch.setattr(links, "time_best", lambda work: work.args[0].keywords["seconds"])
    found = faults(links.check_neighbours(own(), lambda program, x: program(x)))
    first, second = found
    assert first.rate == pytest.approx(links.EXCHANGES * 2**22 / (0.01 * times))
    assert first.place.startswith("link of device 2 to device 1 ")
    assert second.place.startswith("link of device 1 to device 2 ")
    assert "/s, the median of links within domains is " in first.fault


def swapped(x: jax.Array, seconds: float) -> jax.Array:
    """What two devices have exchanged."""
    return jax.device_put(np.asarray(x)[::-1], x.sharding)


@dataclass(frozen=True)
class Gpu:
    """A device as far as its links need it; JAX tells its host."""

    id: int
    process_index: int
    slice_index: int
    device_kind: str = "NVIDIA H100 80GB HBM3"


def gpus(hosts: int, each: int = 8, kind: str = Gpu.device_kind) -> list[Any]:
    return [Gpu(host * each + at, host, host, kind) for host in range(hosts) for at in range(each)]


def rated(devices: list[Any], rates: dict[str, float], **slow: float) -> list[HealthFinding]:
    """Findings of links of the same rate by what they are like, but for slow ones: `of_3=1e9`."""
    return [
        HealthFinding(
            "neighbours",
            f"{link.left}-{link.right}",
            rate=slow.get(f"of_{link.left}", rates[link.compared_with]),
            sheet=link.sheet,
            compared_with=link.compared_with,
        )
        for link in links.list_links(devices)
    ]


def test_links_between_hosts_are_slower_by_nature() -> None:
    usual = {"links within domains": 220e9, "links between hosts": 46e9}
    assert not faults(iter(rated(gpus(2), usual)))
    inside, between = faults(iter(rated(gpus(4), usual, of_3=90e9, of_7=20e9)))
    assert (inside.place, between.place) == ("3-4", "7-8")
    assert inside.fault == "90 GB/s, the median of links within domains is 220 GB/s"
    assert between.fault == "20 GB/s, the median of links between hosts is 46 GB/s"
    # Two of a kind, or all of them: the data sheet tells.
    (inside, *others) = faults(iter(rated(gpus(2), {**usual, "links between hosts": 1e9})))
    assert inside.fault == "1 GB/s, by its data sheet 50 GB/s"
    assert len(others) == 1
    pairs = links.list_links(gpus(2, kind="NVIDIA H100 PCIe"))
    kinds = ["links within domains", "links within hosts"] * 3 + ["links within domains"]
    assert [link.compared_with for link in pairs] == [*kinds, "links between hosts"] * 2


def test_a_link_is_of_the_processes_at_its_ends() -> None:
    """The one at fault is found by them, though one end alone tells of it."""
    three: Any = gpus(3, each=1)
    row = links._row_of(1, 8)[None] + np.uint32(1)
    shard = SimpleNamespace(device=three[2], data=row)
    done: Any = SimpleNamespace(addressable_shards=[shard])
    (found,) = links._received_findings(done, three, links.DeviceLink(1, 2, "x"), 1e9)
    assert found.fault == "8 of 8 numbers have changed on the way"
    assert found.processes == (1, 2)
    assert HealthReport((found, replace(found, processes=(0, 1)))).unfit_processes == {1}


def test_places_on_one_host_may_differ_more_than_accelerators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates = [
        HealthFinding("memory", f"device {at}", rate=own) for at, own in enumerate((1e9, 1e9, 3e8))
    ]
    assert run_checks({"memory": lambda: iter(rates)}).ok
    slower = [*rates[:2], replace(rates[2], rate=0.9e8)]
    assert not run_checks({"memory": lambda: iter(slower)}).ok
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    (found,) = run_checks({"memory": lambda: iter(rates)}).faults
    assert found.place == "device 2"


def test_work_takes_as_long_as_it_did_where_nothing_else_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter(np.cumsum([0, 3, 1, 2, 1, 5, *[1, 3] * (devices.REPEATS - 3)]).tolist())
    monkeypatch.setattr("mllm_jax.health.devices.time.perf_counter", lambda: next(now))
    assert devices.time_best(lambda: None) == 2


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30), st.booleans())
def test_every_device_meets_its_neighbours_in_few_turns(processes: list[int], near: bool) -> None:
    """With the devices of a process side by side (`near`) or not, no process waits for longer than
    twice the links of the busiest one."""
    processes = sorted(processes) if near else processes
    devices: Any = [Gpu(at, process, process) for at, process in enumerate(processes)]
    every = links.list_links(devices)
    turns = links.order_by_turn(every, devices)
    assert {link.left for link in turns} == {*range(len(every))}
    ends = [{devices[link.left].process_index, devices[link.right].process_index} for link in turns]
    done = dict.fromkeys(processes, 0)
    for own in ends:  # each waits for the links that its processes have before it
        done |= dict.fromkeys(own, 1 + max(done[process] for process in own))
    busiest = max(sum(process in own for own in ends) for process in done)
    assert max(done.values()) < 2 * busiest


def test_a_disk_that_is_full_slow_or_forgetful_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = faults(machine.check_disk(tmp_path / "gone"))
    assert found.fault == "cannot be written: No such file or directory"
    (found,) = list(machine.check_disk(tmp_path))
    assert not found.fault or "writes" in found.fault  # other work may be on the disk
    assert "/s, " in found.summary
    monkeypatch.setattr(
        machine, "_time_write", lambda file, data: (file.write_bytes(b"x"), 1e-3)[1]
    )
    (found,) = faults(machine.check_disk(tmp_path))
    assert found.fault == "what was written is not what is read"
    assert machine._fault_of_disk(1e6, 1e12, same=True).startswith(
        "writes 1 MB/s; checkpoints need"
    )
    assert machine._fault_of_disk(1e9, 2**20, same=True).startswith("1 MiB are free")


class Skewed(RunPeers):
    """One of several processes whose clocks are ahead by so many seconds."""

    def __init__(self, index: int, *ahead: float) -> None:
        super().__init__()
        self.index, self.count, self._ahead = index, len(ahead), ahead

    def gather_values(self, name: str, value: Any) -> list[Any]:
        return [value and value + other - self._ahead[self.index] for other in self._ahead]


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_clock_that_is_wrong_is_found(beside: Callable[[RunPeers], RunPeers], wrong: int) -> None:
    assert not faults(machine.check_clock())
    ahead = [90.0 if process == wrong else 0.0 for process in range(3)]
    found = []
    for process in range(3):
        beside(Skewed(process, *ahead))
        found += faults(machine.check_clock())
    (own,) = found
    assert own.place.startswith(f"process {wrong} (host ")
    assert own.fault == "its clock is +90.0 s from the median of all"


def test_of_two_clocks_that_differ_both_are_named(beside: Callable[[RunPeers], RunPeers]) -> None:
    for process in (0, 1):
        beside(Skewed(process, 0.0, 1.2))
        assert "0.6 s from the median of all" in faults(machine.check_clock())[0].fault


class Late(RunPeers):
    """Process 0 of three; what the others told in one round has come very late."""

    index, count = 0, 3

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def gather_values(self, name: str, value: Any) -> list[Any]:
        self.told.append(name)
        others = value and value - 90.0 * (name == "clocks, 1")
        return [value, others, others]


def test_clocks_are_looked_at_together_and_a_message_that_is_late_is_no_clock_that_is_wrong(
    beside: Callable[[RunPeers], RunPeers],
) -> None:
    own = Late()
    beside(own)

    def now() -> float:
        own.told.append("looks")
        return 1000.0

    (found,) = machine.check_clock(now)
    assert found.fault == ""
    assert own.told[:3] == ["clocks are looked at, 0", "looks", "clocks, 0"]
    assert own.told.count("looks") == machine.TIMES


class Third(RunPeers):
    """Process 2 of three; the others have another version of a package."""

    index, count = 2, 3

    def gather_values(self, name: str, value: Any) -> list[Any]:
        other = value | {"msgpack": "1.0.0"}
        return [other, other, value]


def test_a_package_in_another_version_is_found(beside: Callable[[RunPeers], RunPeers]) -> None:
    installed = installed_versions()
    assert installed["jax"] == jax.__version__
    beside(Beside())
    assert not faults(machine.check_packages())
    beside(Third())
    (found,) = faults(machine.check_packages())
    assert found.place.startswith("process 2 (host ")
    assert found.fault == f'has msgpack "{installed["msgpack"]}", the others "1.0.0"'


def test_faults_keep_training_from_beginning_and_say_whose_they_are(
    beside: Callable[[RunPeers], RunPeers],
) -> None:
    fault = HealthFinding("products", "device 3", fault="1 of 9 numbers are wrong", processes=(1,))
    sick = HealthReport((fault,), 1.0)
    with pytest.raises(PeerError, match="1 of 9 numbers are wrong"):
        require_healthy(sick)
    beside(Skewed(1, 0.0, 0.0))
    with pytest.raises(HealthError) as refused:
        require_healthy(sick)
    assert str(refused.value) == (
        "self-check: 1 fault\n  device 3: 1 of 9 numbers are wrong (products)\n"
        "  run.self_check: false trains nevertheless"
    )
    assert exit_code_of(refused.value) == ExitCode.UNFIT
    assert not sick.to_json()["ok"]


@pytest.mark.parametrize(
    ("faults", "unfit"),
    [
        ([(0, 1)], {1}),  # of a link alone it cannot be told which end is at fault
        ([(0, 1), (1, 2)], {1}),
        ([(0, 1), (0, 3)], {0}),
        ([(0, 1), (1, 2), (0,)], {0, 2}),
        ([(2,), (2,), (0,)], {0, 2}),
        ([], set()),
    ],
)
def test_as_few_processes_are_unfit_as_explain_all_faults(
    faults: list[tuple[int, ...]], unfit: set[int]
) -> None:
    found = [HealthFinding("x", "y", fault="z", processes=own) for own in faults]
    assert HealthReport((*found, HealthFinding("x", "y", processes=(5,)))).unfit_processes == unfit


def test_devices_of_cpus_are_checked_only_if_that_is_asked_for() -> None:
    assert [should_check("auto", name) for name in ("cpu", "gpu", "tpu")] == [False, True, True]
    assert should_check(True, "cpu")
    assert not should_check(False, "gpu")
