"""What one process cannot read, none goes on without."""

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils

from data.config import DataConfig
from data.lengths import LengthTable
from data.sample import DataError, Lengths
from mllm_jax.train import feed


def fail() -> int:
    raise DataError("no such file")


def test_an_error_here_is_told_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def everywhere(yes: bool) -> bool:
        asked.append(yes)
        return yes

    monkeypatch.setattr(feed, "everywhere", everywhere)
    assert feed.together(lambda: 7) == 7
    with pytest.raises(DataError, match="no such file"):
        feed.together(fail)
    assert asked == [True, False]  # the others are told before this one gives up


def test_an_error_elsewhere_ends_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "everywhere", lambda yes: False)
    with pytest.raises(DataError, match="another process cannot read the data"):
        feed.together(lambda: 7)


@pytest.mark.parametrize("primary", [True, False])
def test_one_process_makes_the_index_before_the_others_open_it(
    primary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    source = object()

    def everywhere(yes: bool) -> bool:
        done.append("together")
        return yes

    def opened(*_: object) -> object:
        done.append("opened")
        return source

    monkeypatch.setattr(feed, "everywhere", everywhere)
    monkeypatch.setattr(feed, "make_source", opened)
    monkeypatch.setattr(feed, "is_primary", lambda: primary)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert feed.shared_source(DataConfig(budgets={"tokens": 1, "segments": 1})) is source
    first, second = (["opened"], []) if primary else ([], ["opened"])
    assert done == [*first, "together", *second, "together"]


def test_processes_with_other_lengths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [LengthTable.of([Lengths(n), "bad"], []) for n in (3, 3, 4)]
    assert tables[0].digest == tables[1].digest != tables[2].digest

    def gathered(digest: np.ndarray) -> np.ndarray:
        return np.array([table.digest for table in tables])

    monkeypatch.setattr(multihost_utils, "process_allgather", gathered)
    with pytest.raises(DataError, match="processes 0 and 2 have measured other lengths"):
        feed.check_same(tables[0])
