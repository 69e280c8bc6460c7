"""How long processes are waited for once one of them has ended, and who is back afterwards."""

from __future__ import annotations

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.supervise.coordinator import GRACE, UNENDING, CoordinatorState, RunCoordinator
from mllm_jax.supervise.coordinator_events import (
    AttemptOver,
    BeginAttempt,
    FinishRun,
    HaltAttempt,
    HeartbeatReceived,
    LeaderInterrupted,
    LogLine,
    ProcessEnded,
    SupervisorJoined,
)
from mllm_jax.supervise.ends import FINAL
from mllm_jax.supervise.policy import RestartPolicy
from tests.supervise.test_coordinator import (
    LIMITS,
    POLICY,
    beat,
    coordinator,
    end,
    heard,
    kinds,
    several,
    unfit,
)


def halted_at(own: RunCoordinator, now: float) -> float:
    """The time at which the processes that are left are ended."""
    while not (actions := own.on_tick(now)):
        now += 0.5
    assert actions == [HaltAttempt(own.attempt)]
    return now


@pytest.mark.parametrize(
    ("ends", "halted"),
    [
        # One that is done leaves the others as long as a process may be silent.
        ([(10.0, ExitCode.OK)], 10.0 + LIMITS.silent),
        ([(10.0, ExitCode.OK), (30.0, ExitCode.OK)], 10.0 + LIMITS.silent),
        # The first that fails leaves them the grace, from its end on,
        ([(10.0, ExitCode.FAILED)], 10.0 + GRACE),
        ([(10.0, ExitCode.OK), (50.0, ExitCode.FAILED)], 50.0 + GRACE),
        # and no other one after it, whether it fails or not.
        ([(10.0, ExitCode.FAILED), (14.0, ExitCode.FAILED)], 10.0 + GRACE),
        ([(10.0, ExitCode.FAILED), (14.0, ExitCode.OK)], 10.0 + GRACE),
        ([(10.0, ExitCode.OK), (50.0, ExitCode.FAILED), (54.0, ExitCode.FAILED)], 50.0 + GRACE),
        ([(10.0, ExitCode.OK), (50.0, ExitCode.FAILED), (54.0, ExitCode.OK)], 50.0 + GRACE),
    ],
)
def test_the_first_failure_of_an_attempt_gives_the_others_their_grace(ends, halted):
    own = coordinator(4)
    for process, (now, code) in enumerate(ends):
        assert own.on_event(ProcessEnded(1, end(process, code)), now) == []
    assert halted_at(own, ends[-1][0]) == halted + 0.5


@pytest.mark.parametrize("code", [*FINAL - {ExitCode.OK}, ExitCode.FAILED, ExitCode.LOST_PEER, -9])
@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_final_code_ends_a_run_unless_a_fault_was_named_before(code, fault, interrupted):
    """A process that ends with some code after another was named as stuck is no cause."""
    own = coordinator(2)
    now = 1.0
    if fault:
        own.on_event(
            HeartbeatReceived(0, beat(event="waiting", waiting=True, since=1.0, time=65.0)), 65.0
        )
        now = 65.0
        assert kinds(own.on_tick(now)) == [LogLine, HaltAttempt]
    if interrupted:
        assert own.on_event(LeaderInterrupted(), now) == []
    own.on_event(ProcessEnded(1, end(0, code)), now)
    over, last = own.on_event(ProcessEnded(1, end(1, ExitCode.LOST_PEER)), now)
    ends = interrupted or (code in FINAL and not fault)
    assert isinstance(over, AttemptOver)
    assert (over.again, over.hung) == (not ends, fault)
    assert isinstance(last, FinishRun if ends else LogLine)
    if isinstance(last, FinishRun):
        assert last.code == (ExitCode.INTERRUPTED if interrupted else code)
        assert last.why.startswith("attempt 1 is the last: ")
    elif fault:
        assert str(last).count("is stuck") == 0  # it was told as it was seen
    assert ("no heartbeat" in over.why) == fault


@pytest.mark.parametrize(
    ("host", "pid", "back"),
    [("host1", 1, False), ("host1", 9, True), ("elsewhere", 1, True), ("elsewhere", 9, True)],
)
def test_a_host_that_was_left_out_is_back_once_its_supervisor_is_another(host, pid, back):
    own = several(2, fewer=(1,))
    for now in (1.0, 20.0):
        unfit(own, 1, now=now)
        own.on_tick(now + 10)
    assert own.attempt == 3
    assert len(own.on_event(SupervisorJoined(1, host, pid), 31.0)) == back
    # Whoever comes again is not told again.
    assert own.on_event(SupervisorJoined(1, host, pid), 32.0) == []
    own.on_event(ProcessEnded(3, end(0, -9)), 33.0)
    assert own.on_tick(40.0) == [BeginAttempt(4, True, (0, 1) if back else (0,))]


def test_a_host_that_takes_part_may_connect_again():
    own = coordinator(2)
    assert own.on_event(SupervisorJoined(1, "host1", 1), 1.0) == []
    assert own.on_event(SupervisorJoined(0, "elsewhere", 7), 1.0) == []


def test_one_that_was_behind_and_comes_back_is_told_once():
    own = RunCoordinator(2, POLICY, LIMITS, wait=100.0, fewer=(1,), left_behind={1})
    own.on_event(SupervisorJoined(0, "host0", 0), 0.0)
    assert own.on_tick(0.0) == [BeginAttempt(1, True, (0,))]
    (say,) = own.on_event(SupervisorJoined(1, "host1", 1), 1.0)
    assert "process 1 (host host1) is back, and takes part from the next attempt" in say.text
    assert own.on_event(SupervisorJoined(1, "host1", 1), 2.0) == []


def test_a_process_that_cannot_be_ended_ends_the_run():
    own = coordinator(2)
    own.on_event(ProcessEnded(1, end(0, ExitCode.FAILED)), 10.0)
    now = halted_at(own, 10.0)
    assert own.on_tick(now + UNENDING) == []
    (finish,) = own.on_tick(now + UNENDING + 0.5)
    assert isinstance(finish, FinishRun)
    assert finish.code == ExitCode.LOST_PEER
    assert finish.why.startswith("attempt 1 is the last: process 1 (host host1, pid 0) cannot be")
    assert own.state is CoordinatorState.OVER


def test_after_a_supervisor_was_stopped_itself_all_have_their_time_again():
    own = coordinator(2)
    for process in (0, 1):
        own.on_event(
            HeartbeatReceived(process, beat(event="waiting", waiting=True, since=5.0, time=5.0)),
            5.0,
        )
    own.on_wake(500.0)
    assert own.on_tick(500.0 + LIMITS.silent) == []
    assert kinds(own.on_tick(500.5 + LIMITS.silent)) == [LogLine, HaltAttempt]


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_attempts_without_a_new_step_are_bounded(restarts):
    own = RunCoordinator(1, RestartPolicy(restarts=restarts, backoff=1.0), LIMITS, wait=100.0)
    own.on_event(SupervisorJoined(0, "host0", 0), 0.0)
    now, steps = 0.0, [3, *[3] * restarts]
    for attempt, step in enumerate(steps, 1):
        assert own.on_tick(now) == [BeginAttempt(attempt, attempt == 1, (0,))]
        (last,) = heard(own, ProcessEnded(attempt, end(0, -9, step)), now)
        now += 1000.0
    if restarts:
        assert isinstance(last, LogLine)
        own.on_tick(now)
        (last,) = heard(own, ProcessEnded(own.attempt, end(0, -9, 3)), now)
        assert f"{restarts + 1} attempts in a row have taken no new step" in last.why
        assert f"(run.restarts is {restarts})" in last.why
    else:
        assert last.why.endswith("run.restarts is 0: no attempt follows another")
    assert isinstance(last, FinishRun)
    assert last.code == ExitCode.FAILED
