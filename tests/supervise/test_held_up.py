"""The activity of a process that a place holds up, as others hear of it."""

from __future__ import annotations

import time

import pytest

from data.waits import SOURCE, RetriedCall
from mllm_jax.runtime import run_peers
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.runtime.watch import PeerProcess, WatchLimits, find_fault
from mllm_jax.train.events import Phase
from mllm_jax.train.listeners.listeners import note_activity

LIMITS = WatchLimits(60.0, 100.0)


def test_a_place_that_holds_up_the_data_is_told_and_the_wait_begins_anew_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, found = RunPeers(), list[RetriedCall]()
    monkeypatch.setattr(
        run_peers, "current", lambda key: found[0] if found and key == SOURCE else None
    )
    monkeypatch.setattr("mllm_jax.train.listeners.listeners.current_peers", lambda: own)
    note_activity(Phase("read", 50))
    assert own.present_activity == own.activity
    found.append(RetriedCall(SOURCE, "s3://bucket/train.jsonl", own.activity.since - 7.0, 300.0))
    held = own.present_activity
    told = "waiting for the data of step 50, from s3://bucket/train.jsonl (retry_seconds 300)"
    assert held.event == told
    assert (held.since, held.allowed, held.limited) == (found[0].since, 300.0, True)
    before = time.monotonic()
    own.present_activity  # noqa: B018 - a look, as twice a second
    found.clear()
    after = own.present_activity
    assert after.event == "waiting for the data of step 50"
    assert after.since >= before > own.activity.since
    own.note_activity("step 50")
    assert own.present_activity == own.activity
    found.append(RetriedCall(SOURCE, "s3://bucket/train.jsonl", 0.0, 300.0))
    assert own.present_activity == own.activity  # which waits for no place


@pytest.mark.parametrize(("allowed", "seconds"), [(0.0, 100.0), (30.0, 100.0), (300.0, 360.0)])
def test_a_process_that_a_place_holds_up_is_given_its_retry_seconds(
    allowed: float, seconds: float
) -> None:
    held = PeerProcess(
        0, "a", 1, seconds, "waiting for the data", 0.0, limited=True, allowed=allowed
    )
    waits = PeerProcess(1, "b", 2, seconds, "step 4", 1.0, limited=True, waiting=True)
    assert find_fault([held, waits], seconds + 1.0, LIMITS) is None
    told = find_fault([held, waits], seconds + 1.1, LIMITS)
    by = "run.stall_seconds" if allowed < 300 else "run.hang_seconds beyond retry_seconds"
    assert f"process 0 (host a, pid 1) is stuck: no process goes on since {seconds:g} s ({by})" in (
        told or ""
    )
