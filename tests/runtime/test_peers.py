"""Processes that meet and watch each other; without JAX, so that many can be started."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.peers import PeerHub, join_peers
from mllm_jax.runtime.run_peers import PeerError
from mllm_jax.runtime.watch import PeerProcess, WatchLimits
from mllm_jax.runtime.wire import HostAddress, hold_port
from tests.configs import ROOT
from tests.timing import PATIENCE, soon

#: Seconds in which processes hear what others do, which they tell twice a second.
HEARD = 2.0
Process = subprocess.Popen[str]


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(processes: list[Process], address: str, actions: Sequence[str], **limits: float) -> None:
    for index, action in enumerate(actions):
        add(processes, index, len(actions), address, action, **limits)


def add(
    processes: list[Process],
    index: int,
    count: int,
    address: str,
    action: str = "none",
    seconds: float = PATIENCE,
    **limits: float,
) -> None:
    """Start a process, which waits so many seconds for the others.

    Args:
        limits: limits of its watch that are to be exceeded; others are far away.
    """
    words = [str(index), str(count), address, str(seconds), action, json.dumps(limits)]
    processes.append(
        subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.process", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def met(processes: list[Process]) -> None:
    """Wait until they are past meeting."""
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "met\n", process.communicate()
    time.sleep(HEARD)


def ends(process: Process, code: int, *words: str) -> str:
    """The standard error of a process, which must end with `code` and say `words`."""
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert "Traceback" not in err, err
    for word in words:
        assert word in err, err
    return err


def test_what_may_take_long_may_do_so_after_a_gather(processes, address):
    start(processes, address, ["evaluate", "evaluate"], stalled=4)
    for process in processes:
        ends(process, ExitCode.OK)


def test_three_processes_meet_gather_and_part(processes, address):
    # For longer than steps may take.
    start(processes, address, ["none", "none", "compile"], stalled=4)
    for process in processes:
        assert ends(process, ExitCode.OK) == ""


def test_a_process_that_differs_is_named_with_the_key(processes, address):
    start(processes, address, ["none", "none", "differ"])
    for process in processes:
        ends(process, ExitCode.BAD_INPUT, "process 2 has train.seed 7, the others 0")


@pytest.mark.parametrize("victim", [0, 1])
def test_the_others_name_a_process_that_is_killed_and_its_last_event(victim, processes, address):
    start(processes, address, ["steps", "steps", "steps"])
    met(processes)
    processes[victim].kill()
    for process in processes[:victim] + processes[victim + 1 :]:
        err = ends(process, ExitCode.LOST_PEER, f"process {victim} (host ", "is gone", "step ")
        assert f"pid {processes[victim].pid}" in err


@pytest.mark.parametrize("victim", [0, 1])
def test_the_others_name_a_process_that_is_stopped(victim, processes, address):
    start(processes, address, ["steps", "steps", "steps"], silent=3)
    met(processes)
    processes[victim].send_signal(signal.SIGSTOP)
    for process in processes[:victim] + processes[victim + 1 :]:
        ends(process, ExitCode.LOST_PEER, f"process {victim} (host ", "no heartbeat", "step ")
    processes[victim].send_signal(signal.SIGCONT)
    ends(processes[victim], ExitCode.LOST_PEER)


@pytest.mark.parametrize("before", ["none", "wait"])
def test_a_process_that_lives_and_goes_on_no_more_is_named(before, processes, address):
    # Process 0 waits for it since before: at the end, by a gather, or for a step, by JAX.
    start(processes, address, [before, "late"], stalled=4)
    for process in processes:
        ends(process, ExitCode.LOST_PEER, "process 1 (host ", "is stuck", "its last event: step 1")


@pytest.mark.parametrize("held", [0, 1])
def test_a_process_that_comes_not_out_of_a_wait_is_told_from_those_that_wait(
    held, processes, address
):
    """The last word of each is that it waits; the others are in a later wait."""
    actions = ["pass", "pass", "pass"]
    actions[held] = "held"
    start(processes, address, actions, stalled=4)
    for process in processes:
        said = ends(
            process, ExitCode.LOST_PEER, f"process {held} (host ", " is stuck: no process goes"
        )
        assert "others are beyond the wait that it is in" in said
        assert "waiting for the others (step 1)" in said
        assert f"process {1 - held} (host" not in said


def test_a_process_that_stops_on_its_way_into_a_wait_is_named(processes, address):
    start(processes, address, ["none", "unsent", "none"], stalled=4)
    for process in processes:
        said = ends(process, ExitCode.LOST_PEER, "process 1 (host ", "is stuck", "(all is done)")
        assert "process 0 (host" not in said


def test_a_process_that_takes_longer_than_anything_may_is_named(processes, address):
    start(processes, address, ["none", "endless"], longest=7)
    for process in processes:
        ends(
            process, ExitCode.LOST_PEER, "process 1 (host ", "takes longer", "last event: compiling"
        )


@pytest.mark.parametrize(
    ("how", "code", "others"),
    [("fail", ExitCode.BAD_DATA, ExitCode.BAD_DATA), ("unfit", ExitCode.UNFIT, ExitCode.LOST_PEER)],
)
def test_the_others_end_as_one_that_fails_and_say_why(how, code, others, processes, address):
    """What is wrong with one machine is not wrong with those of the others."""
    start(processes, address, ["steps", how, "steps"])
    ends(processes[1], code)
    for process in (processes[0], processes[2]):
        ends(process, others, "process 1 (host ", "ended: it is at its end")


def test_the_others_end_as_one_that_is_interrupted(processes, address):
    start(processes, address, ["steps", "steps"])
    met(processes)
    processes[1].send_signal(signal.SIGTERM)
    ends(processes[1], ExitCode.INTERRUPTED, "interrupted")
    ends(processes[0], ExitCode.INTERRUPTED, "process 1 (host ", "interrupted")


def test_who_finds_no_process_0_says_where_and_how_long_it_waited(processes, address):
    add(processes, 1, 2, address, seconds=1)
    ends(processes[0], ExitCode.LOST_PEER, address, "within 1 s", "process 1 of 2")


def test_process_0_names_those_that_do_not_come(processes, address):
    for index in (0, 2):
        add(processes, index, 4, address, seconds=8)
    for process in processes:
        ends(process, ExitCode.LOST_PEER, address, "processes 1, 3 of 4 did not come", "within 8 s")


def test_a_process_that_counts_others_is_named(processes, address):
    add(processes, 0, 2, address)
    add(processes, 1, 3, address)
    for process in processes:
        ends(process, ExitCode.BAD_INPUT, "process 1 (host ", "--processes 3, process 0 with 2")


def test_a_process_of_another_attempt_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("mllm_jax.runtime.peers.attempt_number", lambda: 4)
    first = PeerHub(0, 2, HostAddress("127.0.0.1", 1), WatchLimits())
    told = "process 1 (host b, pid 7) is of attempt 3, process 0 of attempt 4"
    assert first._mismatch_of(PeerProcess(1, "b", 7, heard=0.0), 2, 3) == told
    assert first._mismatch_of(PeerProcess(1, "b", 7, heard=0.0), 2, 4) == ""


def test_a_number_that_is_taken_is_refused_and_the_others_go_on(processes, address):
    for index in (0, 1):
        add(processes, index, 3, address)
    add(processes, 1, 3, address)
    soon(lambda: any(process.poll() is not None for process in processes))
    (late,) = (process for process in processes[1:] if process.poll() is not None)
    ends(late, ExitCode.BAD_INPUT, "--process 1 is there already")
    add(processes, 2, 3, address)
    for process in processes:
        if process is not late:
            ends(process, ExitCode.OK)


@pytest.mark.parametrize("host", ["named-after-debian", "localhost", "127.0.0.1"])
def test_process_0_warns_of_a_name_that_is_loopback(host, monkeypatch, caplog):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", free_port()))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    for index in (1, 0):
        with pytest.raises(PeerError, match="with the same --coordinator") as failure:
            join_peers(index, 2, HostAddress(host, found[0][4][1]), WatchLimits(), 0.1)
        hint = "named-after-debian is a loopback address here"
        assert (hint in str(failure.value)) == (host == "named-after-debian")
    warned = [record.message for record in caplog.records if hint in record.message]
    assert len(warned) == (host == "named-after-debian")


def test_a_held_port_is_given_to_nobody_but_who_shares_it():
    with hold_port("127.0.0.1") as held, socket.socket() as other, socket.socket() as sharing:
        with pytest.raises(OSError, match="already in use"):
            other.bind(held.getsockname())
        sharing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sharing.bind(held.getsockname())
        sharing.listen()
        for _ in range(8):
            with socket.create_connection(held.getsockname(), timeout=5):
                sharing.accept()[0].close()


def test_a_port_that_is_taken_and_an_address_of_elsewhere_are_told(processes):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        add(processes, 0, 2, f"127.0.0.1:{port}")
        add(processes, 1, 2, f"127.0.0.1:{port}", seconds=1)
        ends(processes[0], ExitCode.BAD_INPUT, f"127.0.0.1:{port}", "address already in use")
    add(processes, 0, 2, f"192.0.2.77:{port}")
    ends(processes[2], ExitCode.BAD_INPUT, "192.0.2.77", "cannot assign requested address")
