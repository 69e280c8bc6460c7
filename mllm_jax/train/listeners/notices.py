"""Notices of a run, logged once on process 0: why steps are slow or small, and the first lines."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import SupportsFloat

from rich.console import Console

from data.config import DataConfig
from data.loading.loader import Microbatch
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.devices import is_primary
from mllm_jax.train.events import Event, Phase, StepEnded
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.records.metrics import StepsReport, format_clock

logger = logging.getLogger(__name__)

#: Samples that are named because no balancing helps them.
GIANTS = 10


#: What to change where a step does not fit the compiled slots.
_HELP = (
    "remat: full of the encoder needs no slots of saved; where many steps are like this, "
    "schedule.independent_microbatches: false computes no more"
)


class UnfitSchedules:
    """Warns once, on process 0, of a step that does not fit the compiled slots."""

    def __init__(self) -> None:
        self._has_warned = False

    def __call__(self, event: Event) -> None:
        """Warn when the batch of a step is placed."""
        is_placed = isinstance(event, Phase) and event.name == "place" and event.is_over
        if not is_placed or self._has_warned or not is_primary():
            return
        assert isinstance(event, Phase)
        if not event.result.fallback_reason:
            return
        self._has_warned = True
        logger.warning(
            "the encoders of step %d run as if they were full, as no schedule of its media fits "
            "what is compiled (%s); %s; later ones are counted in spilled_steps",
            event.step,
            event.result.fallback_reason,
            _HELP,
        )


#: Steps without a gradient after which a part of the model is named.
IDLE = 10


class IdleParts:
    """Warns once, on process 0, of parts of the model without a gradient since the start.

    Args:
        first: steps before the first of this process.
        steps: steps of the run.
    """

    def __init__(self, first: int, steps: int) -> None:
        self._first, self._steps = first, steps
        self._unread: list[Mapping[str, SupportsFloat]] = []
        self._idle: set[str] | None = None
        self._count, self._is_done = 0, False

    def __call__(self, ended: StepEnded, *, is_reported: bool) -> None:
        """Note the gradients of a step; a step that is reported is waited for, so they are read."""
        if self._is_done:
            return
        self._unread.append(ended.part_norms)
        if is_reported:
            self._read_norms()
            is_last = ended.step == self._steps
            if self._idle == set() or self._count >= IDLE or is_last:
                self._warn_idle()

    def _read_norms(self) -> None:
        for norms in self._unread:
            # A norm that is no number says nothing of a part.
            idle = {part for part, norm in norms.items() if not float(norm) > 0}
            self._idle = idle if self._idle is None else self._idle & idle
        self._count += len(self._unread)
        self._unread.clear()

    def _warn_idle(self) -> None:
        self._is_done = True
        if not self._idle or not is_primary():
            return
        logger.warning(
            "%s trains, but had no gradient in steps %d to %d: nothing that the loss depends on "
            "came from it, and weight decay alone changes it; are there media for it in the data? "
            "If it is not to train: train.freeze",
            ", ".join(sorted(self._idle)),
            self._first + 1,
            self._first + self._count,
        )


#: Share of a step's time that waiting for data may take.
WAITING = 0.1


class SlowData:
    """Warns once, on process 0, that steps wait for data, with advice.

    Args:
        data: the pipeline's configuration.
        cores: number of cores of this machine.
    """

    def __init__(self, data: DataConfig, cores: int | None = None) -> None:
        self._data, self._cores, self._has_warned = data, cores or os.cpu_count() or 1, False

    def __call__(self, report: StepsReport) -> None:
        """Look at the steps of a report."""
        share = report.wait_share or 0.0
        if share <= WAITING or self._has_warned or not is_primary():
            return
        self._has_warned = True
        logger.warning(
            "%.0f %% of a step is waiting for data; %s", 100 * share, self._give_advice(report)
        )

    def _give_advice(self, report: StepsReport) -> str:
        data = self._data
        planning = report.planning_seconds / (report.step_seconds or math.inf)
        if not data.workers:
            best = max(1, min(4, self._cores // 2))
            return (
                "data.workers is 0, so a thread of the training process makes the batches: set "
                f"data.workers={best}"
            )
        if planning > 0.5:  # every worker plans all steps
            return (
                f"planning a step takes {report.planning_seconds:.2g} s in each of data.workers="
                f"{data.workers}, so more of them do not help: lower data.lookahead (now "
                f"{data.lookahead or 'by default'}), or set data.balance=none"
            )
        if data.workers < self._cores:
            return f"data.workers is {data.workers} on {self._cores} cores: raise it"
        return (
            f"data.workers is {data.workers}, and there are no more cores ({self._cores}): make "
            "images smaller or clips shorter beforehand, or raise data.prefetch if waits are rare"
        )


@dataclass
class StepNotices:
    """Checks the microbatches of every step that is read, and logs each notice once.

    Attributes:
        logged: kinds and names of the notices so far.
    """

    experiment: Experiment
    logged: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, event: Event) -> None:
        """Log notices of a step that are new."""
        if not isinstance(event, Phase) or event.name != "read" or not event.is_over:
            return
        if is_primary():
            self._name_giants(event.result)
            self._note_shape(event.result[0])
            self._count_samples(event.result)

    def _is_new(self, kind: str, name: str = "") -> bool:
        """Whether a notice has not been logged yet; marks it as logged."""
        new = (kind, name) not in self.logged
        self.logged.add((kind, name))
        return new

    def _name_giants(self, microbatches: Sequence[Microbatch]) -> None:
        """Log samples that alone exceed the mean work of a rank in a phase."""
        for name, view in self.experiment.step.program.views.items():
            for stats in (microbatch.stats for microbatch in microbatches):
                ranks = view.degree_of(view.batch_axes) // stats.group.count
                rows, (work, sample, row) = stats.loads[name].after, stats.most_expensive[name]
                mean = rows.sum() / ranks
                rank = stats.group.number * ranks + row * ranks // len(rows)
                # With fewer items than ranks some ranks always wait.
                if ranks == 1 or len(stats.lengths[name]) < ranks or work <= mean:
                    continue
                if len(self.logged) < GIANTS and self._is_new(name, sample):
                    logger.warning(
                        "sample %s alone is %.2f times the mean work of a rank of %s; rank %d, "
                        "which has it, makes the others wait: no balancing helps",
                        sample,
                        work / mean,
                        name,
                        rank,
                    )

    def _note_shape(self, microbatch: Microbatch) -> None:
        """Log that a step takes long because its rows have lengths that none had before."""
        shape, compiled = tuple(microbatch.stats.capacity.items()), self.experiment.shapes
        if compiled and shape not in compiled:
            budgets = ", ".join(f"{name} {n}" for name, n in shape)
            logger.info("compiling the step for positions of a microbatch: %s", budgets)
        compiled.add(shape)

    def _count_samples(self, microbatches: Sequence[Microbatch]) -> None:
        """Log that steps hold fewer samples than configured, or than would fit."""
        config = microbatches[0].stats.group.share_of(self.experiment.config.data)
        count = sum(microbatch.stats.samples for microbatch in microbatches)
        offered = microbatches[0].stats.offered
        if not count:
            if self._is_new("waits"):
                logger.info(
                    "the rows of this group of hosts are padding in a step: it has come to the "
                    "end of an epoch and waits for other groups, so that no sample comes again "
                    "before all have come"
                )
            return
        if count == offered < config.pool_size(len(microbatches)):
            if self._is_new("epoch"):
                logger.info(
                    "a step holds %d samples, the last of an epoch, and its rows have room for "
                    "more; no sample comes again before all have come, so the rest is padding",
                    count,
                )
            return
        if config.samples is not None and count < config.samples and self._is_new("fewer"):
            logger.warning(
                "a step holds %d of its %d samples, the others wait for room in its rows; raise "
                "data.budgets, or lower data.samples",
                count,
                config.samples,
            )
        is_all = config.samples is None and count == offered
        if is_all and self._is_new("lookahead"):
            logger.warning(
                "all %d samples on offer had room in one step; raise data.lookahead, and its rows "
                "will be fuller",
                count,
            )


#: Steps after the first one, which compiles, by which the time of the others is estimated.
ESTIMATED_BY = 4


class FirstLines:
    """Prints, on process 0, the first loss, and then the predicted time of the remaining steps.

    A step whose log line is due is left to that.
    """

    def __init__(self, config: ExperimentConfig, console: Console) -> None:
        self._steps, self._every = config.train.steps, config.run.log_every
        self._console = console
        self._count, self._seconds = 0, 0.0

    def __call__(self, event: Event) -> None:
        """Print what is due at the end of a step."""
        if not isinstance(event, StepEnded) or self._count > ESTIMATED_BY or not is_primary():
            return
        self._count += 1
        self._seconds += event.seconds if self._count > 1 else 0.0
        if event.step % self._every == 0 or event.step >= self._steps:
            return
        if self._count == 1:
            number = f"{event.step:>{len(str(self._steps))}}/{self._steps}"
            self._print_line(f"step {number}  loss {float(event.loss):.4f}")
        elif self._count == 1 + ESTIMATED_BY:
            pace, left = self._seconds / ESTIMATED_BY, self._steps - event.step
            self._print_line(
                f"about {format_clock(pace * left)} for {left} more steps of {pace:.2g} s"
            )

    def _print_line(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
