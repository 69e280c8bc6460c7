"""Checks of the keys that say how many steps lie between two events of a kind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mllm_jax.config.checks.problems import Candidates, ConfigProblem, ProblemChoice
from mllm_jax.config.sections import ExperimentConfig, TrainConfig


@dataclass(frozen=True)
class StepPeriod:
    """A key that says how many steps lie between two things of a kind.

    Attributes:
        key: `section.name`.
        never: what a run has instead that is shorter.
        at_end: whether the last step counts.
    """

    key: str
    never: str
    at_end: bool = True

    def value_in(self, config: ExperimentConfig) -> int | None:
        """The period; None if there is none, or the section is off."""
        section, name = self._section_and_name(config)
        value: int | None = getattr(section, name) if getattr(section, "enabled", True) else None
        return value

    def is_default(self, config: ExperimentConfig) -> bool:
        """Whether the period is the default one."""
        section, name = self._section_and_name(config)
        default = type(section).model_fields[name].default
        return bool(getattr(section, name) == default)

    def _section_and_name(self, config: ExperimentConfig) -> tuple[Any, str]:
        section, name = self.key.split(".")
        return getattr(config, section), name

    def short_run_note(self, config: ExperimentConfig) -> str | None:
        """The message about a period that the run is too short for; None if there is nothing."""
        period, steps = self.value_in(config), config.train.steps
        if period is None or self.is_default(config) or period < steps + self.at_end:
            return None
        end = "in" if self.at_end else "before the last of"
        return f"{self.key} {period} is not reached {end} train.steps {steps}: {self.never}"


#: Every key that is a period.
PERIODS = (
    StepPeriod("run.log_every", "the last step alone has a log line"),
    StepPeriod("run.gc_every", "Python's garbage is not collected"),
    StepPeriod("train.check_every", "replicas are not compared"),
    StepPeriod("checkpoint.every", "the last step alone has a checkpoint"),
    StepPeriod("checkpoint.keep_every", "no checkpoint is kept for ever"),
    StepPeriod("checkpoint.local_every", "there is no snapshot in memory", at_end=False),
    StepPeriod("evaluate.every", "the run is evaluated at its end alone", at_end=False),
)


def check_periods(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Checkpoints that stay for ever are among those that are saved.

    A period that is longer than the run is no mistake, as a configuration may be tried for a few
    steps: the start of training tells it (`short_run_notes`), unless the period is the default.
    """
    checkpoint, key = config.checkpoint, "checkpoint.keep_every"
    every, kept_every = checkpoint.every, checkpoint.keep_every
    if checkpoint.enabled and kept_every is not None and kept_every % every:
        reason = (
            f"{kept_every} is no multiple of checkpoint.every {every}, so that only every "
            f"{math.lcm(kept_every, every)} steps a checkpoint would be kept for ever"
        )
        yield ConfigProblem(key, reason, lambda: _multiple_choices(every, kept_every))


def _multiple_choices(every: int, kept_every: int) -> list[Candidates]:
    """The multiples around a period, and another period that divides it."""
    below = kept_every - kept_every % every
    near = [ProblemChoice.of_key("checkpoint.keep_every", n) for n in (below, below + every) if n]
    divisor = next(n for n in range(min(every, kept_every), 0, -1) if kept_every % n == 0)
    divided = ProblemChoice(f"checkpoint.every {divisor}", {"checkpoint.every": divisor})
    return [near, [divided]]


def short_run_notes(config: ExperimentConfig) -> list[str]:
    """Notes at the start of a run on what it is too short for."""
    notes_found = (period.short_run_note(config) for period in PERIODS)
    return [*filter(None, notes_found), *_warmup_notes(config.train)]


def _warmup_notes(train: TrainConfig) -> Iterator[str]:
    """A warm-up that leaves no step at the peak; one of a single step begins there."""
    warmup, steps = train.warmup_steps, train.steps
    if warmup < 2 or warmup < steps - 1:
        return
    rises = min(steps, warmup) - 1
    reached = (1 + (warmup - 1) * rises / warmup) / warmup
    end = ", and train.final_learning_rate_ratio has no effect" if warmup >= steps else ""
    fit = f"at most {steps - 2}" if steps > 2 else "0"
    yield (
        f"train.warmup_steps {warmup} leaves no step of train.steps {steps} at the peak: the "
        f"learning rate reaches {reached:.2g} of train.learning_rate{end}; valid: {fit}"
    )
