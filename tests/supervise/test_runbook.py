"""Every message of the runbook about processes, hosts, machines and losses is really said."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import signal
import socket
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mllm_jax.health import check
from mllm_jax.health.devices import describe_wrong_bits
from mllm_jax.health.finding import HealthFinding, HealthReport, judge_findings
from mllm_jax.health.machine import fault_of_clock
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.peers import PeerHub
from mllm_jax.runtime.records import record_line
from mllm_jax.runtime.run_peers import JoinError
from mllm_jax.runtime.watch import LIMITS, PeerProcess, WatchLimits, find_fault
from mllm_jax.runtime.wire import HostAddress
from mllm_jax.supervise import child, start
from mllm_jax.supervise.agent import ProcessAgent, SupervisedRun
from mllm_jax.supervise.attempts import WatchedAttempt, read_attempts
from mllm_jax.supervise.child import ChildProcess
from mllm_jax.supervise.coordinator import UNENDING, RunCoordinator
from mllm_jax.supervise.coordinator_events import (
    BeginAttempt,
    CoordinatorAction,
    FinishRun,
    HeartbeatReceived,
    LeaderInterrupted,
    LeaveRun,
    LogLine,
    ProcessEnded,
    SupervisorJoined,
    SupervisorLeft,
)
from mllm_jax.supervise.ends import ProcessEnd
from mllm_jax.supervise.follower import FollowerSupervisor
from mllm_jax.supervise.leader import LeaderSupervisor, OtherSupervisor, _write_record
from mllm_jax.supervise.messages import LeaderAlive, SupervisorHello
from mllm_jax.supervise.pace import KNOWN, EventPace
from mllm_jax.supervise.plans import FallbackPlans, FallbackSearch
from mllm_jax.supervise.policy import RestartPolicy
from mllm_jax.supervise.supervisor import LeadState, SupervisorConfig
from mllm_jax.train.components.guard import DivergedError
from mllm_jax.train.components.replica_check import (
    CorruptionError,
    ReplicaDifference,
    check_replicas,
)
from mllm_jax.train.listeners.stragglers.compare import TimeComparison
from mllm_jax.train.listeners.stragglers.judge import SlowPlace
from mllm_jax.train.listeners.stragglers.window import HOST
from tests.runbook import messages, unsaid
from tests.supervise.starting import of_clusters, of_devices, of_the_start, too_long
from tests.supervise.test_coordinator import beat, paced
from tests.supervise.test_messages import of_strangers, refuses
from tests.train.components.test_guard import guarded


def words(actions: list[CoordinatorAction]) -> list[str]:
    return [
        action.text if isinstance(action, LogLine) else action.why
        for action in actions
        if isinstance(action, LogLine | FinishRun)
    ]


def coordinator(attempt: int = 0, restarts: int = 5, count: int = 1) -> RunCoordinator:
    own = RunCoordinator(count, RestartPolicy(restarts, 1.0), LIMITS, 600.0, attempt=attempt)
    for process in range(count):
        own.on_event(SupervisorJoined(process, "ab"[process], 811), 0.0)
    own.on_tick(0.0)
    return own


def of_ends() -> list[str]:
    """Of processes that end, and of attempts."""
    said = [
        str(ProcessEnd(0, "a", 812, code, step=41, event="step 41", ago=0.0))
        for code in (-signal.SIGKILL, 1)
    ]
    bad = coordinator()
    said += words(bad.on_event(ProcessEnded(1, ProcessEnd(0, "a", 812, 2)), 1.0))
    poor = coordinator(restarts=2)
    for attempt in (1, 2, 3):
        said += words(
            poor.on_event(ProcessEnded(attempt, ProcessEnd(0, "a", 812, 1)), 100.0 * attempt)
        )
        poor.on_tick(100.0 * attempt + 50)
    once = coordinator(restarts=0)
    said += words(once.on_event(ProcessEnded(1, ProcessEnd(0, "a", 812, 1, step=20)), 40.0))
    stuck = coordinator(attempt=2)
    assert words(stuck.on_tick(61.0))
    stacks = "runs/demo/stacks/attempt-3-process-0.txt"
    return said + words(
        stuck.on_event(
            ProcessEnded(3, ProcessEnd(0, "a", 812, -9, halted=True, stacks=stacks)), 96.0
        )
    )


def of_faults() -> list[str | None]:
    """Of processes that do not go on."""
    pace, now = EventPace(), 0.0
    for step in range(KNOWN + 1):
        pace = pace.after_heartbeat(beat(event=f"waiting for the data of step {step}", since=now))
        now += 0.1
    peers = [
        PeerProcess(0, "a", 812, heard=0.0, event="step 41", limited=True),
        PeerProcess(0, "a", 812, heard=60.2, event="waiting for the data of step 42", limited=True),
        PeerProcess(0, "a", 812, heard=43201.0, event="compiling"),
    ]
    evaluating = PeerProcess(0, "a", 812, heard=600.6, event="evaluating after step 40")
    long = paced(5.0, limited=False).present_limit(LIMITS)
    return [
        find_fault([peers[0]], 61.0, LIMITS),
        find_fault([replace(peers[1], limit=pace.present_limit(LIMITS))], 60.2, LIMITS),
        find_fault([peers[2]], 43201.0, LIMITS),
        find_fault([replace(evaluating, limit=long)], 600.6, LIMITS),
    ]


def of_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of other supervisors and their processes."""
    pair = coordinator(count=2)
    last = beat(event="step 41", since=9.0, time=9.9)
    pair.on_event(HeartbeatReceived(1, replace(last, pid=97)), 9.9)
    said = words(pair.on_event(SupervisorLeft(1), 10.0))
    three = RunCoordinator(4, wait=600.0, fewer=(3,))
    for process in (0, 1, 3):
        three.on_event(SupervisorJoined(process, "abcd"[process], 811), 0.0)
    said += words(three.on_tick(601.0))
    said += words(three.on_event(SupervisorJoined(2, "c", 811), 602.0))
    for again in (unfit_again(1), unfit_again(2)):
        said += words(again)
    alone = RunCoordinator(2, wait=600.0)
    alone.on_event(SupervisorJoined(0, "a", 811), 0.0)
    said += words(alone.on_tick(601.0))
    few = RunCoordinator(4, wait=600.0, fewer=(2, 3))
    few.on_event(SupervisorJoined(0, "a", 811), 0.0)
    said += words(few.on_tick(601.0))
    leader = LeaderSupervisor(["x"], SupervisorConfig(folder, count=2))
    leader._others[1] = OtherSupervisor(SupervisorJoined(1, "b", 90), None, time.monotonic())  # type: ignore[arg-type]
    said.append(leader._unfit_reason(SupervisorHello(str(folder), 2, SupervisorJoined(1, "b", 98))))
    leader._settings = replace(leader._settings, folder=Path("runs/demo"))
    said.append(leader._unfit_reason(SupervisorHello("runs/demo", 3, SupervisorJoined(1, "b", 98))))
    said.append(
        leader._unfit_reason(SupervisorHello("runs/other", 2, SupervisorJoined(1, "b", 98)))
    )
    said.append(leader._unfit_reason(SupervisorHello("runs/demo", 2, SupervisorJoined(7, "b", 98))))
    monkeypatch.setattr("mllm_jax.runtime.peers.attempt_number", lambda: 4)
    first = PeerHub(0, 2, HostAddress("127.0.0.1", 1), WatchLimits())
    said.append(first._mismatch_of(PeerProcess(1, "b", 97, heard=0.0), 2, 3))
    first._peers[1] = PeerProcess(1, "b", 97, heard=0.0)
    said += [first._mismatch_of(PeerProcess(own, "b", 97, heard=0.0), 2, 4) for own in (1, 7)]
    return said


def unfit_again(least: int) -> list[CoordinatorAction]:
    """Of the second of two hosts, and of a third one that is gone where two are needed."""
    own, followed = (
        RunCoordinator(2 + (least > 1), wait=0.0, fewer=(least,)),
        list[CoordinatorAction](),
    )
    for process in (0, 1):
        own.on_event(SupervisorJoined(process, "ab"[process], 811), 0.0)
    for attempt in (1, 2):
        for now in (100.0 * attempt, 100.0 * attempt + 1):
            own.on_tick(now)
        own.on_event(ProcessEnded(attempt, ProcessEnd(0, "a", 812, 6)), now + 1)
        followed = own.on_event(ProcessEnded(attempt, ProcessEnd(1, "b", 812, 8)), now + 1)
    return followed


def of_slow_ones() -> list[str]:
    """Of processes and devices that are slower than the others."""
    process = "process 1 (host b)"
    return [
        str(SlowPlace("between", process, 0.36, 0.3, (0.2,), 1.0)),
        *(str(SlowPlace(phase, process, 0.36, 0.3, (0.2,), 1.0)) for phase in ("place", HOST)),
        str(SlowPlace("device", f"device 3 of {process}", 0.006, 0.005, (0.2,))),
    ]


def of_self_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of devices, links and machines that are not fit."""
    said: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(check, "exit_after", too_long(said))
        check.run_checks({"products": lambda: iter(())})
    wrong = np.zeros((2048, 2048), np.float32)
    wanted = wrong.copy()
    wrong[7, 9], wanted[7, 9] = 31, 30
    kind = "(NVIDIA H100 80GB HBM3)"
    inside = "links within domains"
    links = [
        HealthFinding("neighbours", f"link {at}", rate=220e9, compared_with=inside)
        for at in range(3)
    ]
    slow, far = (f"link of device {at + 1} to device {at} {kind} of process 0" for at in (3, 7))
    bits = describe_wrong_bits("bfloat16", wrong, wanted)
    found = [
        HealthFinding("products", f"device 2 {kind} of process 1", fault=bits),
        *judge_findings(
            [*links, HealthFinding("neighbours", slow, rate=90e9, compared_with=inside)]
        ),
        *judge_findings([HealthFinding("neighbours", far, rate=1e9, sheet=50e9)]),
        HealthFinding("clock", "process 2 (host c)", fault=fault_of_clock(90.0)),
        HealthFinding(
            "packages", "process 2 (host c)", fault='has msgpack "1.0.0", the others "1.1.0"'
        ),
    ]
    return [*said, *str(HealthReport(tuple(found))).splitlines()]


def of_replicas() -> list[str]:
    """Of replicas that differ."""
    device: Any = SimpleNamespace(id=3, process_index=0)

    def compare(params: Any, batch: Any) -> ReplicaDifference:
        return ReplicaDifference((2, 3), (device,))

    with pytest.raises(CorruptionError) as found:
        check_replicas(compare, 400, {}, {})  # type: ignore[arg-type]
    assert exit_code_of(found.value) == ExitCode.DIVERGED
    return [str(found.value)]


def of_other_attempts() -> list[str]:
    """Of what comes from another attempt, and of an interruption between two."""
    fourth = coordinator(attempt=3)
    said = words(fourth.on_event(HeartbeatReceived(1, replace(beat(attempt=3), pid=97)), 1.0))
    said += words(fourth.on_event(ProcessEnded(3, ProcessEnd(1, "b", 97, 0)), 1.0))
    between = coordinator()
    between.on_event(ProcessEnded(1, ProcessEnd(0, "a", 812, 1)), 1.0)
    return said + words(between.on_event(LeaderInterrupted(), 1.5))


def of_what_stays() -> list[str | None]:
    """Of processes that wait, and of one that nobody can end."""
    step = "waiting for the others (step 41), after: step 41"
    waits = [
        PeerProcess(i, "ab"[i], 812, heard=1801.0, event=step, limited=True, waiting=True)
        for i in (0, 1)
    ]
    stuck = coordinator()
    place = stuck._places[0]
    stuck._places[0] = replace(place, joined=replace(place.joined, pid=812))
    stuck.on_event(HeartbeatReceived(0, replace(beat(), pid=812)), 0.0)
    stuck.on_tick(61.0)
    return [find_fault(waits, 1801.0, LIMITS), *words(stuck.on_tick(61.1 + UNENDING))]


async def of_followers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of a supervisor that hears the one that leads, or does not."""
    place = SupervisorConfig(
        Path("runs/demo"), WatchLimits(silent=60.0), wait=0.0, process=1, count=2
    )
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = HostAddress("127.0.0.1", closed.getsockname()[1])

    def follower() -> FollowerSupervisor:
        return FollowerSupervisor(["x"], replace(place, address=address))

    def line(*received: Any) -> Any:
        coming = iter(received)

        async def receive() -> Any:
            found = next(coming)
            if isinstance(found, Exception):
                raise found
            return found

        return SimpleNamespace(receive=receive)

    for received in (None, TimeoutError(), {"kind": "GET"}):
        await follower()._follow_leader(line(received))
    stale = follower()
    stale._attempt = 4
    stale._do_action(BeginAttempt(3, False))
    stale._do_action(LeaderAlive(1, ()))
    await stale._find_leader()
    follower()._do_action(LeaveRun(8, "process 0 (host a) is unfit again"))
    alone = follower()
    await alone._find_leader()
    refused = follower()
    monkeypatch.setattr(refused, "_connect_securely", refuses)
    await refused._connect_to(HostAddress("127.0.0.1", 12355), 0.0)
    # Process 1 of 2 is the next one by number.
    found = follower()
    found._finish, found.lead = alone._finish, LeadState(address)
    monkeypatch.setattr(start, "FollowerSupervisor", lambda *_: found)
    monkeypatch.setattr(found, "run", lambda: finished(alone._finish))
    monkeypatch.setattr(start, "_lead_run", lambda _: finished(FinishRun(0, "")))
    monkeypatch.setattr(start, "run_lock", lambda *_: nullcontext())
    await start._run_supervised(["x"], found._settings)
    return [own._finish.why for own in (stale, alone, refused) if own._finish is not None]


async def finished(finish: FinishRun | None) -> FinishRun | None:
    """What a supervisor has come to."""
    return finish


async def of_leaders(folder: Path) -> list[str]:
    """Of a supervisor that leads, and of its process."""
    said = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = HostAddress("127.0.0.1", taken.getsockname()[1])
        own = LeaderSupervisor(["x"], SupervisorConfig(folder, count=2, address=address))
        with pytest.raises(JoinError) as refused:
            await own.start_listening()
        said.append(str(refused.value).replace(str(address.port), "12355"))
    own._agent = SimpleNamespace(pass_signal=lambda number: None)  # type: ignore[assignment]
    own._on_signal(signal.SIGTERM)
    _write_record(folder / "none" / "there", WatchedAttempt(3, 0.0))
    return said


async def of_children(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of processes that cannot be started, or whose stacks have no place."""

    async def start_one(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    async def stacks(_: ChildProcess) -> bytes:
        return b"Thread 0x1"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(ChildProcess, "start", start_one)
        agent = ProcessAgent(SupervisedRun(("x",), 0, folder), None, lambda ended: None)  # type: ignore[arg-type]
        own = ChildProcess(3, 0, folder / "stacks")
        await agent._run_child(own, BeginAttempt(3, False))
        patched.setattr(ChildProcess, "newest_heartbeat", beat())
        patched.setattr(ChildProcess, "_stacks_written", stacks)
        patched.setattr(child, "_write_file", full)
        await own._write_stacks()
    own._close_files()


def of_plans_and_records(folder: Path) -> list[str]:
    """Of plans for fewer hosts, and of records of attempts."""
    fails = [sys.executable, "-c", "raise SystemExit('no plan has room')"]
    FallbackSearch(fails, {3: 6}, folder, lambda *_: (), FallbackPlans({}))._thread.join()
    record = folder / "runs" / "demo" / "attempts" / "3.json"
    record.parent.mkdir(parents=True)
    record.write_text(record_line({"attempt": 3}).replace("3", "4", 1))
    return [*read_attempts(record.parents[1]).damage.values()]


def of_losses(folder: Path) -> list[str]:
    """Of losses that are not finite or jump, and of a process that is slow no longer."""
    guarded([2.0, 1.0, math.nan], skip=2)
    said = []
    for losses, config in (
        ([2.0, 2.0, *[math.nan] * 3], {"skip": 2}),
        ([2.0] * 30 + [7.0], {"spike": 3}),
    ):
        with pytest.raises(DivergedError) as diverged:
            guarded(losses, **config)
        said.append(str(diverged.value))
    comparing = TimeComparison(folder, 0)
    comparing._warn_of([SlowPlace("between", "process 1 (host b)", 0.36, 0.3, (0.2,), 1.0)])
    comparing._warn_of([])
    return said


def test_every_message_of_failures_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said = [*of_ends(), *of_faults(), *of_hosts(tmp_path, monkeypatch)]
    said += [*of_other_attempts(), *of_what_stays(), *of_plans_and_records(tmp_path)]
    said += asyncio.run(of_followers(monkeypatch)) + asyncio.run(of_leaders(tmp_path))
    asyncio.run(of_children(tmp_path, monkeypatch))
    said += of_strangers(tmp_path, monkeypatch)
    said += [*of_the_start(monkeypatch), *of_clusters(monkeypatch), *of_devices(monkeypatch)]
    said += caplog.messages
    assert [*unsaid("messages.md", said), *unsaid("messages-start.md", said)] == []


def test_every_message_of_slow_machines_and_wrong_numbers_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    said = [*of_slow_ones(), *of_self_checks(monkeypatch), *of_replicas(), *of_losses(tmp_path)]
    assert unsaid("messages-numbers.md", [*said, *caplog.messages]) == []


def test_a_message_that_nobody_says_is_found() -> None:
    said = messages("messages-numbers.md")
    assert len(said) > 8
    assert unsaid("messages-numbers.md", said[1:]) == said[:1]
