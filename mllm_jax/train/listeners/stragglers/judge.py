"""Which process or device is slow, by median + 3 MAD of the others, and whether it gets slower.

Values are compared by their logarithms. A value is an outlier of its window if it exceeds the
median of the others by more than 3 scaled median absolute deviations. The deviation is the larger
of two: between the values, if there are enough of them, and in time, of a window from earlier ones.
Only the latter distinguishes two processes. A place that is an outlier in `OFTEN` of its
last `OF` windows is slow.

Times of healthy processes wander: what a machine does besides training lasts for many windows. So a
window is compared with one, two, four, ... windows before, and the lag that differs most counts. A
steady difference, or one that grows evenly, leaves all of these as they are. One that begins is in
a third of the differences at most, which no median minds, as no lag exceeds a quarter of the
windows. Noise that wanders more slowly than that is not known as such: at first, of few windows.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mllm_jax.train.listeners.stragglers.window import WORDS, PhaseTimes

Numbers = NDArray[np.float64]

#: Median absolute deviations that are usual.
DEVIATIONS = 3.0
#: Standard deviations of a normal distribution in its median absolute deviation.
SCALE = 1.4826
#: Windows of which so many as `OFTEN` must be outliers.
OFTEN, OF = 4, 5
#: Windows whose differences tell how much values vary, and the fewest that do.
HISTORY, FEWEST = 200, 6
#: Windows for one of lag in these differences.
WINDOWS_PER_LAG = 4
#: Newest windows that show whether a place gets slower.
RECENT = 40
#: Fewest values that tell how unlike healthy processes are.
ENOUGH = 6
#: Excess over the others that no one minds: as a share of their time, and of a step's.
MINOR, UNNOTICED = 0.05, 0.02


@dataclass(frozen=True)
class SlowPlace:
    """A process or device that is slower than the others.

    Attributes:
        phase: what it is slow in, a key of `WORDS`.
        place: its name.
        seconds: its seconds in the last window.
        usual: median of those of the others.
        excess: excess over the others as a share of their time, `RECENT` windows, newest last.
        pace: seconds of a step, if the phase is part of it.
    """

    phase: str
    place: str
    seconds: float
    usual: float
    excess: tuple[float, ...]
    pace: float | None = None

    @property
    def has_grown(self) -> bool:
        """Whether the excess has grown from each third of the windows to the next."""
        if len(self.excess) < OF:
            return False
        first, middle, last = (float(np.mean(part)) for part in np.array_split(self.excess, 3))
        return middle > first + MINOR / 2 and last > middle + MINOR / 2

    def __str__(self) -> str:
        share = "" if self.pace is None else f", {self.seconds / self.pace:.0%} of a step"
        text = (
            f"{self.place} is slow: {WORDS[self.phase]} takes {1e3 * self.seconds:.3g} ms{share}; "
            f"of the others {1e3 * self.usual:.3g} ms ({self.excess[-1]:+.0%})"
        )
        if self.has_grown:
            text += f", and it gets slower: {self.excess[0]:+.0%} {len(self.excess)} windows ago"
        return text


@dataclass
class _PhaseHistory:
    """The windows of one phase: the excess of every place, and which were outliers."""

    excess: deque[Numbers] = field(default_factory=lambda: deque(maxlen=HISTORY))
    outliers: deque[NDArray[np.bool_]] = field(default_factory=lambda: deque(maxlen=OF))


class StragglerJudge:
    """Compares the windows of a run, one after the other."""

    def __init__(self) -> None:
        self._histories: defaultdict[str, _PhaseHistory] = defaultdict(_PhaseHistory)

    def __call__(self, compared: Sequence[PhaseTimes]) -> list[SlowPlace]:
        """The slow ones after one more window; each call has the same places."""
        return [slow for times in compared for slow in self._find_slow(times)]

    def _find_slow(self, times: PhaseTimes) -> Iterator[SlowPlace]:
        values = np.array(times.seconds)
        if len(values) < 2 or not values.all():
            return
        history, usual = self._histories[times.phase], _median_of_others(values)
        history.excess.append(np.log(values / usual))
        history.outliers.append(self._find_outliers(history, values, usual, times.pace))
        for at in np.flatnonzero(np.sum(history.outliers, axis=0) >= OFTEN):
            excess = tuple(float(np.expm1(window[at])) for window in [*history.excess][-RECENT:])
            yield SlowPlace(
                times.phase, times.places[at], values[at], float(usual[at]), excess, times.pace
            )

    def _find_outliers(
        self, history: _PhaseHistory, values: Numbers, usual: Numbers, pace: float | None
    ) -> NDArray[np.bool_]:
        if len(history.excess) < FEWEST:
            return np.zeros(len(values), bool)
        outliers = history.excess[-1] > max(DEVIATIONS * _deviation_of_places(values), MINOR)
        if pace is not None:
            outliers &= values - usual > UNNOTICED * pace
        excess = np.array(history.excess)[:, outliers]
        outliers[outliers] = excess[-1] > DEVIATIONS * _deviation_in_time(excess)
        return outliers


def _median_of_others(values: Numbers) -> Numbers:
    """`[places]`, for each the median of all others."""
    rising, others = np.sort(values), len(values) - 1
    rank = np.searchsorted(rising, values)  # of equal values it does not matter which is left out
    low, high = ((others - 1) // 2, others // 2)
    return (rising[low + (rank <= low)] + rising[high + (rank <= high)]) / 2


def _deviation_in_time(excess: Numbers) -> Numbers:
    """`[places]`, scaled deviation of the excess `[windows, places]` of a window from earlier ones.

    Differences of independent values vary by the root of two more than the values.
    """
    steps = [excess[lag:] - excess[:-lag] for lag in _choose_lags(len(excess))]
    spreads = [np.median(np.abs(step - np.median(step, axis=0)), axis=0) for step in steps]
    return SCALE * np.max(spreads, axis=0) / np.sqrt(2)


def _choose_lags(windows: int) -> list[int]:
    """Powers of two up to a quarter of the windows, and that quarter: `1 2 4 8 10` of 40."""
    longest = max(1, windows // WINDOWS_PER_LAG)
    return [*(2**power for power in range(longest.bit_length()) if 2**power < longest), longest]


def _deviation_of_places(values: Numbers) -> float:
    """Scaled deviation of the values from their median, as a share of it; 0 of too few values."""
    if len(values) < ENOUGH:
        return 0.0
    return float(SCALE * np.median(np.abs(np.log(values / np.median(values)))))
