"""Findings of a self-check, and what is judged by comparing places."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Self

#: A rate below this share of the median of all places like it is a fault.
SLOW = 0.5
#: Likewise of emulated devices, which share their host with all else that runs there.
SLOW_EMULATED = 0.1
#: Likewise, of what data sheets say: no program reaches all of it.
REACHED = 0.33


class HealthError(RuntimeError):
    """Devices, links or machines that are not fit for training; the message names them."""


@dataclass(frozen=True)
class HealthFinding:
    """The finding of one check at one place.

    Attributes:
        check: name of the check.
        place: the device, link or machine that was checked.
        summary: the result, in words.
        rate: bytes per second, of checks that measure them.
        sheet: what the data sheet says of the rate, if there is one.
        fault: what is wrong; empty if nothing is.
        compared_with: the places of the check that its rate is compared with.
        processes: numbers of the processes that have the place: the two ends of a link, or one.
    """

    check: str
    place: str
    summary: str = ""
    rate: float | None = None
    sheet: float | None = None
    fault: str = ""
    compared_with: str = "all"
    processes: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**{**value, "processes": tuple(value["processes"])})


@dataclass(frozen=True)
class HealthReport:
    """The findings of all processes.

    Attributes:
        findings: one for each check and place.
        seconds: how long the checks have taken.
    """

    findings: tuple[HealthFinding, ...]
    seconds: float = 0.0

    @property
    def faults(self) -> list[HealthFinding]:
        """The findings in which something is wrong."""
        return [finding for finding in self.findings if finding.fault]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def unfit_processes(self) -> frozenset[int]:
        """Numbers of the processes that are not fit: as few as explain all faults.

        Of the ends of a link, the one at fault is that with the most faults; of two alike it is the
        later one, as the first process may lead the run.
        """
        unexplained = [frozenset(finding.processes) for finding in self.faults]
        unfit = {
            process for processes in unexplained if len(processes) == 1 for process in processes
        }
        while unexplained := [processes for processes in unexplained if not processes & unfit]:
            counts = Counter(process for processes in unexplained for process in processes)
            unfit.add(max(counts, key=lambda process: (counts[process], process)))
        return frozenset(unfit)

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Table rows: check, place, result."""
        return [
            (finding.check, finding.place, finding.fault or finding.summary)
            for finding in self.findings
        ]

    def __str__(self) -> str:
        checks = len({finding.check for finding in self.findings})
        if self.ok:
            return f"self-check: nothing is wrong, by {checks} checks in {self.seconds:.1f} s"
        lines = [f"  {finding.place}: {finding.fault} ({finding.check})" for finding in self.faults]
        return "\n".join([f"self-check: {len(lines)} fault{'s' * (len(lines) > 1)}", *lines])

    def to_json(self) -> dict[str, Any]:
        """`{"ok", "seconds", "findings": [{"check", "place", "summary", ...}]}`."""
        findings = [finding.to_json() for finding in self.findings]
        return {"ok": self.ok, "seconds": self.seconds, "findings": findings}


def judge_findings(
    findings: Iterable[HealthFinding], slow: float = SLOW
) -> tuple[HealthFinding, ...]:
    """The findings, with a fault where a rate is far below the others' or the data sheet's.

    Args:
        slow: share of the median of the places like it below which a rate is a fault.
    """
    every = list(findings)
    rates: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for finding in every:
        if finding.rate is not None:
            rates[finding.check, finding.compared_with].append(finding.rate)
    return tuple(
        _judge_finding(finding, rates[finding.check, finding.compared_with], slow)
        for finding in every
    )


def _judge_finding(finding: HealthFinding, rates: Sequence[float], slow: float) -> HealthFinding:
    if finding.rate is None or finding.fault:
        return finding
    usual = median(rates)
    if len(rates) > 1 and finding.rate < slow * usual:
        others = f"the median of {finding.compared_with} is {per_second(usual)}"
        fault = f"{per_second(finding.rate)}, {others}"
        return replace(finding, fault=fault)
    if finding.sheet is not None and finding.rate < REACHED * finding.sheet:
        fault = f"{per_second(finding.rate)}, by its data sheet {per_second(finding.sheet)}"
        return replace(finding, fault=fault)
    return finding


def per_second(rate: float) -> str:
    """`12.3 GB/s`."""
    for size, unit in ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s")):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.3g} B/s"
