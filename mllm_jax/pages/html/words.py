"""Numbers in words, short enough for a chart."""

from __future__ import annotations

import math
from collections.abc import Callable

#: Gives the words for a number.
Words = Callable[[float], str]


def format_number(value: float) -> str:
    """Four significant digits, with a unit above 10 000: `0.02593`, `13.2k`."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.4g}"


def format_percent(value: float) -> str:
    """Three significant digits: `0.22 %`, `12.3 %`, `50 %`."""
    return f"{100 * value:.3g} %"


def format_seconds(value: float) -> str:
    """`12.3 ms`, `4.56 s`, `3 min 20 s`, `2 h 05 min`."""
    if 0 < value < 1:
        return f"{1e3 * value:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    minutes, remainder = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {remainder:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def format_times(value: float) -> str:
    """`1.083 x`."""
    return f"{value:.4g} \N{MULTIPLICATION SIGN}"


def format_known(value: float | None, words: Words) -> str:
    """The words for a number, or a dash where it is not known."""
    return "\N{EN DASH}" if value is None or not math.isfinite(value) else words(value)
