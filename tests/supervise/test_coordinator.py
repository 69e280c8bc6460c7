"""When attempts begin and end: every history of events, without a process."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.runtime.watch import ActivityLimit, PeerProcess, WatchLimits, find_fault
from mllm_jax.supervise.coordinator import GRACE, CoordinatorState, RunCoordinator
from mllm_jax.supervise.coordinator_events import (
    AttemptOver,
    BeginAttempt,
    CoordinatorAction,
    CoordinatorEvent,
    FinishRun,
    HaltAttempt,
    HeartbeatReceived,
    LeaderInterrupted,
    LeaveRun,
    LogLine,
    ProcessEnded,
    SupervisorJoined,
    SupervisorLeft,
)
from mllm_jax.supervise.ends import FINAL, ProcessEnd, find_cause
from mllm_jax.supervise.pace import FACTOR, KNOWN, EventPace, kind_of
from mllm_jax.supervise.policy import LONGEST, AttemptHistory, RestartPolicy

LIMITS = WatchLimits(silent=60.0, stalled=1800.0, longest=7200.0)
POLICY = RestartPolicy(restarts=2, backoff=4.0)


def beat(attempt=1, step=0, event="step 1", since=0.0, time=0.0, waiting=False) -> Heartbeat:
    return Heartbeat(attempt, 77, step, event, since, limited=True, waiting=waiting, time=time)


def end(process=0, code=0, step=0, halted=False) -> ProcessEnd:
    return ProcessEnd(process, f"host{process}", 77, code, step, f"step {step}", 1.0, halted)


def coordinator(count=1) -> RunCoordinator:
    own = RunCoordinator(count, POLICY, LIMITS, wait=100.0)
    for i in range(count):
        assert own.on_event(SupervisorJoined(i, f"host{i}", i), 0.0) == []
    assert own.on_tick(0.0) == [BeginAttempt(1, True, tuple(range(count)))]
    return own


def heard(own: RunCoordinator, event: CoordinatorEvent, now: float) -> list[CoordinatorAction]:
    """What follows from an event, without records of attempts."""
    return [action for action in own.on_event(event, now) if not isinstance(action, AttemptOver)]


def kinds(actions: list[CoordinatorAction]) -> list[type]:
    return [type(action) for action in actions]


def test_attempts_begin_when_all_hosts_are_there():
    own = RunCoordinator(2, POLICY, LIMITS, wait=100.0)
    own.on_event(SupervisorJoined(0, "a", 1, attempt=6), 0.0)
    assert own.on_tick(99.0) == []
    own.on_event(SupervisorJoined(1, "b", 2, attempt=4), 99.0)
    assert own.on_tick(99.0) == [BeginAttempt(7, True, (0, 1))]


def test_hosts_that_do_not_come_are_named():
    own = RunCoordinator(4, POLICY, LIMITS, wait=100.0)
    for i in (0, 2):
        own.on_event(SupervisorJoined(i, f"host{i}", i), 0.0)
    (finish,) = own.on_tick(100.5)
    assert isinstance(finish, FinishRun)
    assert finish.code == ExitCode.LOST_PEER
    assert "the supervisors of processes 1, 3 of 4 did not come within 100 s" in finish.why


def without(
    count: int, fewer: tuple[int, ...], *there: int
) -> tuple[RunCoordinator, list[CoordinatorAction]]:
    """A coordinator of hosts of which only some have come in time, and what it does then."""
    own = RunCoordinator(count, POLICY, LIMITS, wait=100.0, fewer=fewer)
    for i in there:
        own.on_event(SupervisorJoined(i, f"host{i}", i), 0.0)
    assert own.on_tick(100.0) == []
    return own, own.on_tick(100.5)


def test_hosts_that_do_not_come_are_left_behind_if_enough_others_do():
    own, (say,) = without(4, (2, 3), 0, 1, 3)
    assert isinstance(say, LogLine)
    assert "the supervisor of process 2 of 4 did not come within 100 s" in say.text
    assert say.text.endswith(": going on with 3 of 4 hosts")
    assert own.on_tick(100.75) == [BeginAttempt(1, True, (0, 1, 3))]
    # Nobody waits for it again, but it may come back.
    own.on_event(ProcessEnded(1, end(0, -9, step=3)), 101.0)
    for i in (1, 3):
        own.on_event(ProcessEnded(1, end(i, ExitCode.LOST_PEER, step=3)), 101.0)
    assert own.on_tick(101.0 + POLICY.backoff) == [BeginAttempt(2, False, (0, 1, 3))]
    (say,) = own.on_event(SupervisorJoined(2, "host2", 9), 110.0)
    assert "process 2 (host host2) is back, and takes part from the next attempt on" in say.text
    for i in (0, 1, 3):
        own.on_event(ProcessEnded(2, end(i, -9, step=4)), 111.0)
    assert own.on_tick(111.0 + POLICY.backoff) == [BeginAttempt(3, False, (0, 1, 2, 3))]


def test_who_comes_back_with_a_later_number_changes_that_of_the_next_attempt_alone():
    own, _ = without(3, (2,), 0, 1)
    own.on_tick(100.75)
    own.on_event(SupervisorJoined(2, "host2", 9, attempt=7), 101.0)
    assert own.on_event(HeartbeatReceived(0, beat(1, step=3, time=102.0)), 102.0) == []
    own.on_event(ProcessEnded(1, end(0, -9, step=3)), 103.0)
    told = own.on_event(ProcessEnded(1, end(1, ExitCode.LOST_PEER, step=3)), 103.0)
    assert "attempt 1 has ended" in told[-1].text
    assert told[-1].text.endswith("attempt 8 begins in 4 s")
    assert own.on_tick(103.0 + POLICY.backoff) == [BeginAttempt(8, False, (0, 1, 2))]


def test_hosts_for_which_there_is_no_plan_wait():
    own, (say,) = without(4, (2,), 0, 1, 3)
    assert say.text.endswith(": going on with 2 of 4 hosts; 1 more waits, for want of a plan")
    assert own.on_tick(100.75) == [BeginAttempt(1, True, (0, 1))]
    assert own.on_event(SupervisorLeft(3), 101.0) == []
    own.on_event(ProcessEnded(1, end(0, -9, step=3)), 102.0)
    own.on_event(ProcessEnded(1, end(1, -9, step=3)), 102.0)
    # The one that has gone is waited for once, as any other.
    assert own.on_tick(150.0) == []
    assert "process 3 of 4 did not come" in own.on_tick(202.5)[0].text
    assert own.on_tick(203.0) == [BeginAttempt(2, False, (0, 1))]


def test_a_run_ends_where_fewer_hosts_are_left_than_it_needs():
    _, (finish,) = without(4, (2, 3), 0)
    assert isinstance(finish, FinishRun)
    assert finish.code == ExitCode.LOST_PEER
    assert finish.why.endswith("within 100 s (run.wait_for_hosts), and run.min_hosts needs 2")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_process_that_was_killed_explains_those_that_have_lost_it(order):
    own = coordinator(2)
    ends = [end(0, ExitCode.LOST_PEER, step=5), end(1, -9, step=5)]
    assert own.on_event(ProcessEnded(1, ends[order[0]]), 10.0) == []
    (say,) = heard(own, ProcessEnded(1, ends[order[1]]), 11.0)
    assert isinstance(say, LogLine)
    assert "process 1 (host host1, pid 77) was killed by SIGKILL" in say.text
    assert own.on_tick(11.0 + POLICY.backoff - 0.1) == []
    assert own.on_tick(11.0 + POLICY.backoff) == [BeginAttempt(2, False, (0, 1))]


def test_processes_that_do_not_end_by_themselves_are_ended():
    own = coordinator(2)
    own.on_event(ProcessEnded(1, end(0, ExitCode.LOST_PEER)), 10.0)
    own.on_event(HeartbeatReceived(1, beat(time=10.0, since=10.0)), 10.0)
    assert own.on_tick(10.0 + GRACE) == []
    assert own.on_tick(10.1 + GRACE) == [HaltAttempt(1)]
    assert own.on_tick(30.0) == []


def test_others_have_time_to_finish_after_one_that_is_done():
    own = coordinator(2)
    own.on_event(ProcessEnded(1, end(0, ExitCode.OK)), 10.0)
    assert own.on_tick(10.0 + LIMITS.silent) == []
    assert heard(own, ProcessEnded(1, end(1, ExitCode.OK)), 70.0) == [FinishRun(ExitCode.OK)]
    assert own.state is CoordinatorState.OVER


def test_a_silent_process_is_named_with_its_last_event_and_the_attempt_ends_everywhere():
    own = coordinator(2)
    for now in range(70):
        own.on_event(
            HeartbeatReceived(0, beat(time=now, since=now, event=f"waiting for step {now}")), now
        )
        if now < 5:
            own.on_event(
                HeartbeatReceived(1, beat(time=now, since=now, event=f"step {now}", step=now)), now
            )
        actions = own.on_tick(now)
        if actions:
            break
    assert kinds(actions) == [LogLine, HaltAttempt]
    assert now == 65
    assert "process 1 (host host1, pid 77) is stuck or gone: no heartbeat" in actions[0].text
    assert "its last event: step 4, 61 s ago" in actions[0].text


def test_a_process_that_lives_and_does_not_move_is_named_within_hang_seconds():
    own = coordinator(2)
    for now in range(100):
        moved = min(now, 9)
        last = {"time": now, "since": moved}
        own.on_event(
            HeartbeatReceived(0, beat(event=f"waiting for step {moved}", waiting=True, **last)), now
        )
        own.on_event(HeartbeatReceived(1, beat(event=f"step {moved}", **last)), now)
        actions = own.on_tick(now)
        if actions:
            break
    assert kinds(actions) == [LogLine, HaltAttempt]
    assert now == 9 + LIMITS.silent + 1
    assert "process 1 (host host1, pid 77) is stuck" in actions[0].text


def test_what_an_attempt_has_shown_limits_the_next_one():
    """The event that the first one has ended in counts for nothing, however long it has lasted."""
    own = coordinator()
    for now in range(10):
        own.on_event(HeartbeatReceived(0, beat(event=f"step {now}", time=now, since=now)), now)
    own.on_event(ProcessEnded(1, end(0, -9, step=9)), 1000.0)
    assert kinds(own.on_tick(1010.0)) == [BeginAttempt]
    named = LIMITS.silent + 1
    for later in range(round(named) + 1):
        first = beat(attempt=2, event="step 10", time=1010.0 + later, since=1010.0)
        own.on_event(HeartbeatReceived(0, first), 1010.0 + later)
        if actions := own.on_tick(1010.0 + later):
            break
    assert later == named
    assert kinds(actions) == [LogLine, HaltAttempt]


def test_a_host_that_leaves_ends_the_attempt_and_is_waited_for():
    own = coordinator(2)
    said = own.on_event(SupervisorLeft(1), 10.0)
    assert kinds(said) == [LogLine, HaltAttempt]
    assert "process 1 (host host1, pid 0) is gone with its supervisor" in said[0].text
    own.on_event(ProcessEnded(1, end(0, -9, halted=True)), 12.0)
    assert own.on_tick(50.0) == []
    own.on_event(SupervisorJoined(1, "elsewhere", 9), 60.0)
    assert own.on_tick(60.0) == [BeginAttempt(2, True, (0, 1))]


def test_signs_and_ends_of_other_attempts_are_refused_by_name():
    own = coordinator(1)
    (say,) = own.on_event(HeartbeatReceived(0, beat(attempt=3)), 1.0)
    assert "a heartbeat of attempt 3 from process 0 (pid 77) is refused" in say.text
    (say,) = own.on_event(ProcessEnded(3, end(0, -9)), 1.0)
    assert "the end of another attempt is refused" in say.text
    assert own.state is CoordinatorState.RUNNING


def test_an_interruption_between_attempts_ends_the_run():
    own = coordinator(1)
    own.on_event(ProcessEnded(1, end(0, -9)), 1.0)
    (finish,) = own.on_event(LeaderInterrupted(), 2.0)
    assert finish == FinishRun(ExitCode.INTERRUPTED, "interrupted between two attempts")


def unfit(own: RunCoordinator, *hosts: int, now: float, step: int = 0) -> list[CoordinatorAction]:
    """What follows an attempt in which some hosts are unfit, and all others lose them."""
    codes = {i: ExitCode.UNFIT if i in hosts else ExitCode.LOST_PEER for i in own._places}
    return [
        a for i in codes for a in heard(own, ProcessEnded(own.attempt, end(i, codes[i], step)), now)
    ]


def several(count: int, fewer: tuple[int, ...] = (), lead: int = 0) -> RunCoordinator:
    own = RunCoordinator(count, POLICY, LIMITS, wait=100.0, fewer=fewer, lead=lead)
    for i in range(count):
        own.on_event(SupervisorJoined(i, f"host{i}", i), 0.0)
    own.on_tick(0.0)
    return own


def test_a_host_that_is_unfit_again_is_left_out_until_its_command_is_started_anew():
    """As one whose device was lost: an error of the device comes first."""
    own = several(2, fewer=(1,))
    own.on_event(ProcessEnded(1, end(0, ExitCode.LOST_PEER, step=3)), 1.0)
    own.on_event(ProcessEnded(1, end(1, ExitCode.FAILED, step=3)), 1.0)
    assert own.on_tick(10.0) == [BeginAttempt(2, False, (0, 1))]
    (say,) = unfit(own, 1, now=11.0)
    assert "process 1 (host host1, pid 77) ended with exit code 8 (devices of" in say.text
    assert own.on_tick(30.0) == [BeginAttempt(3, False, (0, 1))]
    (say,) = unfit(own, 1, now=31.0)
    told = "; process 1 (host host1) is unfit again: going on with 1 of 2 hosts; attempt 4 begins"
    assert told in say.text
    assert own.on_tick(40.0) == [BeginAttempt(4, False, (0,))]
    # Its supervisor may lose its connection, or end, without any effect.
    assert own.on_event(SupervisorJoined(1, "host1", 1), 41.0) == []
    assert own.on_event(SupervisorLeft(1), 42.0) == []
    own.on_event(ProcessEnded(4, end(0, -9, step=5)), 43.0)
    assert own.on_tick(50.0) == [BeginAttempt(5, False, (0,))]
    (say,) = own.on_event(SupervisorJoined(1, "host1", 9), 51.0)
    assert "process 1 (host host1) is back" in say.text
    own.on_event(ProcessEnded(5, end(0, -9, step=5)), 52.0)
    assert own.on_tick(60.0) == [BeginAttempt(6, False, (0, 1))]
    (say,) = unfit(own, 1, now=61.0)
    assert "again" not in say.text


def test_a_host_that_was_fit_in_between_is_tried_again():
    own = several(2, fewer=(1,))
    unfit(own, 1, now=1.0)
    own.on_tick(10.0)
    unfit(own, now=11.0, step=3)
    own.on_tick(20.0)
    (say,) = unfit(own, 1, now=21.0)
    assert "again" not in say.text
    assert own.on_tick(30.0) == [BeginAttempt(4, False, (0, 1))]


def test_a_host_that_is_back_is_unfit_for_the_first_time():
    own = several(2, fewer=(1,))
    for now in (1.0, 20.0):
        unfit(own, 1, now=now)
        own.on_tick(now + 10)
    own.on_event(SupervisorJoined(1, "host1", 9), 31.0)
    own.on_event(ProcessEnded(3, end(0, -9)), 32.0)
    assert own.on_tick(40.0) == [BeginAttempt(4, True, (0, 1))]
    (say,) = unfit(own, 1, now=41.0)
    assert isinstance(say, LogLine)
    assert "again" not in say.text


def test_hosts_that_go_on_begin_a_new_row_of_attempts():
    """What the host that is left out has cost is no failure of theirs."""
    own = several(2, fewer=(1,))
    unfit(own, now=1.0)
    own.on_tick(10.0)
    unfit(own, 1, now=11.0)
    own.on_tick(20.0)
    (say,) = unfit(own, 1, now=21.0)
    assert isinstance(say, LogLine)
    assert say.text.endswith("going on with 1 of 2 hosts; attempt 4 begins in 4 s")


def test_what_a_supervisor_has_ended_says_nothing_of_its_host():
    own = several(2, fewer=(1,))
    for now in (1.0, 20.0):
        own.on_event(SupervisorLeft(0), now)
        (say,) = heard(own, ProcessEnded(own.attempt, end(1, ExitCode.UNFIT, halted=True)), now)
        assert "unfit again" not in say.text
        own.on_event(SupervisorJoined(0, "host0", 0), now + 5)
        assert own.on_tick(now + 10) == [BeginAttempt(own.attempt, True, (0, 1))]
    for code in (*FINAL, ExitCode.UNFIT):
        ended = end(code=code, halted=True)
        assert not ended.is_final
        assert not ended.is_host_unfit


def test_a_run_ends_with_the_name_of_an_unfit_host_where_it_is_needed():
    for fewer, why in (((), "is unfit again"), ((2,), "is unfit again, and run.min_hosts needs 2")):
        own = several(2 + len(fewer), fewer)
        own.left_behind |= {2} if fewer else set()
        own._places.pop(2, None)
        for now in (1.0, 20.0):
            (last,) = unfit(own, 1, now=now)
            own.on_tick(now + 10)
        assert isinstance(last, FinishRun)
        assert last.code == ExitCode.UNFIT
        assert last.why.endswith(f"; process 1 (host host1) {why}")


@pytest.mark.parametrize("lead", [0, 1])
def test_a_supervisor_that_leads_leaves_an_unfit_host_to_the_others(lead):
    own = several(3, (1, 2), lead)
    unfit(own, lead, now=1.0)
    own.on_tick(10.0)
    (leave,) = unfit(own, lead, now=11.0)
    assert isinstance(leave, LeaveRun)
    assert leave.code == ExitCode.UNFIT
    assert leave.why.endswith(f"(host host{lead}) is unfit again: going on with 2 of 3 hosts")
    assert own.state is CoordinatorState.OVER


CODES = st.sampled_from([-11, -9, 0, 1, 2, 3, 4, 5, 6, 8, 77, 130])


@given(
    st.integers(1, 3),
    st.lists(st.tuples(CODES, st.integers(0, 4), st.integers(0, 2)), min_size=12, max_size=40),
)
def test_every_history_ends_within_its_bounds(count, history):
    """Whatever happens, attempts follow each other, never beyond the bound, and one is the last."""
    own, now, drawn, begun = RunCoordinator(count, POLICY, LIMITS), 0.0, iter(history * count), []
    for i in range(count):
        own.on_event(SupervisorJoined(i, f"host{i}", i), now)
    best, failed, again = 0, 0, dict.fromkeys(range(count), 0)
    while own.state is not CoordinatorState.OVER:
        now = own._pause_ends
        actions = own.on_tick(now)
        assert kinds(actions) == [BeginAttempt]
        begun.append(actions[0].attempt)
        ends = [(i, next(drawn, (1, 0, 0))) for i in range(count)]
        for i, (code, step, late) in ends:
            now += late
            actions = own.on_event(ProcessEnded(own.attempt, end(i, code, step)), now)
        step = max(step for _, (_, step, _) in ends)
        best, failed = (step, 0) if step > best else (best, failed + 1)
        unfit = [i for i, (code, _, _) in ends if code == ExitCode.UNFIT]
        again = {i: (again[i] if failed else 0) + (i in unfit) for i in again}
        needed = any(again[i] > 1 for i in unfit)
        main = find_cause([end(i, code, step) for i, (code, step, _) in ends])
        well = all(code == 0 for _, (code, _, _) in ends)
        final = main.is_final and main.code != 0
        over = well or final or needed or failed > POLICY.restarts
        assert (own.state is CoordinatorState.OVER) == over
        assert kinds(actions) == [AttemptOver, FinishRun if over else LogLine]
        assert actions[0].again != over
        assert actions[0].code == main.code
        if over:
            assert actions[1].code == (0 if well else main.exit_code)
            assert final or not needed or actions[1].code == ExitCode.UNFIT
    assert begun == [*range(1, len(begun) + 1)]
    assert own.on_event(LeaderInterrupted(), now) == own.on_tick(now + 1e9) == []


@given(st.lists(st.tuples(CODES, st.booleans()), min_size=1, max_size=5))
def test_a_cause_is_no_consequence(found):
    ends = [end(i, code, halted=halted) for i, (code, halted) in enumerate(found)]
    main = find_cause(ends)
    own = [e for e in ends if not e.halted and e.code not in (ExitCode.OK, ExitCode.LOST_PEER)]
    errors = [e for e in own if e.code in FINAL] + [e for e in own if e.code == ExitCode.UNFIT]
    if errors:
        assert main == errors[0]
    elif own:
        assert main == own[0]
    else:
        assert main.halted or main.code in (ExitCode.OK, ExitCode.LOST_PEER)


def test_a_signal_that_ends_a_process_is_a_failure_to_whoever_has_started_the_run():
    assert [end(code=code).exit_code for code in (-9, -15, 0, 8, 137)] == [1, 1, 0, 8, 137]
    own = RunCoordinator(1, RestartPolicy(restarts=0), LIMITS)
    own.on_event(SupervisorJoined(0, "host0", 0), 0.0)
    own.on_tick(0.0)
    (finish,) = heard(own, ProcessEnded(1, end(0, -9)), 1.0)
    assert isinstance(finish, FinishRun)
    assert finish.code == ExitCode.FAILED


def test_pauses_are_doubled_up_to_a_bound():
    policy = RestartPolicy(restarts=50, backoff=4.0)
    assert [policy.pause_seconds(n) for n in (0, 1, 2, 3)] == [4.0, 4.0, 8.0, 16.0]
    assert policy.pause_seconds(10_000) == LONGEST
    assert AttemptHistory().after_attempt(5) == AttemptHistory(5, 0)
    assert AttemptHistory(5, 0).after_attempt(5) == AttemptHistory(5, 1)
    assert AttemptHistory(5, 3).after_attempt(6) == AttemptHistory(6, 0)
    assert not AttemptHistory(5, 50).is_exhausted(policy)
    assert AttemptHistory(5, 51).is_exhausted(policy)
    assert AttemptHistory(5, 0).is_exhausted(RestartPolicy(restarts=0))


def paced(seconds: float, *, limited: bool = True) -> EventPace:
    """What events of a kind that last so long have shown."""
    pace = EventPace()
    for step in range(KNOWN + 1):
        assert pace.present_limit(LIMITS) == LIMITS.limit_of(
            limited=limited and pace.beat is not None
        )
        sign = beat(event=f"step {step}", since=step * seconds)
        pace = pace.after_heartbeat(replace(sign, limited=limited))
    return pace


def test_the_pace_of_a_process_limits_what_it_is_at():
    pace = paced(20.0)
    assert pace.present_limit(LIMITS).seconds == FACTOR * 20.0
    assert paced(0.5).present_limit(LIMITS).seconds == LIMITS.silent
    assert paced(500.0).present_limit(LIMITS) == ActivityLimit(1800.0, "run.stall_seconds")
    assert paced(500.0).present_limit(WatchLimits(stalled=None)).seconds == 5000.0
    other = pace.after_heartbeat(beat(event="saving after step 4", since=80.0))
    assert other.present_limit(LIMITS) == LIMITS.limit_of(limited=True)
    assert kind_of("waiting for the data of step 12") == "waiting for the data of step"


def test_the_pace_of_a_process_limits_what_may_take_long():
    assert paced(5.0, limited=False).present_limit(LIMITS).seconds == FACTOR * LIMITS.silent
    assert paced(500.0, limited=False).present_limit(LIMITS).seconds == 5000.0
    assert paced(5000.0, limited=False).present_limit(LIMITS) == ActivityLimit(
        7200.0, "run.phase_seconds"
    )
    pace = paced(5.0, limited=False)
    began = KNOWN * 5.0
    assert pace.after_stop(began + 600.0, LIMITS) == pace
    assert pace.after_stop(began + 600.1, LIMITS).present_limit(LIMITS).seconds == 1200.0


def test_an_event_that_has_ended_an_attempt_is_given_twice_as_long_until_a_new_step():
    pace = paced(5.0)
    began = KNOWN * 5.0
    assert pace.after_stop(began + 60.0, LIMITS) == pace
    for seconds in (120.0, 240.0, 480.0, 960.0, 1800.0, 1800.0):
        pace = pace.after_stop(began + 1e5, LIMITS).before_attempt
        pace = pace.after_heartbeat(beat(event="step 9", since=began))
        assert pace.present_limit(LIMITS).seconds == seconds
    assert pace.present_limit(LIMITS).source == "run.stall_seconds"
    # Other kinds have limits of their own, and one that is not known has no other than before.
    other = pace.after_heartbeat(beat(event="saving after step 9", since=began))
    assert other.after_stop(began + 1e5, LIMITS) == other
    later = pace.after_heartbeat(beat(step=1, event="step 9", since=began))
    assert later.present_limit(LIMITS).seconds == LIMITS.silent


def test_a_place_that_is_tried_again_may_stay_away_for_its_retry_seconds():
    pace = paced(0.1)
    held = replace(beat(event="step 5, from s3://b (retry_seconds 300)", since=0.5), allowed=300.0)
    for number in range(KNOWN + 1):
        pace = pace.after_heartbeat(replace(held, since=number))
        least = ActivityLimit(360.0, "run.hang_seconds beyond retry_seconds")
        assert pace.present_limit(LIMITS) == (
            LIMITS.limit_of(limited=True) if number < KNOWN else least
        )
        pace = pace.after_heartbeat(beat(event="step 5", since=number + 0.5))
        assert pace.present_limit(LIMITS).seconds == LIMITS.silent


@pytest.mark.parametrize("silent", [False, True])
def test_attempts_that_are_ended_at_the_same_place_come_past_it(silent):
    """A step of 100 s among short ones; of a process that is frozen nobody knows what it is at."""
    own, now, ended = coordinator(), 0.0, []
    for attempt in (1, 2, 3):
        for step in range(1, 10):
            own.on_event(
                HeartbeatReceived(0, beat(attempt, step - 1, f"step {step}", now, now)), now
            )
            assert own.on_tick(now) == []
            now += 5.0
        since = now - 5.0
        while now < since + 100.0 and not own.on_tick(now):
            now += 1.0
            if not silent:
                own.on_event(HeartbeatReceived(0, beat(attempt, 8, "step 9", since, now)), now)
        if own.state is CoordinatorState.RUNNING:
            break
        ended.append(now - since)
        own.on_event(ProcessEnded(attempt, end(0, -9, step=8, halted=True)), now)
        now = own._pause_ends
        assert kinds(own.on_tick(now)) == [BeginAttempt]
    assert ended == ([61.0] * 3 if silent else [61.0])
    assert own._places[0].pace.granted == ({} if silent else {"step": 120.0})


def test_the_fourth_event_of_a_kind_is_known():
    """Ten times the longest so far, but no less than ten times `run.hang_seconds`."""
    for seconds, limit in ((100.0, 1000.0), (1.0, 600.0)):
        pace, limits = EventPace(), []
        for number in range(5):
            sign = beat(event=f"evaluating after step {number}", since=number * seconds)
            pace = pace.after_heartbeat(replace(sign, limited=False))
            limits.append(pace.present_limit(LIMITS).seconds)
        assert limits == [7200.0, 7200.0, 7200.0, limit, limit]


@pytest.mark.parametrize("waiting", [True, False])
def test_an_evaluation_that_hangs_is_told_of_by_those_before(waiting):
    """It may have been none that hung: the next attempt gives it twice the time."""
    own, now, told = coordinator(2), 0.0, []
    for attempt, limit in ((1, 600.0), (2, 1200.0)):
        for i in range(10):
            for process in (0, 1):
                long = beat(attempt, 5 * i, f"evaluating after step {5 * i}", now, now)
                own.on_event(
                    HeartbeatReceived(process, replace(long, limited=False, waiting=waiting)), now
                )
                assert own.on_tick(now) == []
            now += 5.0
        since = now - 5.0
        while not (actions := own.on_tick(now)):
            now += 1.0
            for process in (0, 1):
                place = own._places[process]
                own.on_event(HeartbeatReceived(process, replace(place.pace.beat, time=now)), now)
        assert kinds(actions) == [LogLine, HaltAttempt]
        assert limit < now - since <= limit + 2
        told.append(actions[0].text)
        for process in (0, 1):
            own.on_event(
                ProcessEnded(attempt, end(process, -9, step=100 * attempt, halted=True)), now
            )
        now = own._pause_ends
        assert kinds(own.on_tick(now)) == [BeginAttempt]
    why = "(10 times run.hang_seconds, or the longest of its kind so far)"
    said = "all processes wait for each other since" if waiting else "takes longer than"
    assert f"{said} 600 s {why}" in told[0]


def test_a_process_that_stands_is_told_of_while_another_waits_for_what_may_take_long():
    stands = PeerProcess(
        0, "a", 1, heard=100.0, event="saving after step 5", since=20.0, limited=True
    )
    waits = PeerProcess(1, "b", 2, heard=100.0, event="held-out losses", since=25.0, waiting=True)
    told = find_fault([stands, waits], 100.0, WatchLimits(60.0, 50.0))
    assert "process 0 (host a, pid 1) is stuck: no process goes on since 50 s" in str(told)
    assert find_fault([stands, replace(waits, since=51.0)], 100.0, WatchLimits(60.0, 50.0)) is None
    assert (
        find_fault([stands, replace(waits, waiting=False)], 100.0, WatchLimits(60.0, 50.0)) is None
    )
