"""Faults that need leave of the kernel, or the files of snapshots, and what nobody has told of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.faults.account import RunDifference
from benchmarks.faults.faults import FaultPlan, InjectedFault
from benchmarks.faults.host import names_process
from benchmarks.faults.hosts import EmulatedHosts
from benchmarks.faults.memory import choose_shards, list_shards
from benchmarks.faults.processes import stop_process
from benchmarks.faults.run import StruckFault
from benchmarks.faults.strike import FaultSite, inject_fault, is_ready
from benchmarks.faults.thread import hold_thread, probe_hold
from benchmarks.recovery import RunOutcome, _format_summary, _summarise_outcomes
from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardOrigin,
    shard_in,
)
from tests.timing import PATIENCE

#: A main thread that writes `!` every few milliseconds, and another one that writes `.`.
_TWO_THREADS = """
import faulthandler, os, signal, threading, time
faulthandler.register(signal.SIGUSR1, file=1)
def go(letter):
    while True:
        os.write(1, letter)
        time.sleep(0.005)
threading.Thread(target=go, args=(b".",), daemon=True).start()
go(b"!")
"""


@dataclass
class Threads:
    """A process with two threads that write."""

    process: subprocess.Popen[bytes]

    def until(self, letters: bytes) -> None:
        """Read until these have come."""
        said = b""
        while letters not in said:
            said += os.read(self._file, 1)

    def next(self, count: int) -> bytes:
        """The next letters, without those that have been written by now."""
        os.read(self._file, 2**16)
        return b"".join(os.read(self._file, 1) for _ in range(count))

    @property
    def _file(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()


@pytest.fixture
def threads() -> Iterator[Threads]:
    with subprocess.Popen([sys.executable, "-c", _TWO_THREADS], stdout=subprocess.PIPE) as own:
        found = Threads(own)
        found.until(b"!")
        yield found
        own.kill()


@pytest.mark.skipif(bool(probe_hold()), reason="no process may be traced")
def test_a_process_that_is_held_beats_on_tells_its_stacks_and_can_be_ended(
    threads: Threads,
) -> None:
    hold_thread(threads.process.pid)
    assert threads.next(20) == b"." * 20
    threads.process.send_signal(signal.SIGUSR1)
    threads.process.send_signal(signal.SIGCONT)
    threads.until(b"Thread 0x")
    threads.until(b"<module>")
    threads.until(b"." * 20)
    threads.process.kill()
    threads.process.wait(PATIENCE)
    with pytest.raises(ProcessLookupError):
        hold_thread(threads.process.pid)


def test_a_process_that_was_stopped_stands_with_all_its_threads(threads: Threads) -> None:
    pid = threads.process.pid
    stop_process(pid)
    states = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    assert [state.rpartition(")")[2].split()[0] for state in states] == ["T", "T"]
    threads.process.kill()
    threads.process.wait(PATIENCE)
    stop_process(pid)  # it has ended


class Apart(EmulatedHosts):
    """Hosts with shared memory of their own, without namespaces."""

    def shared_memory(self, host: int) -> Path:
        return self.folder / f"memory-{host}"


class Machine:
    """A host without any process."""

    def training_process(self) -> None:
        return None


RUN = Path("/disk/runs/run-1")


def kept(hosts: EmulatedHosts, host: int, origin: int, step: int, run: Path = RUN) -> Shard:
    """A share of 1 KiB in the memory of a host."""
    folder = hosts.shared_memory(host) / "mllm_jax-0" / f"{run.name}-0a"
    own = shard_in(folder, host, origin, step % 2)
    own.reserve_memory(1024)
    where = ShardOrigin(run="r", folder=str(run), series="s", step=step, process=origin)
    own.write_index(ShardIndex(origin=where, progress={}, config={}, leaves={}))
    return own


@pytest.fixture
def hosts(tmp_path: Path) -> Apart:
    return Apart(2, tmp_path)


def test_snapshots_of_a_process_are_found_on_all_hosts_and_none_of_another_run(
    hosts: Apart,
) -> None:
    older, newest = kept(hosts, 0, 0, 2), kept(hosts, 0, 0, 3)
    copy = kept(hosts, 1, 0, 3)
    kept(hosts, 1, 1, 3)
    kept(hosts, 0, 0, 5, RUN.with_name("run-11"))
    assert {own for own, _ in list_shards(hosts, RUN, 0)} == {newest, copy, older}
    assert choose_shards(hosts, RUN, 0, 0.1) == [newest]
    assert {*choose_shards(hosts, RUN, 0, 0.5)} == {newest, copy}
    assert {*choose_shards(hosts, RUN, 0, 0.9)} == {newest, copy, older}
    (older.folder / "index.json").unlink()  # as while it is written over
    assert {*choose_shards(hosts, RUN, 0, 0.9)} == {newest, copy}


@pytest.mark.parametrize("choice", [0.1, 0.1 + 1 / 1009])
def test_bytes_of_snapshots_are_changed(choice: float, hosts: Apart, tmp_path: Path) -> None:
    site = FaultSite(hosts, [Machine(), Machine()], tmp_path, RUN)  # type: ignore[list-item]
    fault = InjectedFault(1, "damage_snapshot", 0, 2, "step", 0.5, choice=choice)
    assert not is_ready(fault, site)
    own = kept(hosts, 0, 0, 3)
    assert is_ready(fault, site)
    undo, what = inject_fault(fault, site)
    assert undo is None
    assert str(own.folder) in what
    changed = (own.folder / "data").read_bytes() != bytes(1024)
    if not changed:
        with pytest.raises(ShardError):
            own.index()


def test_records_that_are_not_compared_are_damaged_too(hosts: Apart, tmp_path: Path) -> None:
    site = FaultSite(hosts, [Machine(), Machine()], tmp_path, RUN)  # type: ignore[list-item]
    times = tmp_path / "ranks.jsonl"
    assert times in site.files.values()
    times.write_bytes(bytes(256))
    (tmp_path / "metrics.jsonl").write_bytes(bytes(256))
    _, what = inject_fault(InjectedFault(1, "damage", 0, 2, "step", 0.5, choice=0.9), site)
    assert str(times) in what
    assert times.read_bytes() != bytes(256)
    assert (tmp_path / "metrics.jsonl").read_bytes() == bytes(256)


def told(kind: str, seconds: float | None) -> StruckFault:
    fault = InjectedFault(1, kind, 1, 2, "step", 0.5)
    return StruckFault(fault, "process 811", 12, seconds, named=seconds is not None)


def test_a_fault_that_ends_an_attempt_and_is_not_told_of_is_a_problem() -> None:
    whole = RunOutcome(FaultPlan(1, 2, ()), difference=RunDifference((), 0, 0))
    well = replace(whole, struck=[told("kill", 0.2), told("slow_rank", None)])
    assert well.problems == []
    bad = replace(whole, struck=[told("kill", 0.2), told("stop", None), told("cut", None)])
    (problem,) = bad.problems
    assert problem.startswith("not reported:    1  stop")
    found = _summarise_outcomes([well, bad])
    assert found["undetected"] == found["by_kind"]["stop"]["undetected"] == 1
    assert found["by_kind"]["kill"]["undetected"] == found["by_kind"]["stop"]["ridden_out"] == 0
    assert (found["ridden_out"], found["named"]) == (2, 2)
    assert found["detection_seconds"] == {"median": 0.2, "worst": 0.2}
    assert "1 undetected" in _format_summary(found)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("attempt 2: process 1 (host b, pid 97) is stuck: no process goes on since 30 s", True),
        ("attempt 2 has ended after 9 s: process 1 (host b, pid 97) was killed by SIGKILL", True),
        ("attempt 2 is the last: process 1 (host b, pid 97) ended with exit code 3", True),
        ("WARNING x: no heartbeat of the supervisor of process 1 for 30 s", True),
        ("the connection to the supervisor of process 1 is gone", True),
        (
            "attempt 2: all processes wait for each other since 30 s: process 0 (host a, pid 96): "
            "its last event: step 4, 31 s ago; process 1 (host b, pid 97): its last event: step 4",
            False,
        ),
        ("attempt 2: process 0 (host a, pid 96) is stuck; process 1 (host b, pid 97), too", False),
        ("attempt 2: process 11 (host b, pid 97) is stuck", False),
    ],
)
def test_a_fault_is_named_where_its_process_is_singled_out(text: str, named: bool) -> None:
    assert names_process(text, 1) is named
