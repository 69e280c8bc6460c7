"""Training under faults: does it lose anything, and how soon is it back?

Runs of `launch.py train --supervise` on two to four hosts that this machine plays
(`faults/hosts.py`) are struck by faults that a seed draws (`faults/faults.py`). Every run must end
with the losses of an undisturbed one, to the bit, and with the same samples in every step. Once a
host is lost for good, the others sum in another order: from there on the samples must be the same.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.faults.account import RunDifference, RunRecord, left_over, median_and_worst
from benchmarks.faults.faults import FaultPlan, InjectedFault, Need, draw_plans, possible_kinds
from benchmarks.faults.hosts import EmulatedHosts, NamespaceHosts, probe_namespaces
from benchmarks.faults.run import FailedError, FaultyRun, StruckFault
from benchmarks.faults.thread import probe_hold
from benchmarks.findings import BenchmarkVerdict
from mllm_jax.config.load import ExperimentConfig, to_yaml
from mllm_jax.config.sections import ConfigError
from mllm_jax.models.short_form import module_values

PrintLine = Callable[[str], None]

#: Most seconds from a fault to its detection.
DETECTION = 60.0
#: Faults of a run of the benchmark without a given number.
FAULTS = 12
#: Orphans and files that are printed one by one.
SHOWN = 5
#: Counts that are printed at the end.
_COUNTS = (
    *("samples_lost", "samples_repeated", "orphans", "left_over"),
    *("failed_runs", "undetected", "too_late"),
)
#: Steps of a run besides those that its faults ask for; seconds of a short step.
_MORE, _STEP = 30, 0.1
#: File of the lengths of samples, and the lengths in it.
_LENGTHS, _TOKENS = "lengths.jsonl", (8, 150, 3)


@dataclass
class RunOutcome:
    """What a run has shown.

    Attributes:
        plan: the run and its faults.
        struck: the faults that were brought about.
        failed: why the run has not ended; empty if it has.
        difference: its difference to an undisturbed run; None if it has not ended.
        orphans, left: processes and files that it has left.
    """

    plan: FaultPlan
    struck: list[StruckFault] = field(default_factory=list)
    failed: str = ""
    difference: RunDifference | None = None
    orphans: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def bit_equal(self) -> bool:
        """Whether its losses are those of an undisturbed run, as far as they must be."""
        return self.difference is not None and not self.difference.steps

    @property
    def problems(self) -> list[str]:
        """What should not be; empty if all is well."""
        problems = [f"run {self.plan.number} has failed: {self.failed}"] if self.failed else []
        if difference := self.difference:
            if difference.steps:
                problems.append(
                    f"steps {difference.steps[:8]} have other losses than an undisturbed run"
                )
            if difference.lost or difference.repeated:
                problems.append(
                    f"{difference.lost} samples are lost, {difference.repeated} are repeated"
                )
        problems += _shorten_list("an orphan", self.orphans) + _shorten_list("left over", self.left)
        problems += [f"not reported: {fault}" for fault in self.struck if fault.undetected]
        problems += [
            f"late: {fault}" for fault in self.struck if (fault.detected or 0.0) > DETECTION
        ]
        return problems


def bench_recovery(
    config: ExperimentConfig,
    print_line: PrintLine = lambda line: None,
    faults: int = FAULTS,
    seed: int = 0,
    run: int | None = None,
    list: bool = False,  # noqa: A002 - named as the option
) -> BenchmarkVerdict:
    """Draw faults, bring them about, and account for what the runs have trained.

    Args:
        config: configuration of the runs, whose `parallel` is set by the number of hosts.
        print_line: prints a line for every fault.
        faults: number of faults in all runs.
        seed: seed of the faults.
        run: number of the only run to make; None: all.
        list: only print the faults.

    Returns:
        `faults`; `bit_equal`, whether all losses are those of undisturbed runs; `samples_lost` and
        `samples_repeated`; `orphans`; `left_over` files; `failed_runs`; `too_late`, faults whose
        run had ended; `undetected`, faults that no supervisor has reported though they must have
        ended an attempt; `detection_seconds` and `recovery_seconds`, to the first new step, of the
        faults that have ended an attempt; `named`, how many of these their host reported;
        and `ridden_out`, the faults that have ended none. The last five are given by kind of fault,
        too. And `problems`, each with the command that reproduces it.

    Raises:
        ConfigError: there is no run of that number.
    """
    folder = Path(tempfile.mkdtemp(prefix="mllm_jax-recovery-"))
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        make = _choose_hosts(folder, print_line)
        plans = _choose_plans(
            draw_plans(faults, seed, possible_kinds(_list_needs(make, print_line))), run
        )
        if list:
            lines = [str(plan) for plan in plans]
            return BenchmarkVerdict({"runs": [asdict(plan) for plan in plans]}, lines=lines)
        bench = _Bench(config, folder, make, print_line)
        counts = sorted({plan.hosts for plan in plans})
        outcomes = [outcome for count in counts for outcome in bench.run_plans(count, plans)]
        lines = _list_problems(outcomes, f"--faults {faults} --seed {seed}")
        if lines:
            ends.pop_all()  # the logs are wanted
            lines.append(f"logs are in {folder}")
    figures = _summarise_outcomes(outcomes) | {"problems": lines}
    return BenchmarkVerdict(
        figures, _make_rows(figures), [_format_summary(figures), *lines], ok=not lines
    )


def _choose_plans(drawn: Sequence[FaultPlan], run: int | None) -> Sequence[FaultPlan]:
    """The runs to make."""
    chosen = [plan for plan in drawn if run in (None, plan.number)]
    if drawn and not chosen:
        valid = f"1 to {len(drawn)}" if len(drawn) > 1 else "1"
        problem = f"--run {run} is not one of the {len(drawn)} runs that are drawn; valid: {valid}"
        raise ConfigError("bench recovery", [problem])
    return chosen


def _choose_hosts(folder: Path, print_line: PrintLine) -> type[EmulatedHosts]:
    """The kind of hosts that is possible here; prints a line if they have no namespaces."""
    why = probe_namespaces(folder)
    if not why:
        return NamespaceHosts
    print_line(f"hosts are plain processes, without faults of links and disks: {why}")
    return EmulatedHosts


def _list_needs(make: type[EmulatedHosts], print_line: PrintLine) -> list[Need]:
    """What faults may need here; a line says so if no process can be traced."""
    why = probe_hold()
    if not why:
        return [*make.able, "trace"]
    print_line(f"no process is made to stand with a thread that beats: {why}")
    return [*make.able]


def _list_problems(outcomes: Sequence[RunOutcome], drawn: str) -> list[str]:
    """All problems, each with what reproduces it."""
    return [
        f"{problem}\n  reproduce it: launch.py bench recovery {drawn} --run {outcome.plan.number}"
        for outcome in outcomes
        for problem in outcome.problems
    ]


@dataclass(frozen=True)
class _Bench:
    """Makes the runs.

    Attributes:
        config: as of `bench_recovery`.
        folder: folder for all files.
        make: makes hosts.
        print_line: prints a line of progress.
    """

    config: ExperimentConfig
    folder: Path
    make: type[EmulatedHosts]
    print_line: PrintLine

    def run_plans(self, count: int, plans: Sequence[FaultPlan]) -> Iterator[RunOutcome]:
        """Outcomes of the runs on `count` hosts."""
        of_hosts = [plan for plan in plans if plan.hosts == count]
        place = self.folder / f"hosts-{count}"
        place.mkdir()
        with self.make(count, place) as hosts:
            file = place / "config.yaml"
            file.write_text(to_yaml(self._configure_runs(hosts, of_hosts)))
            lengths = [json.dumps({"tokens": tokens}) for tokens in range(*_TOKENS)]
            (hosts.local_folder / _LENGTHS).write_text("\n".join(lengths))
            self.print_line(f"an undisturbed run of {count} hosts")
            undisturbed = self._run_undisturbed(hosts, file, place)
            for plan in of_hosts:
                self.print_line(f"run {plan.number} of {count} hosts")
                outcome = self._run_plan(plan, hosts, file, place, undisturbed)
                for problem in outcome.problems:
                    self.print_line(f"  {problem}")
                yield outcome

    def _run_undisturbed(self, hosts: EmulatedHosts, file: Path, place: Path) -> RunRecord:
        run = FaultyRun("undisturbed", hosts, [str(file)], place / "undisturbed", self.print_line)
        run.inject_faults([])
        return RunRecord.read_run(run.run)

    def _run_plan(
        self, plan: FaultPlan, hosts: EmulatedHosts, file: Path, place: Path, undisturbed: RunRecord
    ) -> RunOutcome:
        name = f"run-{plan.number}"
        run = FaultyRun(name, hosts, [str(file)], place / name, self.print_line)
        outcome, before = RunOutcome(plan), _list_shared(hosts)
        try:
            outcome.struck = run.inject_faults(plan.faults)
            outcome.difference = RunDifference.between(
                RunRecord.read_run(run.run), undisturbed, run.last_equal_step
            )
            outcome.left = [*self._leftover_files(run), *sorted(_list_shared(hosts) - before)]
        except FailedError as error:
            outcome.failed, outcome.struck = str(error), run.struck
        outcome.orphans = run.left
        if outcome.problems:
            shutil.copytree(run.run, place / name / "run", dirs_exist_ok=True)
        shutil.rmtree(run.run)
        return outcome

    def _leftover_files(self, run: FaultyRun) -> list[str]:
        most = self.config.checkpoint.keep + 1
        aside = sum(struck.fault.kind in ("damage", "delete") for struck in run.struck)
        return [*left_over(run.run, most, aside), *map(str, run.temporary.iterdir())]

    def _configure_runs(self, hosts: EmulatedHosts, plans: Sequence[FaultPlan]) -> ExperimentConfig:
        """The configuration of runs on hosts, each with one device."""
        values = self.config.model_dump()
        steps = max((_count_steps(plan.faults) for plan in plans), default=_MORE)
        values["train"]["steps"] = max(steps, self.config.train.steps)
        values["data"]["source"]["distribution"] = str(hosts.shared_folder / _LENGTHS)
        values["parallel"]["devices"] = hosts.count
        # What two hosts share the parameters of is nowhere else but in a neighbour's copy.
        fsdp = 1 if hosts.count % 2 else 2
        modules = module_values(values["parallel"], self.config.model.backbone)
        for plan in modules.values():
            plan |= {"data": hosts.count // fsdp, "fsdp": fsdp}
        return ExperimentConfig.model_validate(values)


def _list_shared(hosts: EmulatedHosts) -> set[str]:
    """What is in the shared memory of all hosts."""
    places = (hosts.shared_memory(i) for i in range(hosts.count))
    return {str(path) for place in places for path in place.iterdir()}


def _shorten_list(what: str, items: Sequence[str]) -> list[str]:
    """The first few of many."""
    more = [f"{what}: {len(items) - SHOWN} more"] if len(items) > SHOWN else []
    return [f"{what}: {item}" for item in items[:SHOWN]] + more


def _count_steps(faults: Sequence[InjectedFault]) -> int:
    """Steps of a run that should go on until its last fault."""
    slow = {
        fault.number: fault.seconds for fault in faults if fault.kind in ("slow_link", "slow_rank")
    }
    seconds = (
        fault.delay + slow.get(fault.number, 0.0) for fault in faults if fault.moment != "start"
    )
    return _MORE + sum(fault.steps for fault in faults) + int(sum(seconds) / _STEP)


def _summarise_outcomes(outcomes: Sequence[RunOutcome]) -> dict[str, Any]:
    """The figures of all runs."""
    struck = [fault for outcome in outcomes for fault in outcome.struck]
    ended = [outcome.difference for outcome in outcomes if outcome.difference]
    by_kind = defaultdict[str, list[StruckFault]](list)
    for fault in struck:
        by_kind[fault.fault.kind].append(fault)
    return {
        "faults": len(struck),
        "bit_equal": all(outcome.bit_equal for outcome in outcomes),
        "samples_lost": sum(difference.lost for difference in ended),
        "samples_repeated": sum(difference.repeated for difference in ended),
        "orphans": sum(len(outcome.orphans) for outcome in outcomes),
        "left_over": sum(len(outcome.left) for outcome in outcomes),
        "failed_runs": sum(bool(outcome.failed) for outcome in outcomes),
        "too_late": sum(len(outcome.plan.faults) - len(outcome.struck) for outcome in outcomes),
        **_fault_seconds(struck),
        "by_kind": {
            kind: {"faults": len(faults), **_fault_seconds(faults)}
            for kind, faults in by_kind.items()
        },
    }


def _make_rows(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Figures of all faults, and of those of each kind."""
    return [
        {
            "kind": kind,
            "faults": of_kind["faults"],
            "undetected": of_kind["undetected"],
            "ridden out": of_kind["ridden_out"],
            "named": of_kind["named"],
            **{
                f"{what}, {which}": of_kind[f"{what}_seconds"][which]
                for what in ("detection", "recovery")
                for which in ("median", "worst")
            },
        }
        for kind, of_kind in {"all": figures, **figures["by_kind"]}.items()
    ]


def _format_summary(figures: Mapping[str, Any]) -> str:
    """`30 faults: losses equal to the bit; 0 samples lost, ...`"""
    equal = "equal to the bit" if figures["bit_equal"] else "NOT equal"
    counts = ", ".join(f"{figures[name]} {name.replace('_', ' ')}" for name in _COUNTS)
    return f"{figures['faults']} faults: losses {equal}; {counts}"


def _fault_seconds(struck: Sequence[StruckFault]) -> dict[str, Any]:
    reported = [fault for fault in struck if fault.detected is not None]
    return {
        "undetected": sum(fault.undetected for fault in struck),
        "ridden_out": sum(fault.detected is None and not fault.undetected for fault in struck),
        "named": sum(fault.named for fault in reported),
        "detection_seconds": median_and_worst(fault.detected for fault in reported),
        "recovery_seconds": median_and_worst(fault.recovered for fault in struck),
    }
