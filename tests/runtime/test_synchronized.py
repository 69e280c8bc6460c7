"""Programs of several processes are compiled everywhere before one runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import pytest
from jax import monitoring

from mllm_jax.runtime.agreement import AgreementError
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.run_peers import RunPeers, current_peers, set_peers


class Two(RunPeers):
    """Process 0 beside one that says the same, or for a program another thing."""

    count = 2

    def __init__(self, events: list[str], other: str | None = None) -> None:
        super().__init__()
        self._events, self._other = events, other

    def gather_values(self, name, value):
        self._events.append(name)
        if self._other and isinstance(value, dict):
            return [value, dict.fromkeys(value, self._other)]
        return [value, self._other or value]

    @contextmanager
    def watching_wait(self, what, *, limited=True, by_all=True):
        self._events.append(f"wait: {what}")
        yield


@pytest.fixture
def events() -> Iterator[list[str]]:
    """The events in their order: names of gathered values, `compiled` and `ran`."""
    happened: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            happened.append("compiled")

    monitoring.register_event_duration_secs_listener(listen)
    alone = current_peers()
    yield happened
    set_peers(alone)
    monitoring.unregister_event_duration_listener(listen)


def test_a_program_is_compiled_then_all_meet_then_it_runs(events):
    zeros, ones = jnp.zeros(3), jnp.ones((2, 2))
    set_peers(Two(events))
    run = synchronize_program("it", jax.jit(lambda x: x * 2 + 1))
    events.clear()
    jax.block_until_ready(run(zeros))
    assert events == ["program of it", "compiled", "it is compiled"]
    run(zeros)
    assert len(events) == 3
    run(ones)  # another shape is another program
    assert events[3:] == ["program of it", "compiled", "it is compiled"]


def test_processes_that_traced_other_programs_are_told(events):
    set_peers(Two(events, other="0123456789ab"))
    with pytest.raises(AgreementError, match=r"process 1 has program of it \"0123456789ab\""):
        synchronize_program("it", jax.jit(lambda x: x * 2))(jnp.zeros(3))
    assert "it is compiled" not in events


class Absent:
    """A program of the other process."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def lower(self, *arguments: object) -> None:
        """Nothing to compile."""

    def __call__(self, x: object) -> str:
        self._events.append("ran")
        return "without shards"


def test_a_process_without_the_program_meets_the_one_that_compiles_it(events):
    set_peers(Two(events, other="0123456789ab"))
    assert synchronize_program("it", Absent(events))(jnp.zeros(3)) == "without shards"
    assert [name for name in events if name != "compiled"] == [
        "program of it",
        "it is compiled",
        "ran",
    ]
