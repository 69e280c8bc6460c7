"""Axes of charts: from values to positions in the drawing, with round numbers at the ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Ratio of the largest to the least value from which an axis of positive values is logarithmic.
WIDE = 20.0
#: Ratio below which powers of ten alone are too few ticks.
FEW = 500.0


@dataclass(frozen=True)
class ChartScale:
    """A linear or logarithmic axis.

    Attributes:
        low, high: values at its ends.
        start, end: positions of its ends in the drawing.
        log: whether it is logarithmic; `low` is then above 0.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value in the drawing; values beyond the ends are drawn at the ends."""
        at = self._share_of(min(max(value, self.low), self.high))
        return self.start + at * (self.end - self.start)

    def _share_of(self, value: float) -> float:
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, count: int = 4) -> list[float]:
        """Round values between the ends, about `count` of them."""
        powers = _powers_of_ten(self.low, self.high) if self.log else []
        return powers if len(powers) >= 2 else _round_multiples(self.low, self.high, count)


def make_scale(
    values: Sequence[float], start: float, end: float, *, zero: bool = False, log: bool = False
) -> ChartScale:
    """An axis that holds `values` and a little more.

    Args:
        zero: begin at 0.
        log: be logarithmic if the values are positive and far apart.
    """
    low, high = min(values), max(values)
    if log and low > 0 and high / low >= WIDE:
        return ChartScale(low / 1.15, high * 1.15, start, end, log=True)
    margin = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    if zero:
        return ChartScale(0.0, high + margin, start, end)
    bottom = low - margin
    return ChartScale(0.0 if low >= 0 > bottom else bottom, high + margin, start, end)


def _round_multiples(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [step * n for n in range(first, last + 1)]


def _powers_of_ten(low: float, high: float) -> list[float]:
    """Powers of ten, with their halves and fifths where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < FEW else (1,)
    candidates = [digit * 10.0**power for power in powers for digit in digits]
    return [value for value in candidates if low <= value <= high]
