"""A process that takes steps which are pauses, and compares its times with another one's.

python -m tests.train.listeners.stragglers.process INDEX ADDRESS FOLDER FACTOR GROWTH

Process 1 is FACTOR times as slow between its steps, and GROWTH slower with every window.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from mllm_jax.runtime.peers import join_peers
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.runtime.watch import WatchLimits
from mllm_jax.runtime.wire import HostAddress
from mllm_jax.train.events import Event, Phase, StepEnded, StepStopwatch, ignore_event
from mllm_jax.train.listeners.stragglers.compare import TimeComparison
from mllm_jax.train.listeners.stragglers.timing import StepTimer

#: Steps of a window, windows, and seconds of the parts of a step.
EVERY, WINDOWS = 5, 20
READ, BETWEEN = 0.005, 0.08


def main(index: int, address: str, folder: str, factor: float, growth: float) -> None:
    """Take all steps; process 0 goes on until it has heard the other one."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout, level=logging.INFO)
    join_peers(index, 2, HostAddress.parse(address), WatchLimits(), 30.0)
    timing = StepTimer(EVERY, None)
    comparing = TimeComparison(Path(folder), 0) if index == 0 else ignore_event
    since = StepStopwatch()
    for step in range(1, EVERY * WINDOWS + 1):
        time.sleep(READ)
        slow = factor + growth * (step / EVERY) if index == 1 else 1.0
        time.sleep(BETWEEN * slow)
        seconds, since = since.seconds, StepStopwatch()
        parts: list[Event] = [Phase("read", step, READ, ()), Phase("place", step, 0.001)]
        parts += [Phase("dispatch", step, 0.0), Phase("wait", step, 0.0)]
        for event in (*parts, StepEnded(step, seconds, (), {}, 0.0)):
            timing(event)
            comparing(event)
    current_peers().gather_values("all steps are taken", None)
    comparing(StepEnded(step + 1, 0.0, (), {}, 0.0))  # looks once more
    current_peers().leave_run(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:4], *map(float, sys.argv[4:6]))  # type: ignore[arg-type]
