"""Every message that heads a section of docs/how-to/messages.md is one that is really said."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data.folders import drop_damaged, put_folder
from data.planning.stream import LoaderState
from mllm_jax.health.devices import fault_of
from mllm_jax.health.finding import Finding, Health, judged
from mllm_jax.runtime.exits import Exit, code_of
from mllm_jax.runtime.folder import RoomError, check_room
from mllm_jax.runtime.lock import LockedError, locked
from mllm_jax.runtime.part import Peers
from mllm_jax.runtime.peers import First
from mllm_jax.runtime.standing import FROM_STEP
from mllm_jax.runtime.watch import LIMITS, Limits, Peer, fault
from mllm_jax.runtime.wire import Address
from mllm_jax.supervise.back import Back
from mllm_jax.supervise.conductor import Action, Conductor, Ended, Finish, Joined, Left, Say, Sign
from mllm_jax.supervise.ends import End
from mllm_jax.supervise.leader import Leader, Other
from mllm_jax.supervise.messages import Hello
from mllm_jax.supervise.pace import KNOWN, Pace
from mllm_jax.supervise.policy import Policy
from mllm_jax.supervise.supervisor import Settings
from mllm_jax.train.replicas.check import Difference
from mllm_jax.train.replicas.corruption import CorruptionError, checked
from mllm_jax.train.saves import Saves
from mllm_jax.train.state.copies import _Copier
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots import memory as memory_of_hosts
from mllm_jax.train.state.snapshots.memory import Kept, Memory
from mllm_jax.train.state.snapshots.neighbours import Member
from mllm_jax.train.state.snapshots.share import Index, Origin, Share, found
from mllm_jax.train.stragglers.judge import Straggler
from tests.configs import ROOT, config
from tests.supervise.test_conductor import beat
from tests.train.state.snapshots.test_memory import take

PAGE = (ROOT / "docs" / "how-to" / "messages.md").read_text()
HEADINGS = re.findall(r"^## `(.*)`$", PAGE, flags=re.MULTILINE)
#: Messages of a connection, which the tests there wait for.
CONNECTIONS = (ROOT / "tests" / "supervise" / "test_hosts.py").read_text()


def words(actions: list[Action]) -> list[str]:
    return [
        action.text if isinstance(action, Say) else action.why
        for action in actions
        if isinstance(action, Say | Finish)
    ]


def conductor(attempt: int = 0, restarts: int = 5, count: int = 1) -> Conductor:
    own = Conductor(count, Policy(restarts, 1.0), LIMITS, 600.0, attempt=attempt)
    for process in range(count):
        own.hear(Joined(process, "ab"[process], 811), 0.0)
    own.tick(0.0)
    return own


def of_ends() -> list[str]:
    """Of processes that end, and of attempts."""
    said = [
        str(End(0, "a", 812, code, step=41, event="step 41", ago=0.0))
        for code in (-signal.SIGKILL, 1)
    ]
    bad = conductor()
    said += words(bad.hear(Ended(1, End(0, "a", 812, 2)), 1.0))
    poor = conductor(restarts=2)
    for attempt in (1, 2, 3):
        said += words(poor.hear(Ended(attempt, End(0, "a", 812, 1)), 100.0 * attempt))
        poor.tick(100.0 * attempt + 50)
    stuck = conductor(attempt=2)
    assert words(stuck.tick(61.0))
    stacks = "runs/demo/stacks/attempt-3-process-0.txt"
    return said + words(
        stuck.hear(Ended(3, End(0, "a", 812, -9, halted=True, stacks=stacks)), 96.0)
    )


def of_faults() -> list[str | None]:
    """Of processes that do not go on."""
    pace, now = Pace(), 0.0
    for step in range(KNOWN + 1):
        pace = pace.after(beat(event=f"waiting for the data of step {step}", since=now))
        now += 0.1
    peers = [
        Peer(0, "a", 812, heard=0.0, event="step 41", limited=True),
        Peer(0, "a", 812, heard=60.2, event="waiting for the data of step 42", limited=True),
        Peer(0, "a", 812, heard=43201.0, event="compiling"),
    ]
    return [
        fault([peers[0]], 61.0, LIMITS),
        fault([peers[1]], 60.2, pace.limits(LIMITS)),
        fault([peers[2]], 43201.0, LIMITS),
    ]


def of_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of other supervisors and their processes."""
    pair = conductor(count=2)
    last = beat(event="step 41", since=9.0, time=9.9)
    pair.hear(Sign(1, replace(last, pid=97)), 9.9)
    said = words(pair.hear(Left(1), 10.0))
    three = Conductor(4, wait=600.0, fewer=(3,))
    for process in (0, 1, 3):
        three.hear(Joined(process, "abcd"[process], 811), 0.0)
    said += words(three.tick(601.0))
    alone = Conductor(2, wait=600.0)
    alone.hear(Joined(0, "a", 811), 0.0)
    said += words(alone.tick(601.0))
    leader = Leader(["x"], Settings(folder, count=2))
    leader._others[1] = Other(Joined(1, "b", 90), None, time.monotonic())  # type: ignore[arg-type]
    said.append(leader._unfit(Hello(str(folder), 2, Joined(1, "b", 98))))
    monkeypatch.setattr("mllm_jax.runtime.peers.attempt", lambda: 4)
    first = First(0, 2, Address("127.0.0.1", 1), Limits())
    said.append(first._unfit(Peer(1, "b", 97, heard=0.0), 2, 3))
    return said


def of_the_disk(monkeypatch: pytest.MonkeyPatch) -> str:
    free = shutil.disk_usage("/")._replace(free=12 * 2**20)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda path: free)
        with pytest.raises(RoomError) as refused:
            check_room(Path("runs/demo"), 2 * 2**20)
    return str(refused.value)


def of_slow_ones() -> list[str]:
    """Of processes and devices that are slower than the others."""
    process = "process 1 (host b)"
    return [
        str(Straggler("between", process, 0.36, 0.3, (0.2,), 1.0)),
        str(Straggler("device", f"device 3 of {process}", 0.006, 0.005, (0.2,))),
    ]


def of_self_checks() -> list[str]:
    """Of devices, links and machines that are not fit."""
    wrong = np.zeros((2048, 2048), np.float32)
    wanted = wrong.copy()
    wrong[7, 9], wanted[7, 9] = 31, 30
    kind = "(NVIDIA H100 80GB HBM3)"
    links = [Finding("neighbours", f"link {at}", rate=1e10) for at in range(3)]
    slow = f"link of device 8 to device 7 {kind} of process 0"
    bits = fault_of("bfloat16", wrong, wanted)
    found = [
        Finding("products", f"device 2 {kind} of process 1", fault=bits),
        *judged([*links, Finding("neighbours", slow, rate=1e9)]),
        Finding("packages", "process 2 (host c)", fault='has msgpack "1.0.0", the others "1.1.0"'),
    ]
    return str(Health(tuple(found))).splitlines()


def of_replicas() -> list[str]:
    """Of replicas that differ."""
    device: Any = SimpleNamespace(id=3, process_index=0)

    def compare(params: Any, batch: Any) -> Difference:
        return Difference((2, 3), (device,))

    with pytest.raises(CorruptionError) as found:
        checked(compare, 400, {}, {})  # type: ignore[arg-type]
    assert code_of(found.value) == Exit.DIVERGED
    return [str(found.value)]


def of_the_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    Path("runs/demo").mkdir(parents=True)
    monkeypatch.setattr(os, "getpid", lambda: 811)
    monkeypatch.setattr(socket, "gethostname", lambda: "a")
    monkeypatch.setattr(time, "strftime", lambda _: "2026-11-25 14:00:03 +0000")
    with (
        locked(Path("runs/demo"), ".supervisor"),
        pytest.raises(LockedError) as refused,
        locked(Path("runs/demo"), ".supervisor"),
    ):
        pass
    return str(refused.value)


class Told(Peers):
    """A process that hears of the snapshots of two."""

    states = ("", "")

    def gather(self, name: str, value: Any) -> list[Any]:
        return list(self.states) if name == "the snapshot before" else [value]


def of_snapshots(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of snapshots and checkpoints, which the log has."""
    told, own = Told(), config(run__directory=str(folder), checkpoint__local_folder=str(folder))
    own.run.path.mkdir()
    monkeypatch.setattr(memory_of_hosts, "peers", lambda: told)
    memory = Memory(own, folder / "memory")
    take(memory, 30)
    told.states = ("", "running")
    take(memory, 40)
    told.states = ("", "")
    take(memory, 40)
    told.states = ("", "[Errno 28] no room: 512 MiB are free, and 900 MiB needed: '/dev/shm'")
    take(memory, 50)
    told.states = ("", "")
    take(memory, 30, 40)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        memory._neighbour = Member(1, "b", Address("127.0.0.1", closed.getsockname()[1]))
    newest = max(found(folder / "memory"), key=lambda own: own[1].origin.step)
    memory._complete(0, *newest)
    origin = Origin(run="5c1e", folder="runs/demo", series="", step=40, process=0)
    memory._run = "77aa"
    index = Index(origin=origin, progress={}, config={}, leaves={})
    memory._is_ours(Share(Path("/dev/shm/mllm_jax-0/demo-1a2b3c4d/0/0/1")), index)
    checkpoints: Any = SimpleNamespace(steps=[], retention=SimpleNamespace())
    saves = Saves(checkpoints, own, Progress(0, LoaderState(0)))
    saves._tried(100, fill)
    copier = _Copier.__new__(_Copier)
    store: Any = type("Store", (), {"__str__": lambda _: "s3://bucket/demo"})()
    store.put = lambda *_: fill()
    copier._store, copier._run, copier._identity, copier._place = store, folder, "", (0, 1)
    copier._copied, copier._failed = set(), set()
    copier._copy(100)


def of_kept_folders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is made of the data, which the log has."""
    monkeypatch.chdir(folder)
    lengths = Path("data/lengths-1a2b3c4d")
    put_folder(lengths, lambda draft: np.save(draft / "tokens.npy", np.arange(9)), seal=True)
    np.save(lengths / "tokens.npy", np.zeros(9))
    drop_damaged(lengths, "measured lengths")


def fill() -> None:
    """Write where there is no room."""
    with Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")


def of_going_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Path("runs/demo")
    (folder / "back" / run).mkdir(parents=True)
    monkeypatch.chdir(folder / "back")
    back = Back(["launch.py", "train", FROM_STEP, "7"], run)
    assert not back.gone()
    back.keep()
    assert back.gone()


def test_every_message_of_the_runbook_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said = [*of_ends(), *of_faults(), *of_hosts(tmp_path, monkeypatch)]
    of_snapshots(tmp_path, monkeypatch)
    of_kept_folders(tmp_path, monkeypatch)
    of_going_back(tmp_path, monkeypatch)
    said += [record.getMessage() for record in caplog.records]
    said.append(f"{Kept(40, '', ())} is not whole")
    said += [of_the_disk(monkeypatch), of_the_lock(tmp_path, monkeypatch)]
    said += [*of_slow_ones(), *of_self_checks(), *of_replicas()]
    assert len(HEADINGS) > 15
    for heading in HEADINGS:
        parts = heading.split("(...)")
        told = any(text and all(part in text for part in parts) for text in said)
        signals = heading == f"{signal.SIGTERM.name} is passed on to the training process"
        assert told or signals or heading in CONNECTIONS, (heading, said)
