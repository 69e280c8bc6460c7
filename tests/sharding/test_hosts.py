"""What hosts tell each other arrives in the order of their numbers, and whatever its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from sharding.hosts import ProcessGroup, _call_once, _power_of_two


@pytest.fixture
def begun() -> list[str]:
    return []


@pytest.fixture
def waited() -> list[str]:
    return []


@pytest.fixture
def cluster(begun: list[str], waited: list[str]) -> ProcessGroup:
    """A cluster of one process."""

    def begin(name: str, program: Any) -> Callable[..., Any]:
        begun.append(name)
        prepared: Callable[..., Any] = program
        return prepared

    @contextmanager
    def wait(what: str) -> Iterator[None]:
        waited.append(what)
        yield

    return ProcessGroup(begin, wait=wait)


@pytest.mark.parametrize("length", [0, 1, 5, 1024, 1025, 3000])
def test_numbers_of_any_length_are_told(
    cluster: ProcessGroup, waited: list[str], length: int
) -> None:
    """Those that are longer than the room are told once more, in more room, which stays."""
    numbers = np.arange(1, length + 1, dtype=np.int32)
    (message,) = cluster.gather(numbers)()
    np.testing.assert_array_equal(message, numbers)
    assert len(waited) == 1 + (length > 1024)
    (message,) = cluster.gather(numbers)()
    np.testing.assert_array_equal(message, numbers)
    assert len(waited) == 2 + (length > 1024)


def test_programs_are_begun_once_by_their_names(cluster: ProcessGroup, begun: list[str]) -> None:
    for size in (3, 3, 4):
        parts, sizes = [np.arange(size, dtype=np.int32)], np.array([[size]])
        (received,) = cluster.exchange(parts, sizes)()
        np.testing.assert_array_equal(received, parts[0])
        cluster.gather(parts[0])()
    assert begun == ["samples to their hosts", "numbers to all"]
    assert (cluster.index, cluster.count, cluster.members) == (0, 1, (0,))


def test_where_nothing_is_sent_nothing_is_begun(
    cluster: ProcessGroup, begun: list[str], waited: list[str]
) -> None:
    (received,) = cluster.exchange([np.zeros(0, np.int32)], np.array([[0]]))()
    assert received.size == 0
    assert begun == waited == []


def test_only_the_first_transfer_of_a_part_of_a_run_is_begun_with_all() -> None:
    calls = _call_once(lambda x: ("first", x), lambda x: ("rest", x))  # type: ignore[arg-type,return-value]
    assert [calls(n) for n in range(3)] == [("first", 0), ("rest", 1), ("rest", 2)]


@pytest.mark.parametrize(
    ("number", "power"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1024, 1024), (1025, 2048)]
)
def test_sizes_are_rounded_up_to_powers_of_two(number: int, power: int) -> None:
    assert _power_of_two(number) == power
