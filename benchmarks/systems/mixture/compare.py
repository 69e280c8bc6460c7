"""One program that follows a moving mixture, and systems with plans for the mean mixture.

The decoder's rows are full in every mixture, so that its work stays; the tokens of media, and with
them the work of the encoders, grow with their share. Every system is planned once: for the mean
mixture, with room for the one with most media. Then only the load moves. Loads are even, every row
brings the same; or samples of unequal lengths are drawn (`draws.py`), which this framework
distributes over ranks and microbatches, and the others take as they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import exp, log
from typing import Any

from benchmarks.systems.chain import BaselineStep
from benchmarks.systems.disaggregated import DisaggregatedSystem
from benchmarks.systems.loads import Load, UnevenLoads, workload_of_load
from benchmarks.systems.mixture.adaptive import AdaptiveStrategy, search_adaptive
from benchmarks.systems.mixture.draws import MEDIA, DrawnMixture, SampleDraw
from benchmarks.systems.planned import PlannedOptimus, PlannedSystem, PlanningCase, list_searches
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.plan.mixtures import TokenMixture
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import describe_strategy, format_gib
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.tasks import Consumers

#: The system of this framework among the others.
OURS = "ours"
#: Strategies of the search between two lines of progress.
LINES = 100

PrintLine = Callable[[str], None]


@dataclass(frozen=True)
class ComparisonCell:
    """One system under one mixture.

    Attributes:
        seconds: seconds of a step.
        memory: bytes of a device.
        idle: share of the devices' time in which they do not compute; None where it is not known.
        collectives: the part of it that waits for collectives within tasks; None likewise.
    """

    seconds: float
    memory: float
    idle: float | None = None
    collectives: float | None = None


@dataclass(frozen=True)
class SystemComparison:
    """All systems under all mixtures.

    Attributes:
        name: name of the run.
        hardware: hardware of the devices.
        tokens: tokens of a step.
        limit: bytes of a device that a step may take.
        mixtures: the mixtures.
        draw: how samples were drawn; None: all rows brought the same.
        plans: plan of every system in words, ours first; or why it has none.
        cells: by mixture, the systems that have a plan.
        planned: configuration of our plan, which can be trained.
    """

    name: str
    hardware: Hardware
    tokens: int
    limit: float
    mixtures: tuple[TokenMixture, ...]
    draw: SampleDraw | None
    plans: Mapping[str, str]
    cells: tuple[Mapping[str, ComparisonCell], ...]
    planned: ExperimentConfig

    def gain_of(self, cells: Mapping[str, ComparisonCell]) -> float | None:
        """Seconds of the fastest other system that has room, over ours."""
        others = [
            cell.seconds
            for name, cell in cells.items()
            if name != OURS and cell.memory <= self.limit
        ]
        return min(others) / cells[OURS].seconds if others else None

    def busy_gain(self, cells: Mapping[str, ComparisonCell]) -> float | None:
        """The gain of a step in which our devices computed all the time, as much as they do."""
        gain, idle = self.gain_of(cells), cells[OURS].idle
        return None if gain is None or idle is None else gain / (1 - idle)

    @property
    def mean_gain(self) -> float | None:
        """Geometric mean of the gains over the mixtures in which another system has room."""
        return _geometric_mean(map(self.gain_of, self.cells))

    @property
    def mean_busy_gain(self) -> float | None:
        """Geometric mean of `busy_gain`, likewise."""
        return _geometric_mean(map(self.busy_gain, self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """Head of the table."""
        return ("media:text", *self.plans, "gain", "never idle", "idle", "collectives")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Seconds by mixture and system, our gain over the best other, and our idle time.

        After the gain comes what it would be if our devices were never idle.
        """
        return [
            (
                str(mixture),
                *(self._format_seconds(cells.get(name)) for name in self.plans),
                _format_gain(self.gain_of(cells)),
                _format_gain(self.busy_gain(cells)),
                _format_percent(cells[OURS].idle),
                _format_percent(cells[OURS].collectives),
            )
            for mixture, cells in zip(self.mixtures, self.cells, strict=True)
        ]

    def _format_seconds(self, cell: ComparisonCell | None) -> str:
        if cell is None:
            return "-"
        return f"{cell.seconds:.4g}" + ("" if cell.memory <= self.limit else " no room")

    @property
    def notes(self) -> list[str]:
        """Lines below the table: every plan with its memory, and the mean gain."""
        last = self.cells[-1]
        lines = [
            f"{name}: {plan}"
            + (f"; {format_gib(last[name].memory)} GiB at most" if name in last else "")
            for name, plan in self.plans.items()
        ]
        mean = self.mean_gain
        gain = "no other system has room" if mean is None else f"{mean:.3f}x in the geometric mean"
        lines.append(f"over the best other system: {gain}")
        if (busy := self.mean_busy_gain) is not None:
            lines.append(f"if our devices were never idle: {busy:.3f}x")
        return lines

    def to_json(self) -> dict[str, Any]:
        """`{"name", "hardware", "tokens", "limit_bytes", "draw": {"sigma", "seed"} or null if all
        rows bring the same, "plans", "gain", "busy_gain", "mixtures": [{"mixture", "share", "gain",
        "busy_gain", "systems": {name: {"step_seconds", "tokens_per_second", "memory_bytes", "fits",
        "idle_share", "collectives_share"}}}]}`."""
        return {
            "name": self.name,
            "hardware": self.hardware.name,
            "tokens": self.tokens,
            "limit_bytes": self.limit,
            "draw": None if self.draw is None else asdict(self.draw),
            "plans": dict(self.plans),
            "gain": self.mean_gain,
            "busy_gain": self.mean_busy_gain,
            "mixtures": [
                {
                    "mixture": str(mixture),
                    "share": mixture.share,
                    "gain": self.gain_of(cells),
                    "busy_gain": self.busy_gain(cells),
                    "systems": {name: self._cell_values(cell) for name, cell in cells.items()},
                }
                for mixture, cells in zip(self.mixtures, self.cells, strict=True)
            ],
        }

    def _cell_values(self, cell: ComparisonCell) -> dict[str, Any]:
        return {
            "step_seconds": cell.seconds,
            "tokens_per_second": self.tokens / cell.seconds,
            "memory_bytes": cell.memory,
            "fits": cell.memory <= self.limit,
            "idle_share": cell.idle,
            "collectives_share": cell.collectives,
        }


def _geometric_mean(gains: Iterable[float | None]) -> float | None:
    """Geometric mean of those that are known, None if none is."""
    logs = [log(gain) for gain in gains if gain is not None]
    return exp(sum(logs) / len(logs)) if logs else None


def _format_gain(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.2f}x"


def _format_percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def compare_systems(
    config: ExperimentConfig,
    hardware: Hardware,
    name: str,
    mixtures: Sequence[TokenMixture],
    draw: SampleDraw | None,
    print_line: PrintLine,
) -> SystemComparison:
    """Plan all systems for the mean of the mixtures, and run them under each.

    The plans, `schedule.independent_rows` and `model.remat` of `config` are not used: every system
    finds its own.

    Args:
        name: how `schedule.hardware` calls `hardware`.
        mixtures: in any order; the one with most media must have room.
        draw: how samples are drawn; None: all rows bring the same.

    Raises:
        ConfigError: the encoders have no independent microbatches, the decoder's schedule is not
            1F1B, or a mixture brings more than `data.budgets` of an encoder.
        ScheduleError: no plan of ours has room.
    """
    ordered = tuple(sorted(mixtures, key=lambda mixture: mixture.share))
    _check_config(config, ordered[-1], draw)
    loads = [_Loads(config, mixture.share, draw) for mixture in ordered]
    usual = _Loads(config, sum(mixture.share for mixture in ordered) / len(ordered), draw)
    print_line("tracing what layers keep for their backwards")
    schedule = config.schedule.model_copy(update={"independent_rows": {}})
    planner = PlanSearch(config.model_copy(update={"schedule": schedule}), hardware, name)
    space = replace(planner.space, counts=(config.parallel.devices,))
    workload = planner.workload
    print_line(f"searching the plan of {OURS}")
    moving = [loads[0].mean_loads, usual.mean_loads, loads[-1].mean_loads]
    ours = search_adaptive(space, workload, hardware, moving, _make_reporter(print_line))
    plans = {OURS: _describe_strategy(ours.strategy) + _describe_rows(ours)}
    cells: list[dict[str, ComparisonCell]] = [
        {OURS: cell} for cell in _run_schedules(ours, loads, print_line)
    ]
    mean, largest = (workload_of_load(workload, load.mean_loads) for load in (usual, loads[-1]))
    question = PlanningCase(space, mean, largest, hardware, usual.uneven)
    for system, search in list_searches(question).items():
        print_line(f"searching the plan of {system}")
        try:
            planned_system = search()
        except ScheduleError as error:
            plans[system] = f"none: {error}"
            continue
        plans[system] = _describe_plan(planned_system)
        for by_system, load in zip(cells, loads, strict=True):
            by_system[system] = _make_cell(
                planned_system.with_workload(
                    workload_of_load(workload, load.mean_loads), load.uneven
                )
            )
    tokens = workload.rows * workload.positions[workload.backbone_name]
    facts = config.run.name, hardware, tokens, space.memory, ordered, draw, plans
    return SystemComparison(*facts, tuple(cells), _configure_plan(planner, ours))


def _configure_plan(planner: PlanSearch, ours: AdaptiveStrategy) -> ExperimentConfig:
    """The configuration of our plan, with the rows of the encoders' own microbatches."""
    config, spread = planner.configure_plans(ours.strategy), ours.workload.spread
    rows = {name: count for name, count in spread.items() if count > 1}
    schedule = config.schedule.model_copy(update={"independent_rows": rows})
    return config.model_copy(update={"schedule": schedule})


@dataclass(frozen=True)
class _Loads:
    """Loads of a mixture, which has a share of media.

    Attributes:
        draw: how its samples are drawn; None: all rows bring the same.
    """

    config: ExperimentConfig
    share: float
    draw: SampleDraw | None

    @cached_property
    def samples(self) -> DrawnMixture | None:
        """Its samples."""
        return (
            None
            if self.draw is None
            else DrawnMixture.draw_samples(self.config, self.share, self.draw)
        )

    @cached_property
    def mean_loads(self) -> Load:
        """What a row brings in the mean."""
        return _row_load(self.config, self.share) if self.samples is None else self.samples.load

    @cached_property
    def uneven(self) -> UnevenLoads | None:
        """Rows of systems that run samples as they arrive."""
        return None if self.samples is None else self.samples.uneven

    def draw_consumers(self, ours: AdaptiveStrategy) -> list[list[dict[str, Consumers]]]:
        """In every step, what the encoders' microbatches may feed, the preferred first."""
        if self.samples is None:
            return [[ours.feeds_of(self.mean_loads)]]
        return self.samples.draw_consumers(ours.workload, ours.strategy.microbatches)


def _row_load(config: ExperimentConfig, share: float) -> Load:
    """Input positions for each row of the decoder; all buckets have equally many tokens."""
    model, tokens = config.model, config.data.budgets["tokens"]
    outputs = max(1, round(share * tokens / max(1, len(model.buckets))))
    return {name: outputs * model.reduction(name) for name in model.buckets}


def _fullest_row(config: ExperimentConfig, most: TokenMixture, draw: SampleDraw | None) -> Load:
    """The most input positions of a row; of samples with media of one encoder, each has all."""
    if draw is None:
        return _row_load(config, most.share)
    tokens, share = config.data.budgets["tokens"], max(MEDIA, most.share)
    return {
        name: int(share * tokens) * config.model.reduction(name) for name in config.model.buckets
    }


def _check_config(config: ExperimentConfig, most: TokenMixture, draw: SampleDraw | None) -> None:
    """Raise ConfigError for a configuration whose step cannot follow the mixtures."""
    load = _fullest_row(config, most, draw)
    problems = []
    if not config.schedule.independent_microbatches:
        problems.append(
            "schedule.independent_microbatches: false does not follow a mixture; valid: true"
        )
    if config.schedule.kind != "1f1b":
        problems.append(
            f"schedule.kind: {config.schedule.kind} has no effect, as every system is searched "
            "with the decoder's schedule 1f1b alone; valid: 1f1b"
        )
    if not load:
        problems.append("model: one of text alone has no mixture; valid: one with an encoder")
    problems += [
        f"data.budgets.{name}: {config.data.budgets[name]} holds no row of mixture {most}, which "
        f"brings {positions} positions; valid: {positions} or more, or mixtures with less media"
        for name, positions in load.items()
        if positions > config.data.budgets[name]
    ]
    if problems:
        raise ConfigError("simulate --mixture", problems)


def _make_reporter(print_line: PrintLine) -> Callable[[int, float], None]:
    """Prints a line after every so many strategies."""

    def print_progress(scheduled: int, limit: float) -> None:
        if scheduled % LINES == 0:
            print_line(
                f"{scheduled} strategies scheduled, the fastest with room takes {limit:.4g} s"
            )

    return print_progress


def _run_schedules(
    ours: AdaptiveStrategy, loads: Sequence[_Loads], print_line: PrintLine
) -> list[ComparisonCell]:
    """Our step under every load, the mean of its steps, within the one compiled program."""
    cells = []
    for load in loads:
        schedules = [
            ours.fitting_schedule(feeds_to_try) for feeds_to_try in load.draw_consumers(ours)
        ]
        if full := sum(schedule is ours.full_load_schedule for schedule in schedules):
            print_line(
                f"{full} of {len(schedules)} steps with {load.share:.0%} media fit no schedule "
                "within what is compiled; their encoders run as if they were full"
            )
        simulations = [ours.simulate_schedule(schedule) for schedule in schedules]
        seconds = sum(step.makespan for step in simulations)
        idle = 1 - sum(step.compute for step in simulations) / seconds
        collectives = sum(step.idle["tensor"] for step in simulations) / seconds
        cells.append(
            ComparisonCell(seconds / len(simulations), ours.memory.total, idle, collectives)
        )
    return cells


def _make_cell(system: PlannedSystem) -> ComparisonCell:
    computing = system.compute_share
    return ComparisonCell(
        system.seconds, system.memory, None if computing is None else 1 - computing
    )


def _describe_strategy(strategy: Strategy) -> str:
    """A strategy in one line, with encoders that recompute otherwise."""
    others = {n: r for n, r in strategy.remats.items() if r != strategy.remat}
    suffix = "".join(f", {name} remat {remat}" for name, remat in others.items())
    return describe_strategy(strategy) + suffix


def _describe_rows(adaptive: AdaptiveStrategy) -> str:
    """Rows of own microbatches, of encoders that have more than the decoder."""
    more = {name: rows for name, rows in adaptive.workload.spread.items() if rows > 1}
    return "".join(f", {name} {rows} rows for each" for name, rows in more.items())


def _describe_plan(system: PlannedSystem) -> str:
    """The plan of a system in words."""
    if isinstance(system, DisaggregatedSystem):
        encoders = (
            f"encoders {system.plan} on devices of their own, {system.in_flight} forwards ahead"
        )
        return f"{_describe_strategy(system.chain.strategy)}; {encoders}"
    if isinstance(system, PlannedOptimus):
        optimus = system.planned
        encoders = f"encoders in stages {optimus.stages} x tensor {optimus.tensor}"
        return f"{_describe_strategy(system.chain.strategy)}; {encoders}"
    assert isinstance(system, BaselineStep)
    return _describe_strategy(system.chain.strategy)
