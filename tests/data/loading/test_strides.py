"""Workers of a loader make every plan once: worker k of n makes the plans k, k + n, and so on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from data.loading.loader import _PlanIterator
from data.loading.prefetch import SlicedDataset


class Counted:
    """A planner whose plans are numbers."""

    def __init__(self) -> None:
        self.number = -1

    def plan(self) -> int:
        self.number += 1
        return self.number


class Endless(SlicedDataset):
    """A stream that is never read."""

    def __iter__(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_plan_is_made_by_one_worker_in_its_turn(workers: int) -> None:
    counted: list[Any] = [Counted() for _ in range(workers)]
    result = [_PlanIterator(planner, k, workers) for k, planner in enumerate(counted)]
    assert [next(result[n % workers]) for n in range(4 * workers)] == list(range(4 * workers))


def test_a_stream_is_cut_into_every_nth_element_and_in_no_other_way() -> None:
    stream = Endless()
    assert (stream.offset, stream.stride) == (0, 1)
    stream.set_slice(slice(2, None, 3))
    assert (stream.offset, stream.stride) == (2, 3)
    for cut, one_after_the_other in ((slice(0, 9, 3), False), (slice(0, None, 3), True)):
        with pytest.raises(ValueError, match="an endless stream cannot be cut into"):
            stream.set_slice(cut, sequential_slice=one_after_the_other)


def test_a_state_of_an_iterator_says_how_many_elements_it_made() -> None:
    planner: Any = SimpleNamespace(plan=lambda: "plan")
    result = _PlanIterator(planner, 0, 1)
    assert result.get_state() == {"elements": 0}
    next(result)
    result.set_state({"elements": 1})
    with pytest.raises(ValueError, match="a loader does not seek"):
        result.set_state({"elements": 0})
