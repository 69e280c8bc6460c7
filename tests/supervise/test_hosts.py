"""Supervisors of several hosts, here processes of one: attempts that all take part in."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.lock import run_lock
from mllm_jax.runtime.wire import HostAddress
from mllm_jax.supervise import messages
from mllm_jax.supervise.coordinator_events import FinishRun, LeaveRun, SupervisorJoined
from mllm_jax.supervise.follower import FollowerSupervisor
from mllm_jax.supervise.leader import LeaderSupervisor, OtherSupervisor
from mllm_jax.supervise.messages import LeaderAlive, SupervisorHello
from mllm_jax.supervise.supervisor import LeadState, SupervisorConfig
from tests.runtime.test_peers import HEARD, free_port
from tests.runtime.test_processes import EVERYWHERE, listening
from tests.supervise.test_supervisor import Process, attempts, ended, gone, start
from tests.timing import soon


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def pair(
    processes: list[Process], folder: Path, address: str, actions: tuple[str, str], *options: str
) -> tuple[Process, Process]:
    """The supervisors of two processes."""
    first, second = (
        host(processes, folder, address, process, own, *options)
        for process, own in enumerate(actions)
    )
    return first, second


def host(
    processes: list[Process], folder: Path, address: str, process: int, actions: str, *options: str
) -> Process:
    """The supervisor of one of two processes."""
    place = ["--coordinator", address, "--processes", "2", "--process", str(process)]
    return start(processes, folder, actions, *place, *options)


def waiting(folder: Path) -> None:
    """Wait until both processes wait."""
    for process in (0, 1):
        soon((folder / str(process) / "waiting").exists)
    time.sleep(HEARD)


@pytest.mark.parametrize("victim", [0, 1])
def test_all_hosts_begin_again_together_and_the_cause_is_named(
    victim, processes, tmp_path, address
):
    actions = ["steps4 exit6,steps5 done"] * 2
    actions[victim] = "steps4 kill,steps5 done"
    first, second = pair(processes, tmp_path, address, (actions[0], actions[1]))
    killed = "was killed by SIGKILL; its last event: step 4"
    ended(first, ExitCode.OK, "attempt 1 has ended after ", f" s: process {victim} (host ", killed)
    assert ended(second, ExitCode.OK) == ""
    told = [[(line[0], line[3]) for line in attempts(tmp_path, i)] for i in (0, 1)]
    assert told[0] == told[1]
    assert [number for number, _ in told[0]] == ["1", "2"]
    meetings = {meeting for _, meeting in told[0]}
    assert address not in meetings
    assert {meeting.rpartition(":")[0] for meeting in meetings} == {"127.0.0.1"}


def test_a_process_that_hangs_is_named_on_another_host_and_all_end(processes, tmp_path, address):
    actions = "steps4 wait,done", "steps5 stop,done"
    first, second = pair(processes, tmp_path, address, actions, "--silent", "3")
    said = ended(first, ExitCode.OK, "process 1 (host ", "no heartbeat", "its last event: step 5")
    ended(second, ExitCode.OK)
    for process in (0, 1):
        path = tmp_path / "stacks" / f"attempt-1-process-{process}.txt"
        assert str(path) in said
        assert "Thread 0x" in path.read_text()


def test_a_host_that_is_started_again_joins(processes, tmp_path, address):
    first, second = pair(processes, tmp_path, address, ("steps4 wait,done", "steps4 wait,done"))
    waiting(tmp_path)
    assert not listening(first.pid) & EVERYWHERE
    second.kill()
    soon(lambda: gone(int(attempts(tmp_path, 0)[0][1])))
    ended(host(processes, tmp_path, address, 1, "steps4 wait,done"), ExitCode.OK)
    ended(
        first,
        ExitCode.OK,
        "process 1 (host ",
        "is gone with its supervisor; its last event: step 4",
    )
    assert all(gone(int(line[1])) for i in (0, 1) for line in attempts(tmp_path, i))


def test_a_leader_that_is_started_again_goes_on_with_the_next_number(processes, tmp_path, address):
    first, second = pair(processes, tmp_path, address, ("steps4 wait,done", "steps4 wait,done"))
    waiting(tmp_path)
    first.kill()
    soon(lambda: gone(int(attempts(tmp_path, 1)[0][1])))
    ended(host(processes, tmp_path, address, 0, "steps4 wait,done"), ExitCode.OK)
    ended(second, ExitCode.OK, "the connection to the supervisor of process 0 is gone")
    assert [line[0] for line in attempts(tmp_path, 0)] == ["1", "2"]


def test_supervisors_that_do_not_fit_are_refused_by_name(processes, tmp_path, address):
    first, second = pair(processes, tmp_path, address, ("wait,done", "wait,done"))
    waiting(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    ended(
        host(processes, elsewhere, address, 1, "done"),
        ExitCode.BAD_INPUT,
        f"has the run folder {elsewhere}, that of process 0 {tmp_path}",
    )
    place = ["--coordinator", address, "--process", "2", "--processes", "3"]
    told = "was started with --processes 3, process 0 with 2"
    ended(start(processes, tmp_path, "done", *place), ExitCode.BAD_INPUT, told)
    (tmp_path / ".supervisor-1").unlink()  # as on another host, which has a folder of its own
    who, why = "the supervisor of process 1 (host ", f", pid {second.pid}, is it"
    late = host(processes, tmp_path, address, 1, "done")
    ended(late, ExitCode.BAD_INPUT, who, f"pid {late.pid}) comes too late: host ", why)
    assert first.poll() is second.poll() is None


def test_a_supervisor_whose_connection_was_cut_may_come_again_at_once(tmp_path):
    leader = LeaderSupervisor(["x"], SupervisorConfig(tmp_path, count=2))
    old = OtherSupervisor(SupervisorJoined(1, "b", 90), None, time.monotonic())
    leader._others[1] = old
    assert (
        leader._unfit_reason(
            SupervisorHello(str(tmp_path), 2, SupervisorJoined(1, "b", 90, attempt=3))
        )
        == ""
    )
    assert "comes too late" in leader._unfit_reason(
        SupervisorHello(str(tmp_path), 2, SupervisorJoined(1, "b", 98))
    )


def test_hosts_that_do_not_come_are_named_on_both_sides(processes, tmp_path, address):
    waits = ["--wait", "0.5"]
    told = "process 1 of 2 found no supervisor of process 0 at " + address
    ended(host(processes, tmp_path, address, 1, "done", *waits), ExitCode.LOST_PEER, told)
    told = "the supervisor of process 1 of 2 did not come within 0.5 s (run.wait_for_hosts)"
    ended(host(processes, tmp_path, address, 0, "done", *waits), ExitCode.LOST_PEER, told)


def test_hosts_go_on_without_one_that_does_not_come_back(processes, tmp_path, address):
    options = ["--wait", "6", "--fewer", "1"]
    actions = "steps4 wait,steps5 done", "steps4 wait,done"
    first, second = pair(processes, tmp_path, address, actions, *options)
    waiting(tmp_path)
    second.kill()
    told = "the supervisor of process 1 of 2 did not come within 6 s (run.wait_for_hosts): "
    ended(first, ExitCode.OK, told + "going on with 1 of 2 hosts")
    before, after = attempts(tmp_path, 0)
    assert before[4:] == ["2"]
    assert after[3:] == ["None", "1", "parallel.devices=1"]


@pytest.mark.slow
def test_the_next_host_leads_where_that_of_process_0_does_not_come_back(
    processes, tmp_path, address
):
    """Twice: the third one goes on alone. Its process is number 1 first, and then number 0."""
    options = ["--processes", "3", "--wait", "6", "--fewer", "1,2"]
    actions = "steps4 wait,steps5 wait,steps6 done"
    hosts = [host(processes, tmp_path, address, i, actions, *options) for i in range(3)]
    waiting(tmp_path)
    hosts[0].kill()
    soon(lambda: len(attempts(tmp_path, 1)) == 2)
    time.sleep(HEARD)
    hosts[1].kill()
    told = f"process 2 of 3 found no supervisor of process 1 at {address} within 6 s "
    leads = "process 1 leads in place of 0", f"{told}(run.wait_for_hosts): it takes the lead"
    said = ended(hosts[2], ExitCode.OK, *leads)
    assert "did not come" not in said, "it is not waited for twice"
    _, both, alone = attempts(tmp_path, 0)
    assert attempts(tmp_path, 1)[1][3:] == both[3:], "they meet at one place"
    assert both[0] == "2"
    assert both[4:] == ["2", "parallel.devices=2"]
    assert alone[0] == "3"
    assert alone[3:] == ["None", "1", "parallel.devices=1"]


@pytest.mark.slow
@pytest.mark.parametrize("unfit", [0, 1])
def test_hosts_go_on_without_one_that_is_unfit_again(unfit, processes, tmp_path, address):
    """Its supervisor stays, to hear how the run ends, or leaves the lead to the next one."""
    options = ["--wait", "30", "--fewer", "1"]
    actions = ["steps4 exit6,exit6,exit6,steps9 done"] * 2
    actions[unfit] = "steps4 exit1,exit8,exit8,done"
    hosts = pair(processes, tmp_path, address, (actions[0], actions[1]), *options)
    said = [
        ended(own, ExitCode.OK if own is hosts[1] or unfit else ExitCode.UNFIT) for own in hosts
    ]
    told = f"; process {unfit} (host {socket.gethostname()}) is unfit again: going on with 1 of 2"
    assert told in said[0]
    alone = attempts(tmp_path, 0)[-1]  # the process of whichever host is left is number 0
    assert (alone[0], *alone[3:]) == ("4", "None", "1", "parallel.devices=1")
    assert len(attempts(tmp_path, 1)) == 3


def test_a_leader_that_leaves_ends_and_the_others_do_not(tmp_path):
    said = []
    line = SimpleNamespace(send=lambda kind, **rest: said.append({"kind": kind, **rest}))
    leader = LeaderSupervisor(["x"], SupervisorConfig(tmp_path, count=2, fallbacks={1: ()}))
    leader._others[1] = OtherSupervisor(SupervisorJoined(1, "b", 90), line, time.monotonic())
    leader._act_on([LeaveRun(ExitCode.UNFIT, "process 0 is unfit again")])
    assert leader._finish == FinishRun(ExitCode.UNFIT, "process 0 is unfit again")
    place = {
        "process": 1,
        "count": 2,
        "address": HostAddress("127.0.0.1", free_port()),
        "wait": 3600.0,
    }
    follower = FollowerSupervisor(["x"], SupervisorConfig(tmp_path, fallbacks={1: ()}, **place))
    follower._do_action(LeaderAlive(0, ((1, "127.0.0.1:1"),)))
    follower._do_action(messages.parse_order(said[0]))
    assert asyncio.run(follower._find_leader()) is None  # without waiting for the one that has left
    assert follower.lead is not None
    assert follower.lead.left_behind == {0}


def test_no_host_leads_too_few(tmp_path):
    place = {"process": 2, "count": 4, "address": HostAddress("10.0.0.1", 1)}
    follower = FollowerSupervisor(
        ["x"], SupervisorConfig(tmp_path, fallbacks={2: (), 3: ()}, **place)
    )
    assert follower._take_lead("10.0.0.3:1", []) is None
    lead = follower._take_lead("10.0.0.3:1", [(3, "10.0.0.4:1")])
    assert lead == LeadState(HostAddress("10.0.0.3", 1), left_behind=frozenset({0, 1}))
    all_needed = FollowerSupervisor(["x"], SupervisorConfig(tmp_path, **place))
    assert all_needed._take_lead("10.0.0.3:1", [(3, "10.0.0.4:1")]) is None


def test_no_host_leads_where_another_has_the_run(processes, tmp_path, address):
    """Process 0 is alive, on the same disk; the network between them is gone."""
    options = ["--wait", "6", "--fewer", "1"]
    first, second = pair(processes, tmp_path, address, ("steps4 wait", "steps4 wait"), *options)
    waiting(tmp_path)
    first.kill()
    first.wait()
    with run_lock(tmp_path, ".supervisor"):
        told = "process 1 of 2 found no supervisor of process 0 at ", f"run folder {tmp_path} is in"
        ended(second, ExitCode.LOST_PEER, *told)
    assert len(attempts(tmp_path, 1)) == 1
