"""The groups that `launch.py plan --slices` has found, beside one group, replicas and halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mllm_jax.plan.groups.planner import MARGIN, GroupPlanner, choose_run
from mllm_jax.plan.prediction import format_count, format_gib
from mllm_jax.plan.report import PlanningError, prepare_file, run_command, write_plan
from scheduling.search.groups.search import GroupSearch
from scheduling.simulate.groups.step import GroupRun

COLUMNS = ("name", "seconds", "speed-up", "GiB", "groups")


@dataclass(frozen=True)
class PlannedGroups:
    """The result of `plan --slices`.

    Attributes:
        planner: what was planned.
        chosen: the step of the plan that was written.
        serial: the step with one module at a time on all devices.
        others: steps of other plans, by name.
        search: the search, which counts plans.
        source: what the costs were predicted from, in words.
        seconds: seconds that the search took.
        file: the configuration that was written.
    """

    planner: GroupPlanner
    chosen: GroupRun
    serial: GroupRun
    others: dict[str, GroupRun]
    search: GroupSearch
    source: str
    seconds: float
    file: Path

    def to_json(self) -> dict[str, Any]:
        """`{"plan", "kind", "groups", "predicted_seconds", "serial_seconds",
        "data_parallel_seconds", "halves_seconds", "devices_seconds", "costs", "simulated",
        "bounded", "refused", "search_seconds", "file"}`; seconds are null of plans that cannot be;
        groups as `{"modules", "devices", "quota", "busy", "memory_bytes"}`."""
        names = {"data_parallel": "replicas", "halves": "halves", "devices": "own devices"}
        others = {
            f"{key}_seconds": self.others[name].seconds if name in self.others else None
            for key, name in names.items()
        }
        return {
            "plan": str(self.chosen.plan),
            "kind": self.chosen.plan.kind,
            "groups": self._describe_groups(),
            "predicted_seconds": self.chosen.seconds,
            "serial_seconds": self.serial.seconds,
            **others,
            "costs": self.source,
            "simulated": self.search.simulated,
            "bounded": self.search.bounded,
            "refused": self.search.refused,
            "search_seconds": self.seconds,
            "file": str(self.file),
        }

    def _describe_groups(self) -> list[dict[str, Any]]:
        groups = zip(self.chosen.plan.groups, self.chosen.busy, self._bytes, strict=True)
        return [
            {
                "modules": list(group.modules),
                "devices": list(group.devices),
                "quota": group.quota,
                "busy": busy,
                "memory_bytes": memory,
            }
            for group, busy, memory in groups
        ]

    @property
    def _bytes(self) -> list[float]:
        """By group, bytes of one of its slices."""
        in_flight = self.chosen.schedule.in_flight
        return [
            self.planner.costs.group_bytes(group, count)
            for group, count in zip(self.chosen.plan.groups, in_flight, strict=True)
        ]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table: the chosen plan and all others."""
        runs = {"chosen": self.chosen, "one group": self.serial, **self.others}
        return [(name, *self._cells(run)) for name, run in runs.items()]

    def _cells(self, run: GroupRun) -> tuple[str, ...]:
        return (
            f"{run.seconds:.4g}",
            f"{self.serial.seconds / run.seconds:.2f}",
            format_gib(self.planner.bytes_of(run)),
            str(run.plan),
        )

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        groups = zip(self.chosen.plan.groups, self.chosen.busy, self._bytes, strict=True)
        each = [
            f"{group}: {format_gib(memory)} GiB, computes {busy:.0%} of the step"
            for group, busy, memory in groups
        ]
        return [
            *each,
            *self._explain_choice(),
            f"costs: {self.source}",
            f"{format_count(self.search.bounded, 'plan', 'plans')} bounded, "
            f"{self.search.simulated} simulated in {self.seconds:.1f} s",
            f"written: {self.file}",
            run_command(self.file),
        ]

    def _explain_choice(self) -> list[str]:
        best = self.search.best
        if best is None or best.plan == self.chosen.plan:
            return []
        gain = 1 - best.seconds / self.chosen.seconds
        reason = f"is predicted to take {gain:.1%} less, and less than {MARGIN:.0%} is no reason"
        return [f"{best.plan} {reason} for more groups"]


def plan_groups(
    planner: GroupPlanner, source: str, file: Path, clock: Callable[[], float]
) -> PlannedGroups:
    """Search groups, compare them with one group, and write the configuration.

    Args:
        source: what the costs are predicted from, in words.
        file: file to write.
        clock: clock of the search, in seconds.

    Raises:
        HardwareError: a module was not measured.
        PlanningError: no plan fits the memory, or the file cannot be written.
        ConfigError: the planned configuration is refused after all.
    """
    prepare_file(file)
    start = clock()
    serial, others = planner.simulate_single(), _simulate_others(planner)
    search = planner.search_all()
    singles = [serial, *(run for run in others.values() if run.plan.is_single)]
    fitting = [run for run in (*singles, search.best) if run and planner.has_room(run)]
    if not fitting:
        raise PlanningError(_describe_no_plan(planner, serial))
    chosen = choose_run(fitting)
    planned = PlannedGroups(planner, chosen, serial, others, search, source, clock() - start, file)
    write_plan(planner.configure_groups(chosen.plan), _head_of(planned), file)
    return planned


def _describe_no_plan(planner: GroupPlanner, serial: GroupRun) -> str:
    needed, there = format_gib(planner.bytes_of(serial)), format_gib(planner.space.memory)
    return (
        f"no groups on {planner.space.devices} devices fit within {there} GiB a device: all "
        f"modules in one need {needed}; valid: more parallel.devices or train.accumulate"
    )


def _simulate_others(planner: GroupPlanner) -> dict[str, GroupRun]:
    """Plans that the chosen one is compared with, by name."""
    runs = {
        "replicas": next(map(planner.simulate_single, _replicas(planner)), None),
        "halves": planner.search_halves(),
        "own devices": planner.search_ranges() if planner.space.devices > 1 else None,
    }
    return {name: run for name, run in runs.items() if run is not None}


def _replicas(planner: GroupPlanner) -> list[int]:
    """Numbers of slices of each device that divide the rows."""
    rows, devices = planner.costs.graph.rows, planner.space.devices
    return [slices for slices in planner.space.replicas if rows % (slices * devices) == 0]


def _head_of(planned: PlannedGroups) -> str:
    """Comments above the configuration."""
    run, serial = planned.chosen, planned.serial
    return (
        f"# {run.plan}.\n# Predicted {run.seconds:.4g} s a step, {serial.seconds:.4g} s with all "
        f"modules on all devices, by {planned.source}.\n"
    )
