"""A process that meets others and then does as it is told, without JAX: see test_peers.py.

python -m tests.runtime.process INDEX COUNT ADDRESS SECONDS [steps | hang | fail | ...] LIMITS

LIMITS are those of `WatchLimits`, JSON; without one a process has far longer than it needs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from mllm_jax.runtime.agreement import AgreementError, check_agreement
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.interrupt import InterruptibleContext, interrupt_message
from mllm_jax.runtime.peer_group import PeerGroup
from mllm_jax.runtime.peers import join_peers
from mllm_jax.runtime.run_peers import JoinError, PeerError, leave_process
from mllm_jax.runtime.watch import WatchLimits
from mllm_jax.runtime.wire import HostAddress


def main(
    index: int, count: int, address: str, seconds: float, action: str, given: dict[str, float]
) -> int:
    """Meet, act, part."""
    limits = WatchLimits(**{"silent": 120.0, "stalled": 120.0, "longest": 240.0} | given)
    try:
        peers = join_peers(index, count, HostAddress.parse(address), limits, seconds)
    except (JoinError, PeerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return ExitCode.BAD_INPUT if isinstance(error, JoinError) else ExitCode.LOST_PEER
    try:
        check_agreement("facts", {"same": 1, "train.seed": 7 if action == "differ" else 0})
    except AgreementError as error:
        sys.stderr.write(f"error: {error}\n")
        peers.leave_run(ExitCode.BAD_INPUT, str(error))
        leave_process(ExitCode.BAD_INPUT)
    assert peers.gather_values("numbers", index) == [*range(count)]
    assert peers.gather_values("numbers", [index]) == [[i] for i in range(count)]
    sys.stdout.write("met\n")
    sys.stdout.flush()
    try:
        with InterruptibleContext():
            act(peers, action)
    except KeyboardInterrupt:
        sys.stderr.write(interrupt_message() + "\n")
        peers.leave_run(ExitCode.INTERRUPTED, "interrupted")
        leave_process(ExitCode.INTERRUPTED)
    peers.gather_values("all is done", None)
    peers.leave_run(ExitCode.OK)
    return ExitCode.OK


def act(peers: PeerGroup, action: str) -> None:
    """The actions of this process among the others."""
    if action == "hang":
        peers.note_activity("step 1")
        time.sleep(3600)
    if action == "wait":
        with peers.watching_wait("step 1"):
            time.sleep(3600)
    if action in ("pass", "held"):  # of a wait that ends for all, one process comes not out
        with peers.watching_wait("step 1"):
            time.sleep(3600 if action == "held" else 0)
    if action == "unsent":
        peers._gather_values = lambda name, value: asyncio.sleep(3600)  # type: ignore
        peers.gather_values("all is done", None)
    if action == "late":
        time.sleep(1)
        act(peers, "hang")
    if action == "endless":
        peers.note_activity("compiling", limited=False)
        time.sleep(3600)
    if action == "compile":
        peers.note_activity("compiling", limited=False)
        time.sleep(5)
    if action == "evaluate":
        peers.note_activity("evaluating", limited=False)
        peers.gather_values("a program is compiled", None)
        time.sleep(5)
    if action in ("fail", "unfit"):
        code = ExitCode.BAD_DATA if action == "fail" else ExitCode.UNFIT
        peers.leave_run(code, "it is at its end")
        leave_process(code)
    for step in range(1, 200 if action == "steps" else 3):
        peers.note_activity(f"step {step}")
        time.sleep(0.1)


if __name__ == "__main__":
    number, of, at, patience, acts, limited = sys.argv[1:]
    sys.exit(main(int(number), int(of), at, float(patience), acts, json.loads(limited)))
