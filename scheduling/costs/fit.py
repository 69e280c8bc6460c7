"""Fits the constants of a description of hardware to measured times.

The cost model's seconds are linear in the fitted values: the inverses of the fractions of
`Efficiency` and its `layer_seconds`, or a link's latency and the inverse of its bandwidth. So the
terms of a time are computed by evaluating the cost model with each constant changed in turn, and
the constants by bounded linear least squares on relative errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

import numpy as np
from scipy.optimize import least_squares, lsq_linear

from scheduling.costs.hardware import Efficiency, Hardware, HardwareError, HardwareLink

#: A term is distinguished from the others if at least this part of it is no combination of them.
SEPARABLE = 0.05
#: Relative errors above this size count linearly in the fit, smaller errors by their square.
OUTLIER = 0.05
#: A term counts as zero if it is a smaller part than this of every time.
NEGLIGIBLE = 1e-6
#: Terms of a task's time, in the order in which the fit gives them up if it cannot separate them.
TERMS = ("memory", "attention", "layer_seconds", "matmul")


@dataclass(frozen=True)
class MeasuredTime:
    """A measured time.

    Attributes:
        name: name of the measurement.
        seconds: seconds measured.
        predict: seconds that the cost model predicts on given hardware.
    """

    name: str
    seconds: float
    predict: Callable[[Hardware], float]

    def __post_init__(self) -> None:
        """Refuse a time that cannot be.

        Raises:
            HardwareError: the time is not above 0, or not finite.
        """
        if not 0 < self.seconds < float("inf"):
            raise HardwareError(
                f"{self.name}: {self.seconds} seconds were measured; valid: finite and above 0"
            )


@dataclass(frozen=True)
class FittedHardware:
    """Hardware whose constants were fitted.

    Attributes:
        hardware: the hardware with the fitted constants.
        undetermined: names of the constants that the times do not determine and that keep their
            values.
        bounds: values of the constants whose fit ends at a bound of their range.
    """

    hardware: Hardware
    undetermined: tuple[str, ...]
    bounds: Mapping[str, float]


def fit_efficiency(
    timed: Sequence[MeasuredTime], hardware: Hardware, *, raise_peaks: bool
) -> FittedHardware:
    """Fit the fractions for products, attention and memory, and `layer_seconds`.

    Args:
        timed: times of tasks of several sizes.
        hardware: hardware whose other constants stay as they are.
        raise_peaks: whether the peaks were measured, so that a fraction above 1 raises the peak.
            Otherwise peaks are those of a data sheet, and fractions are at most 1.

    Raises:
        HardwareError: there are too few times.
    """
    _check_count(timed, len(TERMS))
    problem = _linearize_times(
        timed, TERMS, partial(_with_terms, hardware), _terms_of(hardware.efficiency)
    )
    least = 0.0 if raise_peaks else 1.0
    lower = {name: 0.0 if name == "layer_seconds" else least for name in TERMS}
    solution = problem.find_values(lower, zero_allowed=("layer_seconds",))
    fitted = _with_terms(hardware, solution.values)
    bounds = {name: 0.0 if name == "layer_seconds" else 1.0 for name in sorted(solution.bound)}
    return FittedHardware(
        _raise_peaks(fitted) if raise_peaks else fitted,
        tuple(sorted(solution.undetermined)),
        bounds,
    )


def fit_rows(timed: Sequence[MeasuredTime], hardware: Hardware) -> FittedHardware:
    """Fit the fraction of the memory bandwidth that gathers of rows reach, at most 1.

    Args:
        timed: times of such gathers, of several sizes; their predictions are taken to be
            proportional to the inverse of the fraction.

    Raises:
        HardwareError: there is no time.
    """
    _check_count(timed, 1)
    efficient = _with_efficiency(hardware, {"rows": 1.0})
    fraction = median(each.predict(efficient) / each.seconds for each in timed)
    bounds = {"rows": 1.0} if fraction > 1 else {}
    return FittedHardware(_with_efficiency(hardware, {"rows": min(1.0, fraction)}), (), bounds)


def fit_link(
    timed: Sequence[MeasuredTime], hardware: Hardware, name: str, *, raise_peaks: bool
) -> FittedHardware:
    """Fit latency and reached bandwidth of `link` or `network`.

    Args:
        timed: times of collectives over the link, of several sizes.
        hardware: hardware whose other constants stay as they are.
        name: `"link"` or `"network"`.
        raise_peaks: whether the reached bandwidth replaces the given one, which is no figure of a
            data sheet.

    Raises:
        HardwareError: there are too few times.
    """
    _check_count(timed, 2)
    link: HardwareLink = getattr(hardware, name)
    reached = link.bandwidth * getattr(hardware.efficiency, name)
    start = {"latency": link.latency, "bandwidth": 1 / reached}
    problem = _linearize_times(
        timed, ("latency", "bandwidth"), partial(_with_link, hardware, name), start
    )
    least = 0.0 if raise_peaks else 1 / link.bandwidth
    solution = problem.find_values({"latency": 0.0, "bandwidth": least}, zero_allowed=("latency",))
    fitted = _with_link(hardware, name, solution.values)
    if not raise_peaks:
        fraction = getattr(fitted, name).bandwidth / link.bandwidth
        fitted_link = getattr(fitted, name).model_copy(update={"bandwidth": link.bandwidth})
        fitted = fitted.model_copy(update={name: fitted_link})
        fitted = _with_efficiency(fitted, {name: min(1.0, fraction)})
    limits = {"latency": 0.0, "bandwidth": link.bandwidth}
    bounds = {f"{name}.{key}": limits[key] for key in sorted(solution.bound)}
    return FittedHardware(
        fitted, tuple(f"{name}.{key}" for key in sorted(solution.undetermined)), bounds
    )


def _check_count(timed: Sequence[MeasuredTime], least: int) -> None:
    if len(timed) < least:
        raise HardwareError(
            f"{len(timed)} measured times cannot distinguish {least} constants; measure at least "
            f"{least}"
        )


# ---- constants as the terms that seconds are linear in -------------------------------------------


def _terms_of(efficiency: Efficiency) -> dict[str, float]:
    return {
        name: efficiency.layer_seconds if name == "layer_seconds" else 1 / getattr(efficiency, name)
        for name in TERMS
    }


def _with_terms(hardware: Hardware, terms: Mapping[str, float]) -> Hardware:
    # Not validated: until peaks are raised, fractions may exceed 1.
    return _with_efficiency(
        hardware, {k: v if k == "layer_seconds" else 1 / v for k, v in terms.items()}
    )


def _with_efficiency(hardware: Hardware, values: Mapping[str, float]) -> Hardware:
    efficiency = hardware.efficiency.model_copy(update=dict(values))
    return hardware.model_copy(update={"efficiency": efficiency})


def _with_link(hardware: Hardware, name: str, terms: Mapping[str, float]) -> Hardware:
    values = {"latency": terms["latency"], "bandwidth": 1 / terms["bandwidth"]}
    link = getattr(hardware, name).model_copy(update=values)
    return _with_efficiency(hardware.model_copy(update={name: link}), {name: 1.0})


def _raise_peaks(hardware: Hardware) -> Hardware:
    """Hardware of the same speeds with fractions of at most 1, by higher peaks where necessary."""
    efficiency = hardware.efficiency
    compute, memory = max(1.0, efficiency.matmul, efficiency.attention), max(1.0, efficiency.memory)
    values = {"matmul": efficiency.matmul / compute, "attention": efficiency.attention / compute}
    raised = hardware.model_copy(
        update={
            "flops": {name: compute * flops for name, flops in hardware.flops.items()},
            "memory_bandwidth": memory * hardware.memory_bandwidth,
        }
    )
    return _with_efficiency(raised, values | {"memory": efficiency.memory / memory})


# ---- least squares -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Solution:
    """Values of all terms, and names of those that are not fitted or are at their lower bounds."""

    values: Mapping[str, float]
    undetermined: frozenset[str]
    bound: frozenset[str]


@dataclass(frozen=True, eq=False)
class _Problem:
    """Times as sums of terms: `columns[name] * value + rest = 1`, in units of the measured times.

    Attributes:
        columns: by term, `[times]`: coefficients of its value.
        constant: `[times]`: the part of each time that no term changes.
        start: values of the terms before the fit.
        fixed: names of the terms that keep these values.
    """

    columns: Mapping[str, np.ndarray]
    constant: np.ndarray
    start: Mapping[str, float]
    fixed: frozenset[str] = field(default=frozenset())

    @property
    def free(self) -> list[str]:
        """Terms that are fitted."""
        return [name for name in self.columns if name not in self.fixed]

    def find_values(self, lower: Mapping[str, float], zero_allowed: Sequence[str]) -> _Solution:
        """The terms whose sums are nearest to what was measured.

        Args:
            lower: lower bounds of the values.
            zero_allowed: terms that may be 0; other terms that would vanish count as undetermined.
        """
        hidden = self._find_indistinct()
        if hidden is not None:
            return self._without_term(hidden).find_values(lower, zero_allowed)
        values = dict(self.start)
        if self.free:
            values |= self._fit_values(lower)
        for name in self.free:
            if self._is_negligible(name, values[name]) and name not in zero_allowed:
                return self._without_term(name).find_values(lower, zero_allowed)
        bound = {
            name for name in self.free if self._is_negligible(name, values[name] - lower[name])
        }
        return _Solution(values, self.fixed, frozenset(bound))

    def _is_negligible(self, name: str, value: float) -> bool:
        """Whether a term with this value is a negligible part of every time."""
        return float(np.max(self.columns[name])) * value < NEGLIGIBLE

    def _fit_values(self, lower: Mapping[str, float]) -> dict[str, float]:
        columns = np.stack([self.columns[name] for name in self.free], 1)
        fixed = sum((self.columns[name] * self.start[name] for name in self.fixed), self.constant)
        # Terms differ by many orders of magnitude: seconds against inverse fractions.
        scale = columns.max(0)
        bounds = np.array([lower[name] for name in self.free]) * scale
        matrix, target = columns / scale, 1.0 - fixed
        start = np.maximum(lsq_linear(matrix, target, (bounds, np.inf)).x, bounds)
        result = least_squares(
            lambda x: matrix @ x - target,
            start,
            bounds=(bounds, np.inf),
            loss="soft_l1",
            f_scale=OUTLIER,
            ftol=1e-12,
            xtol=1e-12,
            gtol=1e-12,
        )
        return dict(zip(self.free, (result.x / scale).tolist(), strict=True))

    def _find_indistinct(self) -> str | None:
        """The first free term that the times cannot distinguish from the others, or None."""
        for name in self.free:
            column = self.columns[name]
            others = [self.columns[other] for other in self.free if other != name]
            left = column
            if others:
                matrix = np.stack(others, 1)
                left = column - matrix @ np.linalg.lstsq(matrix, column, rcond=None)[0]
            if np.linalg.norm(left) <= SEPARABLE * np.linalg.norm(column):
                return name
        return None

    def _without_term(self, name: str) -> _Problem:
        return replace(self, fixed=self.fixed | {name})


def _linearize_times(
    timed: Sequence[MeasuredTime],
    names: Sequence[str],
    change: Callable[[Mapping[str, float]], Hardware],
    start: Mapping[str, float],
) -> _Problem:
    """The terms of `timed`: by how much predictions grow with each constant."""

    def seconds(terms: Mapping[str, float]) -> np.ndarray:
        hardware = change(terms)
        return np.array([each.predict(hardware) / each.seconds for each in timed])

    base = seconds(start)
    columns = {}
    for name in names:
        offset = start[name] or 1.0
        columns[name] = (seconds({**start, name: start[name] + offset}) - base) / offset
    constant = base - sum(columns[name] * start[name] for name in names)
    return _Problem(columns, constant, start)
