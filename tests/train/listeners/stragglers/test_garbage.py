"""Garbage is collected after the same steps on all processes, and by Python at no other time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from mllm_jax.train.events import StepEnded, StepStarted
from mllm_jax.train.listeners.stragglers.garbage import collect_together


class Knot:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.own = self


def taken(step: int) -> StepEnded:
    return StepEnded(step, 1.0, (), {}, 0.0)


def test_garbage_goes_at_its_steps_alone() -> None:
    with collect_together(10) as collect:
        gone = weakref.ref(Knot())
        made: list[list[int]] = [[] for _ in range(100_000)]
        for step in range(1, 10):
            collect(StepStarted(step))
            collect(taken(step))
        assert gone() is not None
        assert len(made) == 100_000
        collect(taken(10))
        assert gone() is None


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """The session of tests freezes what it has imported."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_python_collects_by_itself_before_and_after() -> None:
    there = Knot()
    assert gc.isenabled()
    with collect_together(10):
        assert not gc.isenabled()
        assert frozen(there)
    assert gc.isenabled()
    assert not frozen(there)


def frozen(thing: object) -> bool:
    """Whether collections leave ``thing`` out. The number of frozen objects changes by itself."""
    return not any(found is thing for found in gc.get_objects())


@pytest.mark.usefixtures("nothing_frozen")
def test_what_a_caller_has_frozen_stays_so() -> None:
    theirs = Knot()
    gc.freeze()
    later = Knot()
    with collect_together(10):
        assert not gc.isenabled()
        assert frozen(theirs)
        assert not frozen(later)
    assert frozen(theirs)
    assert not frozen(later)


def test_without_steps_python_collects_whenever_it_wants_to() -> None:
    with collect_together(None) as collect:
        assert gc.isenabled()
        collect(taken(10))
