"""Every message of the runbook about folders, snapshots, checkpoints and data is really said."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import jax
import numpy as np
import pytest

from data.folders import drop_damaged, put_folder
from data.planning.stream import LoaderState
from data.sample import DataError, UnreachableError
from data.sources.formats.patience import PatientFileSystem
from mllm_jax.runtime.compiled import cache
from mllm_jax.runtime.folder import (
    RunError,
    UnwritableError,
    check_space,
    read_identity,
    report_write_errors,
)
from mllm_jax.runtime.lock import GLANCE, LockedError, LockHeldError, run_lock
from mllm_jax.runtime.records import read_record_lines, record_line
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.runtime.wire import HostAddress
from mllm_jax.supervise import leader
from mllm_jax.supervise.checkpoint_return import CheckpointReturn
from mllm_jax.train.components.checkpoint_saver import CheckpointSaver, SaveError
from mllm_jax.train.listeners import listeners
from mllm_jax.train.listeners.goodput import record
from mllm_jax.train.listeners.goodput.ledger import TimeLedger
from mllm_jax.train.listeners.listeners import RunListeners
from mllm_jax.train.listeners.stragglers.compare import TimeComparison
from mllm_jax.train.loading import loader as run_loader
from mllm_jax.train.records.forms import metrics_schema
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.mirrors.copier import _CheckpointCopier, _put_records
from mllm_jax.train.state.mirrors.remote_checkpoints import RemoteCheckpoints
from mllm_jax.train.state.mirrors.store import CheckpointMirror, MirrorStore
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.saved import CheckpointError, verify_checkpoint
from mllm_jax.train.state.snapshots import memory as memory_of_hosts
from mllm_jax.train.state.snapshots.channel import RequestServer, connect_to
from mllm_jax.train.state.snapshots.folder import _check_own
from mllm_jax.train.state.snapshots.memory import LocalShard, LocalSnapshot, SnapshotMemory
from mllm_jax.train.state.snapshots.peers import ShardLocation, ShardServer, SnapshotPeer
from mllm_jax.train.state.snapshots.reading import ShardReader
from mllm_jax.train.state.snapshots.shard import (
    Shard,
    ShardError,
    ShardIndex,
    ShardOrigin,
    complete_shards,
)
from mllm_jax.train.state.stored_names import StoredNames
from tests.configs import config
from tests.runbook import unsaid
from tests.train.state.snapshots.test_channel import pretend
from tests.train.state.snapshots.test_memory import take


def why(kind: type[Exception], action: Callable[[], object]) -> str:
    """What an action is refused with."""
    with pytest.raises(kind) as refused:
        action()
    return str(refused.value)


def full(*_: object, **__: object) -> None:
    """Write where there is no room."""
    with Path("/dev/full").open("wb", buffering=0) as file:
        file.write(b"x")


def of_folders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the folder of a run, which is below the present one."""
    run = Path("runs/demo")
    run.mkdir(parents=True)
    said = []

    def read_only() -> None:
        with report_write_errors(f"folder {run}"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        free = shutil.disk_usage("/")._replace(free=12 * 2**20)
        patched.setattr(shutil, "disk_usage", lambda path: free)
        said += [why(UnwritableError, lambda: check_space(run, 2**21)), why(RunError, read_only)]
        check_space(run, 2 * 2**20, lenient=True)
    line = record_line({"step": 1})
    (run / "metrics.jsonl").write_text(f"{line}{line.replace('1', '2', 1)}{line}{line}[\n")
    assert len(read_record_lines(run / "metrics.jsonl", metrics_schema).log_problems().values) == 3
    (run / ".identity").write_bytes(b"\xff")
    assert read_identity(run) is None
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 811)
        patched.setattr(socket, "gethostname", lambda: "a")
        patched.setattr(time, "strftime", lambda _: "2026-11-25 14:00:03 +0000")
        with run_lock(run, ".supervisor"):
            said.append(why(LockedError, run_lock(run, ".supervisor").__enter__))
            patched.setenv("SLURM_JOB_ID", "41")
            said.append(why(LockHeldError, run_lock(run, ".supervisor", 2 * GLANCE).__enter__))
        patched.setattr(fcntl, "flock", no_locks)
        patched.setattr(os, "truncate", full)
        with run_lock(run):
            pass
    with monkeypatch.context() as patched:
        patched.setattr(jax.config, "update", lambda *_: None)
        patched.setattr(os, "access", lambda *_: False)
        cache.enable_compilation_cache(str(run))
    return said


def of_the_end(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of what a run writes at last, where there is no room."""
    run, nothing = Path("runs/demo"), SimpleNamespace(make_summary=lambda *_: {})
    with monkeypatch.context() as patched:
        patched.setattr(record, "write_attempt", full)
        untaken = record.TimeRecord(TimeLedger(0.0), run)
        untaken.trained = True
        untaken.write_record()
        patched.setattr(listeners, "write_summary", full)
        own = RunListeners.__new__(RunListeners)
        own._figures = own._goodput = nothing  # type: ignore[assignment]
        told = why(UnwritableError, lambda: own.write_summary(run, {}))
    comparing = TimeComparison(run, 0)
    monkeypatch.setattr(comparing._sink, "log_values", full)
    comparing._write_line(1, {})
    return [told]


class Told(RunPeers):
    """A process that hears of the snapshots of two."""

    states = ("", "")
    host: str | None = None

    def gather_values(self, name: str, value: Any) -> list[Any]:
        return list(self.states) if name == "the previous snapshot" else [value]


def of_snapshots(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of snapshots that are taken, and of what is found of earlier ones."""
    told, own = Told(), config(run__directory=str(folder), checkpoint__local_folder=str(folder))
    own.run.path.mkdir()
    monkeypatch.setattr(memory_of_hosts, "current_peers", lambda: told)
    memory = SnapshotMemory(own, folder / "memory")
    take(memory, 30)
    told.states = ("", "running")
    take(memory, 40)
    told.states = ("", "")
    take(memory, 40)
    told.states = ("", "[Errno 28] no room: 512 MiB are free, and 900 MiB needed: '/dev/shm'")
    take(memory, 50)
    told.states = ("", "")
    take(memory, 30, 40)
    told.count = 2
    memory._start_server()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = SnapshotPeer(1, "b", HostAddress("127.0.0.1", closed.getsockname()[1]))
    memory._replica_peer, memory._peers = gone, [gone, gone]
    share, index = max(complete_shards(folder / "memory"), key=lambda own: own[1].origin.step)
    memory._complete_snapshot(0, share, index)
    with ExitStack() as connections:
        memory._remote_shards([ShardLocation(process=1, holder=0, origin=0, slot=0)], connections)
    origin = ShardOrigin(run="5c1e", folder="runs/demo", series="", step=40, process=0)
    memory._run = "77aa"
    strange = index.model_copy(update={"origin": origin})
    memory._is_ours(Shard(Path("/dev/shm/mllm_jax-0/demo-1a2b3c4d/0/0/1")), strange)
    answers: list[Any] = []
    server = ShardServer("127.0.0.1", "secret", folder, 1, "77aa", "")
    message = {"kind": "put", "slot": 0, "index": json.loads(strange.model_dump_json())}
    channel: Any = SimpleNamespace(send=answers.append)
    server._answer_request(channel, message)
    server.close()
    return [*of_damage(share, index), answers[0]["why"]]


def of_damage(share: Shard, index: ShardIndex) -> list[str]:
    """Of snapshots that were changed, and of who may change them."""
    data, listed = share.folder / "data", share.folder / "index.json"
    data.write_bytes(bytes(data.stat().st_size))
    name, leaf = next(iter(index.leaves.items()))
    reader = ShardReader([LocalShard(share, index)], list)
    said = [why(ShardError, lambda: reader._read_part(name, leaf.parts[0].box))]
    listed.write_text(listed.read_text() + " ")
    list(complete_shards(share.folder.parents[2]))
    server = RequestServer.__new__(RequestServer)
    server._open, server._strange = set(), {}
    server._shares_secret = lambda channel: False  # type: ignore[method-assign]
    channel: Any = type("Channel", (), {"close": lambda _: None})()
    server._serve_requests(channel, "127.0.0.1")
    share.folder.chmod(0o777)
    return [*said, why(RunError, lambda: _check_own(share.folder))]


def of_checkpoints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of checkpoints that cannot be saved or read."""
    none: Any = SimpleNamespace(steps=[], retention=SimpleNamespace())
    saves = CheckpointSaver(none, config(checkpoint__failures=2), Progress(0, LoaderState(0)))
    saves._try_action(100, full)
    saves._try_action(100, full)
    said = [why(SaveError, lambda: saves._try_action(100, full))]
    own = CheckpointManager.__new__(CheckpointManager)
    own.directory, own._read_only = Path("runs/demo/checkpoints"), False
    own._manager, own._names = SimpleNamespace(close=full), StoredNames()
    own.close()
    steps = [30, 100]
    remembered: Any = SimpleNamespace(list_snapshots=lambda: [LocalSnapshot(40, "", ())])
    monkeypatch.setattr(CheckpointManager, "steps", property(lambda _: steps))
    monkeypatch.setattr(
        CheckpointManager, "_try_candidate", lambda *_: (None, "leaf params/a is damaged")
    )
    said.append(why(CheckpointError, lambda: own.restore_state({}, memory=remembered)))
    said.append(why(CheckpointError, lambda: own.restore_state({}, 100)))
    steps.clear()
    said.append(why(CheckpointError, lambda: own.restore_state({}, 100)))
    Path("runs/demo/checkpoints/100").mkdir(parents=True)
    verify_checkpoint(Path("runs/demo/checkpoints/100"))
    back = CheckpointReturn(["train", "--from-step", "40"], Path("runs/demo"))
    back.record_return()
    assert back.has_gone_back()
    monkeypatch.setattr(back, "record_return", full)
    leader._record_return(back)
    return said


def of_copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of copies in another place."""
    run = Path("runs/demo")
    (run / ".identity").write_text("77aa")
    made = config(
        run={"directory": "runs", "name": "demo"},
        checkpoint={"copy_to": "memory://bucket", "retry_seconds": 0.0, "local_every": None},
    )
    system = fsspec.filesystem("memory")
    system.pipe("/bucket/demo/100-0-of-1.json", b"{}")
    MirrorStore(made).list_copies()

    own = CheckpointManager.__new__(CheckpointManager)
    own.directory, own._names = run / "checkpoints", StoredNames()
    shutil.rmtree(own.directory)
    monkeypatch.setattr(MirrorStore, "__str__", lambda _: "s3://bucket/demo")
    with monkeypatch.context() as patched:
        patched.setattr(MirrorStore, "list_copies", out_of_reach)
        RemoteCheckpoints(made)
        said = [why(UnreachableError, lambda: RemoteCheckpoints(made, requested_step=40))]
        patched.setattr(
            MirrorStore,
            "list_copies",
            lambda _: [CheckpointMirror(step, "77aa", ()) for step in (100, 90)],
        )
        found = RemoteCheckpoints(made)
        said.append(why(CheckpointError, lambda: own.restore_state({}, remote=found)))
        for name in ("fetch_records", "fetch_checkpoint"):
            patched.setattr(MirrorStore, name, lambda *_, **__: None)
        assert not found.fetch_checkpoint(found.checkpoints[0], replaces=False)
        said.append(
            why(
                RunError,
                lambda: MirrorStore(made).check_same(run, [CheckpointMirror(100, "5c1e", ())]),
            )
        )
        (own.directory / "40").mkdir(parents=True)
        for name in ("keep_steps", "copy_part", "put_records"):
            patched.setattr(MirrorStore, name, out_of_reach)
        patched.setattr(MirrorStore, "quarantine_newer", lambda *_: [60, 50])
        copier = _CheckpointCopier(found, 40)
        copier.finish_copies()
        copier._copied, copier._retained_steps = {40}, []
        copier._remove_old_copies([40])
        copier._copied, copier._begun = set(), False
        (own.directory / "100").mkdir()
        copier._copy_checkpoint(100)
        (own.directory / "100").rmdir()
        copier._seen.add(20)
        copier._tell_lost([40])
        copier.stop_copying()
        _put_records(found.store, run)
        patched.setattr(MirrorStore, "quarantine_newer", out_of_reach)
        copier._begun = False
        copier._begin_now(go_back=False)
        patched.setattr(copier, "_copy_newest", full)
        copier._go_on()
    return said


def out_of_reach(*_: object, **__: object) -> None:
    """A place that takes nothing."""
    raise UnreachableError("s3://bucket/demo has been out of reach for 300 s")


def of_another_run() -> list[str]:
    """Of one that listens without the secret of the run."""
    own = RequestServer("127.0.0.1", "secret", lambda *_: None)
    own._shares_secret = pretend  # type: ignore[method-assign]
    told = why(ConnectionError, lambda: connect_to(own.address, "secret"))
    own.close()
    return [told]


def of_places() -> list[str]:
    """Of a place of data that is away, and one that comes back."""
    answers = iter([OSError("no route to host"), "found", *[OSError("no route to host")] * 9])

    def info(path: str) -> object:
        found = next(answers)
        if isinstance(found, OSError):
            raise found
        return found

    system = SimpleNamespace(info=info, unstrip_protocol=lambda path: f"s3://{path}")
    away = PatientFileSystem(system, 0.02)
    away.info("bucket/train.jsonl")
    return [why(UnreachableError, lambda: away.info("bucket/train.jsonl"))]


def of_data(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of what is made of the data."""
    lengths = Path("data/lengths-1a2b3c4d")
    put_folder(lengths, lambda draft: np.save(draft / "tokens.npy", np.arange(9)), seal=True)
    np.save(lengths / "tokens.npy", np.zeros(9))
    drop_damaged(lengths, "measured lengths")
    two: Any = SimpleNamespace(gather_values=lambda name, value: ["a", "b"])
    monkeypatch.setattr(run_loader, "current_peers", lambda: two)
    table: Any = SimpleNamespace(digest="a", folder=lengths)
    return [why(DataError, lambda: run_loader.check_same(table))]


def test_every_message_of_storage_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    said = [*of_folders(monkeypatch), *of_the_end(monkeypatch)]
    said += [*of_snapshots(tmp_path, monkeypatch), *of_checkpoints(monkeypatch)]
    said += [*of_copies(monkeypatch), *of_another_run(), *of_places(), *of_data(monkeypatch)]
    assert unsaid("messages-storage.md", [*said, *caplog.messages]) == []
