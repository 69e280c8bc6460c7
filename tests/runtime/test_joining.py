"""Many processes that join, by phases."""

from __future__ import annotations

import pytest

from benchmarks.joining import PHASES, time_joining
from mllm_jax.config.load import ConfigError


def _none_is_started(text: str) -> None:
    raise AssertionError(text)


def test_numbers_that_cannot_be_halved_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--members 20 is no multiple of 8 from 16 on"):
        time_joining(20, lambda text: None)
    with pytest.raises(
        ConfigError, match=r"--members 100000 processes are too many .* at most 1024"
    ):
        time_joining(100_000, _none_is_started)


@pytest.mark.slow
@pytest.mark.multihost
@pytest.mark.timeout(300)
def test_every_phase_is_timed() -> None:
    rows = time_joining(16, lambda text: None)
    assert [row["processes"] for row in rows] == [2, 4, 8, 16]
    for row in rows:
        assert all(row[name] >= 0 for name in PHASES)
        assert sum(row[name] for name in PHASES) == pytest.approx(row["seconds"], abs=0.01)
    assert rows[0]["growth"] is None
    assert rows[-1]["growth"] == pytest.approx(rows[-1]["seconds"] / rows[-2]["seconds"])
