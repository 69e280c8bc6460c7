"""Messages between processes without an address."""

from __future__ import annotations

import socket
import threading
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils

from mllm_jax.config.run import ParallelConfig
from mllm_jax.runtime import collective, devices, run_peers
from mllm_jax.runtime.collective import CollectivePeers, true_on_all_processes
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.run_peers import PeerError, ProcessPlace, RunPeers
from mllm_jax.runtime.watch import WatchLimits
from mllm_jax.runtime.wire import HostAddress
from tests.timing import PATIENCE


def test_values_of_different_lengths_arrive_as_they_were_sent(monkeypatch: pytest.MonkeyPatch):
    values = [{"train.seed": 7}, ["longer than the other", None], 0]
    texts = [len(repr(value)) for value in values]
    assert len(set(texts)) == len(texts)
    sent: list[list[np.ndarray]] = []

    def alone(own):
        sent[-1].append(own)
        return own[None]

    def together(own):
        # Every process has sent as many of its own bytes as the longest, after its own length.
        step = next(counter)
        rows = [np.resize(each[step], own.shape) for each in sent]
        for row, each in zip(rows, sent, strict=True):
            row[len(each[step]) :] = 0
        return np.stack(rows)

    monkeypatch.setattr(multihost_utils, "process_allgather", alone)
    for value in values:
        sent.append([])
        assert CollectivePeers().gather_values("facts", value) == [value]
    counter = iter(range(2))
    monkeypatch.setattr(multihost_utils, "process_allgather", together)
    assert CollectivePeers().gather_values("facts", values[1]) == values


def test_who_waits_too_long_ends_and_says_for_what(monkeypatch: pytest.MonkeyPatch):
    ended = threading.Event()
    told: list[tuple[int, str]] = []

    def end(code: int, why: str) -> None:
        told.append((code, why))
        ended.set()

    def never(own):
        assert ended.wait(PATIENCE)
        return own[None]

    monkeypatch.setattr(run_peers, "end_process", end)
    monkeypatch.setattr(multihost_utils, "process_allgather", never)
    assert CollectivePeers(WatchLimits(longest=0.01)).gather_values("facts", 7) == [7]
    ((code, why),) = told
    assert code == ExitCode.LOST_PEER
    assert "process 0 of 1 has waited 0.01 s (run.phase_seconds) for the others (facts)" in why
    # In a step nobody is at what may take long.
    ended.clear()
    own = CollectivePeers(WatchLimits(stalled=0.01, longest=None))
    own.note_activity("step 8")
    with own.noting_activity("profiling", limited=True), own.watching_wait("step 7"):
        assert ended.wait(PATIENCE)
    with own.watching_wait("step 8", limited=False):
        pass
    (_, (code, why)) = told
    assert code == ExitCode.LOST_PEER
    assert "has waited 0.01 s (run.stall_seconds) for the others (step 7), after: profiling" in why
    ended.clear()
    with own.watching_wait("step 8"):
        assert ended.wait(PATIENCE)
    assert "for the others (step 8), after: step 8. " in told[-1][1]


def test_who_waits_no_longer_than_that_goes_on(monkeypatch: pytest.MonkeyPatch):
    ended = threading.Event()
    monkeypatch.setattr(run_peers, "end_process", lambda code, why: ended.set())
    monkeypatch.setattr(multihost_utils, "process_allgather", lambda own: own[None])
    assert CollectivePeers(WatchLimits(longest=0.2)).gather_values("facts", 7) == [7]
    assert not ended.wait(0.5)


def test_processes_that_jax_has_found_have_the_limits_of_the_run(monkeypatch: pytest.MonkeyPatch):
    taken: list[tuple[WatchLimits, float]] = []
    for name in ("_choose_platform", "_join_processes", "_find_devices"):
        monkeypatch.setattr(devices, name, lambda *_, **__: None)
    monkeypatch.setattr(devices, "join_discovered", lambda *own: taken.append(own))
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    found = ProcessPlace(join_seconds=9)
    devices.start_devices(ParallelConfig(distributed=True), found, limits=WatchLimits(longest=7))
    assert taken == [(WatchLimits(longest=7), 9)]


@pytest.mark.parametrize("distributed", [True, False])
def test_devices_of_others_are_waited_for_no_longer_than_a_stall(
    distributed: bool, monkeypatch: pytest.MonkeyPatch
):
    told: list[tuple[int, str]] = []
    ended = threading.Event()

    def end(code: int, why: str) -> None:
        told.append((code, why))
        ended.set()

    def looked(parallel: ParallelConfig, *, trained: bool) -> list[jax.Device]:
        del trained
        assert ended.wait(PATIENCE) if distributed else not ended.wait(0.1)
        return []

    monkeypatch.setattr(run_peers, "end_process", end)
    for name in ("_choose_platform", "_join_processes"):
        monkeypatch.setattr(devices, name, lambda *_: None)
    monkeypatch.setattr(devices, "_find_devices", looked)
    config = ParallelConfig(distributed=distributed)
    assert devices.start_devices(config, limits=WatchLimits(stalled=0.01)) == []
    assert [code for code, _ in told] == [ExitCode.LOST_PEER] * distributed
    assert all("devices of all processes for 0.01 s (run.stall_seconds)" in why for _, why in told)


def test_sigterm_stays_ours_where_jax_finds_the_processes(monkeypatch: pytest.MonkeyPatch):
    """The handler of JAX's service for preemption would replace the framework's."""
    set_to: dict[str, object] = {}
    monkeypatch.setattr(jax.config, "update", set_to.__setitem__)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: None)
    devices._join_processes(ProcessPlace(), WatchLimits(), lambda: None)
    assert set_to == {"jax_enable_preemption_service": False}


class Met(RunPeers):
    """Process 1 of three, which have met, and of which JAX connects none."""

    index, count, coordinator, bind = 1, 3, HostAddress("127.0.0.1", 9), None

    def describe_all(self) -> str:
        return "process 0 (host a, pid 7): its last event: start, 3 s ago"


def test_a_process_that_jax_does_not_connect_says_what_it_hears_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
):
    told: list[tuple[int, str]] = []
    ended = threading.Event()

    def end(code: int, why: str) -> None:
        told.append((code, why))
        ended.set()

    def connect(*_: object, initialization_timeout: int, **__: object) -> None:
        assert initialization_timeout > 1  # JAX would abort the process before it says anything
        assert ended.wait(PATIENCE)

    monkeypatch.setattr(run_peers, "end_process", end)
    monkeypatch.setattr(devices, "join_peers", lambda *_: Met())
    monkeypatch.setattr(jax.distributed, "initialize", connect)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    processes = ProcessPlace(3, 1, "10.0.0.1:9000", join_seconds=0.01)
    devices._join_processes(processes, WatchLimits(), lambda: None)
    ((code, why),) = told
    assert code == ExitCode.LOST_PEER
    assert "process 1 of 3 has waited 0.01 s (--join-seconds) for JAX" in why
    assert "127.0.0.1:9 (--coordinator 10.0.0.1:9000)" in why
    assert "process 0 (host a, pid 7): its last event: start" in why


def found_by_jax(monkeypatch: pytest.MonkeyPatch, told: dict[str, list[Any]]) -> RunPeers:
    """The part of process 0 of two, by `join_discovered`; `told` has what process 1 answers by
    name."""

    class Two(CollectivePeers):
        def __init__(self, limits: WatchLimits) -> None:
            super().__init__(limits)
            self.index, self.count = 0, 2

        def gather_values(self, name: str, value: Any) -> list[Any]:
            return [value, *told[name]]

    def joined(
        index: int, count: int, address: HostAddress, limits: WatchLimits, seconds: float
    ) -> RunPeers:
        tried.append(address)
        if told["join"]:
            raise PeerError(told["join"][0])
        return RunPeers()

    tried: list[HostAddress] = []
    monkeypatch.setattr(collective, "CollectivePeers", Two)
    monkeypatch.setattr(collective, "join_peers", joined)
    monkeypatch.setattr(run_peers, "_current", RunPeers())
    collective.join_discovered(WatchLimits(), 1)
    (address,) = tried
    assert address.port
    return run_peers.current_peers()


HERE: dict[str, list[Any]] = {
    "their machines": [socket.gethostname()],
    "where process 0 listens": [None],
}
NONE: dict[str, list[Any]] = {"who has reached process 0": [""], "join": []}


def test_processes_watch_each_other_by_a_channel_if_all_have_reached_process_0(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    assert not isinstance(found_by_jax(monkeypatch, HERE | NONE), CollectivePeers)
    assert not caplog.records


@pytest.mark.parametrize(
    "failed",
    [{"who has reached process 0": ["no answer of 10.0.0.1"]}, {"join": ["no answer of 10.0.0.1"]}],
)
def test_a_channel_that_one_process_cannot_have_is_told_and_nobody_has_it(
    failed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    assert isinstance(found_by_jax(monkeypatch, HERE | NONE | failed), CollectivePeers)
    (record,) = caplog.records
    assert "missing or slow later on can not be named: no answer" in record.getMessage()


def test_process_0_listens_where_others_can_reach_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost.localdomain")
    monkeypatch.setattr(HostAddress, "is_loopback_name", property(lambda self: True))
    host, port = collective.choose_listen_address(alone=False)
    assert port
    assert host != "localhost.localdomain"
    assert collective.choose_listen_address(alone=True)[0] == "127.0.0.1"


def test_what_one_process_denies_holds_nowhere(monkeypatch: pytest.MonkeyPatch):
    class Two(RunPeers):
        def gather_values(self, name, value):
            return [value, name == "agreed"]

    monkeypatch.setattr(collective, "current_peers", Two)
    assert true_on_all_processes("agreed", True)
    assert not true_on_all_processes("denied", True)
    assert not true_on_all_processes("agreed", False)
