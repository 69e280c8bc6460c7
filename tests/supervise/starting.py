"""Says what the runbook has of processes that do not meet, and of devices that are not there."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from mllm_jax.config.load import ParallelConfig
from mllm_jax.runtime import agreement, collective, devices, peers
from mllm_jax.runtime.agreement import AgreementError
from mllm_jax.runtime.backends.place import place_from_environment
from mllm_jax.runtime.devices import DeviceError
from mllm_jax.runtime.peers import PeerHub, PeerMember
from mllm_jax.runtime.run_peers import JoinError, PeerError, ProcessPlace, RunPeers
from mllm_jax.runtime.watch import LIMITS, PeerProcess, WatchLimits
from mllm_jax.runtime.wire import HostAddress
from tests.runtime.test_collective import HERE, NONE, found_by_jax
from tests.supervise.test_messages import shows_nothing


def of_the_start(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of processes that do not meet."""
    said, limits = [], WatchLimits()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = HostAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(JoinError) as refused:
            PeerHub(0, 2, address, limits).wait_for_all(0.1)
        said.append(str(refused.value))
    first, member = PeerHub(0, 2, address, limits), PeerMember(1, 2, address, limits)
    for together in (first, member):
        with pytest.raises(PeerError) as late:
            together.wait_for_all(0.1)
        said.append(str(late.value))
    monkeypatch.setattr(peers, "present_secret", shows_nothing)
    member._connection = None  # type: ignore[assignment]
    with pytest.raises(PeerError) as strange:
        asyncio.run(member._await_answer(1.0))
    said.append(str(strange.value))
    said = [own.replace(str(address.port), "12355") for own in said]

    async def end(code: int, why: str) -> None:
        said.append(why)

    monkeypatch.setattr(first, "_end_process", end)
    now = time.monotonic()
    asyncio.run(first._on_closed(PeerProcess(1, "b", 97, now, "step 41", since=now - 1.0)))
    told_apart = [{"train.learning_rate": 0.001}, {"train.learning_rate": 0.002}]
    with monkeypatch.context() as patched:
        gathered = SimpleNamespace(
            gather_values=lambda name, value: ["0", "1"] if name == "x" else told_apart
        )
        patched.setattr(agreement, "current_peers", lambda: gathered)
        with pytest.raises(AgreementError) as differ:
            agreement.check_agreement("x", {})
    return [*said, str(differ.value)]


def too_long(said: list[str]) -> Callable[..., Any]:
    """`exit_after` where each wait is over it."""

    @contextmanager
    def waited(seconds: float | None, why: str | Callable[[], str]) -> Iterator[None]:
        if seconds is not None:
            said.append(why if isinstance(why, str) else why())
        yield

    return waited


def of_clusters(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of processes that a cluster has started."""
    said: list[str] = []
    waited = too_long(said)
    step = {"SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "a", "SLURM_JOB_ID": "1"}
    for told in ({}, {**step, "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "1"}):
        with pytest.raises(JoinError) as refused:
            place_from_environment(told, 60.0)
        said.append(str(refused.value))
    with monkeypatch.context() as patched:
        patched.setattr(devices, "os", SimpleNamespace(environ={}))
        patched.setattr(devices, "exit_after", waited)
        patched.setattr(jax.distributed, "initialize", lambda *_, **__: None)
        devices._join_discovered(60)
        patched.setattr(collective, "exit_after", waited)
        alone = collective.CollectivePeers(LIMITS)
        alone.count = 2
        alone.note_activity("step 7")
        with alone.watching_wait("step 7"):
            pass
    found_by_jax(monkeypatch, HERE | NONE | {"join": ["no answer of 10.0.0.1"]})
    return said


def of_devices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of devices that are not there, and of processes that JAX does not connect."""
    own = ParallelConfig(devices=16, platform="gpu", distributed=True)
    met = SimpleNamespace(
        index=1,
        count=2,
        coordinator="a:12356",
        bind=None,
        noting_activity=lambda *_, **__: nullcontext(),
        describe_all=lambda: "process 0: step 7",
    )
    said: list[str] = []

    def fails(error: Exception) -> Callable[..., None]:
        def raises(*_: Any, **__: Any) -> None:
            raise error

        return raises

    with monkeypatch.context() as patched:
        patched.setattr(jax, "process_count", lambda: 2)
        patched.setattr(jax, "process_index", lambda: 1)
        patched.setattr(devices, "current_peers", RunPeers)
        of = [SimpleNamespace(process_index=process) for process in (0, 1)]
        for there in (lambda: of * 7 + of[:1], lambda: of * 12, fails(AssertionError())):
            patched.setattr(jax, "devices", there)
            with pytest.raises(DeviceError) as refused:
                devices._find_devices(own)
            said.append(str(refused.value))
        with pytest.raises(DeviceError) as refused:
            devices._devices_per_process(16, 3)
        said.append(str(refused.value))
        patched.setattr(devices, "exit_after", too_long(said))
        patched.setattr(
            devices,
            "current_peers",
            lambda: SimpleNamespace(count=1, noting_activity=met.noting_activity),
        )
        for limits in (LIMITS, WatchLimits(stalled=None)):
            with devices._looking_for_devices(own, limits):
                pass
        patched.setattr(devices, "join_peers", lambda *_: met)
        patched.setattr(jax.distributed, "initialize", fails(RuntimeError("no answer")))
        with pytest.raises(DeviceError) as refused:
            devices._join_processes(ProcessPlace(2, 1, "a:12355"), LIMITS, lambda: None)
        said.append(str(refused.value))
    return said
