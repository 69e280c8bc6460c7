"""Faults on purpose: how they are drawn and brought about, and how what they leave is counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import recovery
from benchmarks.faults.account import (
    RunDifference,
    RunRecord,
    left_over,
    median_and_worst,
    newest_step,
)
from benchmarks.faults.faults import DELAYS, KINDS, STEPS, draw_plans, possible_kinds
from benchmarks.faults.host import TOLD
from benchmarks.faults.hosts import EmulatedHosts, HostsError, NamespaceHosts, probe_namespaces
from benchmarks.faults.processes import (
    MARK,
    kill_all,
    list_descendants,
    list_orphans,
    list_processes,
)
from benchmarks.faults.strike import fill_disk
from benchmarks.recovery import DETECTION, bench_recovery
from mllm_jax.config.load import load_config
from mllm_jax.config.sections import ConfigError
from mllm_jax.runtime.watch import LIMITS
from mllm_jax.supervise.coordinator import RunCoordinator
from mllm_jax.supervise.coordinator_events import (
    LogLine,
    ProcessEnded,
    SupervisorJoined,
    SupervisorLeft,
)
from mllm_jax.supervise.ends import ProcessEnd
from tests.configs import ROOT
from tests.timing import soon

EVERY = list(KINDS.values())


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_faults_are_drawn_by_the_seed_alone_and_fit_their_hosts(faults: int, seed: int) -> None:
    plans = draw_plans(faults, seed, EVERY)
    assert plans == draw_plans(faults, seed, EVERY)
    every = [(plan, fault) for plan in plans for fault in plan.faults]
    assert [fault.number for _, fault in every] == [*range(1, faults + 1)]
    assert [plan.number for plan in plans] == [*range(1, len(plans) + 1)]
    for plan, fault in every:
        kind = KINDS[fault.kind]
        places = {"first": [0], "others": range(1, plan.hosts), "any": range(plan.hosts)}
        assert fault.host in places[kind.hosts]
        assert fault.moment in kind.moments
        assert 0 <= fault.delay <= DELAYS[fault.moment]
        assert (fault.moment == "start") == (fault.steps == 0)
        assert fault.steps <= STEPS
        assert (fault.seconds > 0) == (kind.lasts is not None)
    assert all(plan.faults[0].moment != "start" for plan in plans)
    assert not any(KINDS[fault.kind].last for plan in plans for fault in plan.faults[:-1])


def test_every_kind_and_moment_is_drawn_and_links_only_where_there_are_some() -> None:
    every = [fault for plan in draw_plans(600, 1, EVERY) for fault in plan.faults]
    assert {*Counter(fault.kind for fault in every)} == {*KINDS}
    assert {fault.moment for fault in every} == {*DELAYS}
    assert {kind.name for kind in EVERY} - {kind.name for kind in possible_kinds(())} == {
        *("cut", "slow_link", "full", "stuck")
    }
    assert possible_kinds((*NamespaceHosts.able, "trace")) == EVERY


def test_a_plan_tells_its_faults() -> None:
    plan = draw_plans(2, 3, [KINDS["cut"]])[0]
    first, second = plan.faults
    lines = str(plan).splitlines()
    assert lines[0] == f"run 1 of {plan.hosts} hosts"
    assert lines[1].split()[:4] == ["1", "cut", "host", str(first.host)]
    assert lines[2].endswith(f"for {second.seconds:.1f} s")


def record(losses: list[float], samples: list[list[int]]) -> RunRecord:
    return RunRecord(
        {n: (loss, 1.0) for n, loss in enumerate(losses, 1)},
        {n: tuple(own) for n, own in enumerate(samples, 1)},
    )


def test_losses_are_compared_to_the_bit_and_samples_step_by_step() -> None:
    whole = record([3.0, 2.0, 1.0], [[0, 1], [2, 4], [3]])
    assert RunDifference.between(whole, whole) == RunDifference((), 0, 0)
    other = record([3.0, 2.0 + 2**-50, 1.0], [[0, 1], [2, 4], [3]])
    assert RunDifference.between(other, whole) == RunDifference((2,), 0, 0)
    assert RunDifference.between(other, whole, last_equal_step=1) == RunDifference((), 0, 0)
    assert RunDifference.between(other, whole, last_equal_step=2) == RunDifference((2,), 0, 0)
    short = record([3.0, 2.0], [[0, 1], [2, 4]])
    assert RunDifference.between(short, whole, last_equal_step=1) == RunDifference((3,), 1, 0)
    assert RunDifference.between(short, whole) == RunDifference((3,), 1, 0)
    again = record([3.0, 2.0, 1.0], [[0, 1], [2, 2, 4], [1]])
    assert RunDifference.between(again, whole) == RunDifference((), 1, 2)


def test_a_record_is_read_from_the_files_of_a_run(tmp_path: Path) -> None:
    lines = [{"step": 1, "loss": 0.1, "gradient_norm": 2.0}, {"step": 1, "heldout_loss": 4.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(own) + "\n" for own in lines))
    (tmp_path / "samples.jsonl").write_text('{"step": 1, "samples": [3, 1]}\n')
    assert RunRecord.read_run(tmp_path) == RunRecord({1: (0.1, 2.0)}, {1: (3, 1)})


def test_the_newest_step_is_that_of_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert newest_step(path) == 0
    path.write_text('{"step": 1}\n{"step": 2}\n{"ste')
    assert newest_step(path) == 2
    path.write_text("".join(f'{{"step": {n}, "x": "{"-" * 500}"}}\n' for n in range(100)))
    assert newest_step(path) == 99


def test_what_a_run_may_leave_is_told_from_what_it_may_not(tmp_path: Path) -> None:
    allowed = ["metrics.jsonl", "attempts/12.supervisor.json", ".lock", "checkpoints/20/state/a"]
    allowed += ["checkpoints/25/state/a", "checkpoints/damaged-20-123/a", ".supervisor-1"]
    allowed += [".identity", "plans/hosts-3.yaml"]
    for name in allowed:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert left_over(tmp_path, most=2, damaged=1) == []
    assert left_over(tmp_path, most=1, damaged=0) == [
        "2 checkpoints, of which it keeps 1",
        "1 damaged checkpoints, of which there can be 0",
    ]
    (tmp_path / "checkpoints" / "30.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "attempts" / ".3.json.812").touch()
    assert left_over(tmp_path, most=2, damaged=1) == [
        "attempts/.3.json.812",
        "checkpoints/30.orbax-checkpoint-tmp",
    ]


def test_medians_and_worst() -> None:
    assert median_and_worst([3.0, 1.0, 2.0, 8.0]) == {"median": 2.5, "worst": 8.0}
    assert median_and_worst([0.0, None, 1.0]) == {"median": 0.5, "worst": 1.0}
    assert median_and_worst([None]) == {"median": None, "worst": None}


def test_processes_are_found_wherever_they_have_gone() -> None:
    mark = f"test-{os.getpid()}"
    program = (
        "import subprocess, sys, time; s = [sys.executable, '-c', 'import time; time.sleep(60)'];"
        "subprocess.Popen(s, start_new_session=True, stdout=subprocess.DEVNULL);"
        "print(flush=True); time.sleep(60)"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | {MARK: mark}, stdout=subprocess.PIPE
    )
    assert first.stdout is not None
    first.stdout.readline()
    every = list_processes(mark)
    assert len(every) == 2
    assert len(list_descendants(first.pid, every)) == 1
    assert list_orphans(mark, [first.pid]) == []
    first.kill()
    first.communicate()
    (left,) = list_orphans(mark, [first.pid])
    assert "time.sleep(60)" in str(left)
    kill_all(mark)
    soon(lambda: not list_processes(mark))


def test_what_supervisors_tell_of_faults_is_understood() -> None:
    own = RunCoordinator(2, limits=LIMITS)
    for process in (0, 1):
        own.on_event(SupervisorJoined(process, "ab"[process], 811), 0.0)
    own.on_tick(0.0)
    said = own.on_tick(61.0) + own.on_event(SupervisorLeft(1), 62.0)
    said += own.on_event(
        ProcessEnded(1, ProcessEnd(0, "a", 812, -signal.SIGKILL, halted=True)), 63.0
    )
    lines = [action.text for action in said if isinstance(action, LogLine)]
    assert len(lines) == 2
    assert all(TOLD.search(line) for line in lines)
    assert not TOLD.search("step 12/80  loss 4.1  attempt")


needs_root = pytest.mark.skipif(bool(os.geteuid()), reason="namespaces need root")


@needs_root
def test_hosts_have_links_and_a_disk_and_nothing_of_them_stays(tmp_path: Path) -> None:
    if why := probe_namespaces(tmp_path):
        pytest.skip(why)
    with NamespaceHosts(2, tmp_path) as hosts:
        server = "import socket; s = socket.create_server(('', 7)); s.accept(); s.accept()"
        listens = subprocess.Popen([*hosts.command_prefix(1), sys.executable, "-c", server])
        assert reaches(hosts)
        hosts.cut_link(1, restore=False)
        assert not reaches(hosts, tries=1)
        hosts.cut_link(1, restore=True)
        hosts.slow_link(1, restore=False)
        assert reaches(hosts)
        hosts.slow_link(1, restore=True)
        listens.wait()
        name = subprocess.check_output([*hosts.command_prefix(1), "uname", "-n"], text=True)
        assert name == "host-1\n"
        (hosts.local_folder / "file").write_text("of the disk")
        words = [*hosts.command_prefix(0), "cat", str(hosts.shared_folder / "file")]
        assert subprocess.check_output(words, text=True) == "of the disk"
        for host in (0, 1):
            (hosts.shared_memory(host) / "folder").mkdir()
            (hosts.shared_memory(host) / "folder" / "file").touch()
            (hosts.shared_memory(host) / "file").touch()
        hosts.lose_memory(1)
        assert [len([*hosts.shared_memory(host).iterdir()]) for host in (0, 1)] == [2, 0]
        fill_disk(hosts.local_folder / "ballast")
        with pytest.raises(OSError, match="No space left on device"):
            (hosts.local_folder / "more").write_bytes(bytes(2**20))
    assert "of the disk" not in [path.name for path in tmp_path.rglob("*")]
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def reaches(hosts: EmulatedHosts, tries: int = 30) -> bool:
    """Whether host 0 reaches what listens on host 1."""
    program = f"import socket; socket.create_connection(({hosts.address_of(1)!r}, 7), timeout=0.5)"
    for _ in range(tries):
        words = [*hosts.command_prefix(0), sys.executable, "-c", program]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return True
    return False


def test_plain_hosts_have_no_links(tmp_path: Path) -> None:
    with EmulatedHosts(2, tmp_path) as hosts, pytest.raises(HostsError, match="no link of its own"):
        hosts.cut_link(1, restore=False)


def test_faults_are_only_listed_if_asked(tmp_path: Path) -> None:
    config = load_config(str(ROOT / "configs" / "bench" / "recovery.yaml"), [])
    verdict = bench_recovery(config, faults=9, seed=4, list=True)
    assert [len(run["faults"]) for run in verdict.values["runs"]] == [6, 3]
    one = bench_recovery(config, faults=9, seed=4, run=2, list=True)
    assert one.values["runs"] == verdict.values["runs"][1:]
    assert "host" in "\n".join(one.lines)
    for wrong in (0, 3):
        with pytest.raises(ConfigError, match=f"--run {wrong} is not one of .* valid: 1 to 2"):
            bench_recovery(config, faults=9, seed=4, run=wrong)


def test_where_namespaces_are_not_allowed_hosts_are_plain_processes_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(recovery, "probe_hold", lambda: "ptrace: Operation not permitted")
    config, said = load_config(str(ROOT / "configs" / "bench" / "recovery.yaml"), []), list[str]()
    verdict = bench_recovery(config, said.append, faults=60, seed=4, list=True)
    assert said == [
        "hosts are plain processes, without faults of links and disks: namespaces of networks need "
        "root",
        "no process is made to stand with a thread that beats: ptrace: Operation not permitted",
    ]
    drawn = {fault["kind"] for run in verdict.values["runs"] for fault in run["faults"]}
    assert drawn == {kind.name for kind in possible_kinds(())}


@pytest.mark.slow
@pytest.mark.multihost
@pytest.mark.timeout(900)
def test_training_loses_nothing_by_faults() -> None:
    config = load_config(str(ROOT / "configs" / "bench" / "recovery.yaml"), [])
    verdict = bench_recovery(config, print, faults=3, seed=3)
    found = verdict.values
    assert verdict.ok, "\n".join(verdict.lines)
    assert found["faults"] == 3
    assert found["bit_equal"]
    assert found["samples_lost"] == found["samples_repeated"] == found["orphans"] == 0
    assert found["detection_seconds"]["worst"] <= DETECTION
