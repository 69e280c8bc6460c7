"""Phases of training, which profiles show by name, and whose start and end listeners receive.

On the host a step is a `StepTraceAnnotation`, and in it `read`, `agree`, `place`, `wait`, `check`
and `dispatch` are annotations; `copy`, `save` and `evaluate` lie between steps, and so does an
`agree` on whether to stop. The scopes of the compiled step name the work of the devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from mllm_jax.train.events import Listener, Phase, PhaseName, StepStopwatch

#: How profiles name a step of the optimizer.
STEP = "train"


@dataclass
class PhaseWork:
    """The measured work of a phase.

    Attributes:
        result: its result for listeners; set within the phase.
        seconds: seconds that it took; set at its end.
    """

    result: Any = None
    seconds: float = 0.0


@contextmanager
def measure_phase(name: PhaseName, step: int, notify: Listener) -> Iterator[PhaseWork]:
    """Context of a phase; `notify` receives its start and, unless an error ends it, its end."""
    notify(Phase(name, step))
    work = PhaseWork()
    with jax.profiler.TraceAnnotation(name):
        watch = StepStopwatch()
        yield work
    work.seconds = watch.seconds
    notify(Phase(name, step, work.seconds, work.result))
