"""Problems of a configuration, and valid choices that have been tried.

A check yields a `ConfigProblem` with candidates for its key. `advise_problems` keeps the candidates
that all checks accept, so that a message never suggests a value that the next one refuses. If there
are several problems, a choice is accepted together with the first choices of the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice
from typing import Any

from pydantic import ValidationError

from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.short_form import sections_of_modules

#: The value of a key that is left out.
LEFT_OUT = object()
#: Most candidates of a side that are tried.
TRIED = 200
#: Most additional changes of a choice, and most candidates that are tried with changes.
BESIDE, HELPED = 5, 8
#: Most configurations that are tried in the search for a first choice for every problem.
TRIES = 3000
#: Note of a message if that fails.
NOT_ALONE = "several changes at once"

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class ProblemChoice:
    """One solution of a problem.

    Attributes:
        label: its text in the message.
        changes: dotted key to its new value, or `LEFT_OUT`.
    """

    label: str
    changes: Changes = field(hash=False)

    @classmethod
    def of_key(cls, key: str, value: Any) -> ProblemChoice:
        """The choice of another value for one key."""
        return cls(_format_value(value), {key: value})

    def combined_with(self, other: ProblemChoice) -> ProblemChoice:
        """This choice together with another one, which it needs."""
        also = ", ".join(f"{key} {_format_value(value)}" for key, value in other.changes.items())
        if len(other.changes) == 1 and other.label:
            key = next(iter(other.changes))
            also = other.label if other.label.startswith(key) else f"{key} {other.label}"
        word = ", " if " with " in self.label else " with "
        return ProblemChoice(f"{self.label}{word}{also}", {**self.changes, **other.changes})


#: Candidates in the order in which they are preferred.
Candidates = Iterable[ProblemChoice]


@dataclass(frozen=True)
class ConfigProblem:
    """One problem; its text is the message for the user.

    Attributes:
        key: dotted; checks have one problem for a key.
        reason: the value and why it is refused.
        candidates: sides of possible values, each with its best first; tried only if they are asked
            for.
        each: how many choices of a side a message has.
        word: word before the choices in the message.
        further: another remedy, which is no value of a key.
        choices: values that have been tried and are accepted.
    """

    key: str
    reason: str
    candidates: Callable[[], Sequence[Candidates]] = tuple
    each: int = 20
    word: str = "valid"
    further: str = ""
    choices: tuple[ProblemChoice, ...] = ()

    def __str__(self) -> str:
        labels = [choice.label for choice in self.choices]
        several = any(part in label for label in labels for part in (" x ", " with "))
        between = "; " if several else ", "
        valid = ", or ".join(filter(None, (between.join(labels), self.further)))
        return f"{self.key}: {self.reason}" + (f"; {self.word}: {valid}" if valid else "")


Checks = Callable[[ExperimentConfig], Sequence[ConfigProblem]]


def change_config(config: ExperimentConfig, changes: Changes) -> ExperimentConfig | None:
    """`config` with other values; None if one of them is refused by itself."""
    values = config.model_dump()
    for key, value in changes.items():
        *parents, last = key.split(".")
        node = values
        for part in parents:
            node = node[part]
        if value is LEFT_OUT:
            node.pop(last, None)
        else:
            node[last] = deepcopy(value)
    try:
        return ExperimentConfig.model_validate(values)
    except ValidationError:
        return None


def advise_problems(config: ExperimentConfig, checks: Checks) -> list[ConfigProblem]:
    """All problems that `checks` find in `config`, with choices.

    The first choices of all problems together leave no problem, and so does any other choice with
    the first choices of the other problems. Where no choice of a problem is valid the message says
    so.
    """
    return _Advice(config, checks).advised_problems()


class _Advice:
    """Tries candidates of the problems of one configuration."""

    def __init__(self, config: ExperimentConfig, checks: Checks) -> None:
        self._config, self._checks = config, checks
        self._problems = list(checks(config))
        #: Keys of problems that no value solves.
        self._stay = {problem.key for problem in self._problems if not problem.candidates()}
        self._tries = TRIES

    def advised_problems(self) -> list[ConfigProblem]:
        """The problems with their choices."""
        repair = self._find_repair()
        return [self._with_choices(problem, repair) for problem in self._problems]

    def _with_choices(
        self, problem: ConfigProblem, repair: dict[str, ProblemChoice] | None
    ) -> ConfigProblem:
        if problem.key in self._stay:
            return problem
        if repair is None:
            return replace(problem, word="valid", further=NOT_ALONE)
        return replace(problem, choices=self._choices_for(problem, repair))

    def _find_repair(self) -> dict[str, ProblemChoice] | None:
        """A choice for every problem; where single values do not do, the simplest plans begin."""
        repair = self._repair_from(None)
        if repair is not None:
            return repair
        self._tries = TRIES
        known = {problem.key for problem in self._problems}
        start = self._complete_choice(self._config, data_alone(self._config), known, BESIDE)
        return self._repair_from(start) if start else None

    def _repair_from(self, start: ProblemChoice | None) -> dict[str, ProblemChoice] | None:
        """One choice for each problem, chosen one after the other with `start` first, or None.

        A choice may end several problems.
        """
        repair, choices_made = dict[str, ProblemChoice](), [start] if start else []
        current = change_config(self._config, start.changes if start else {}) or self._config
        for listed in self._problems:
            if listed.key in self._stay:
                continue
            problem = _problem_with_key(self._checks(current), listed.key)
            choice = (
                self._first_choice(current, problem)
                if problem
                else self._choice_that_ends(listed, choices_made)
            )
            if choice is None:
                return None
            repair[listed.key] = choice
            choices_made.append(choice)
            if problem:
                current = change_config(current, choice.changes) or current
        joined = _join_choices(repair, choices_made)
        repaired = change_config(self._config, _merge_changes(joined.values()))
        return joined if repaired and self._is_accepted(repaired) else None

    def _choice_that_ends(
        self, problem: ConfigProblem, choices_made: Sequence[ProblemChoice]
    ) -> ProblemChoice | None:
        """The choice of another problem that ends this one as well."""
        choices = choices_made[::-1]
        for choice in choices:
            after = change_config(self._config, choice.changes)
            if after is not None and _problem_with_key(self._checks(after), problem.key) is None:
                return choice
        return next(iter(choices), None)

    def _first_choice(
        self, current: ExperimentConfig, problem: ConfigProblem
    ) -> ProblemChoice | None:
        """The first candidate that ends a problem, with what else it needs."""
        known = {other.key for other in self._checks(current)} - {problem.key}
        for more in range(BESIDE + 1):
            for candidate in islice(_all_candidates(problem), HELPED if more else None):
                choice = self._complete_choice(current, candidate, known, more)
                if choice is not None:
                    return choice
        return None

    def _complete_choice(
        self, current: ExperimentConfig, choice: ProblemChoice, known: set[str], more: int
    ) -> ProblemChoice | None:
        """`choice` with at most `more` others that end the problems which it makes."""
        self._tries -= 1
        config = change_config(current, choice.changes) if self._tries > 0 else None
        if config is None:
            return None
        new = [problem for problem in self._checks(config) if problem.key not in known]
        if not new:
            return choice
        if len(new) > more or any(problem.key in choice.changes for problem in new):
            return None
        others = (
            other
            for other in _all_candidates(new[0])
            if not other.changes.keys() & choice.changes.keys()
        )
        joined = (choice.combined_with(other) for other in islice(others, HELPED))
        completed = (self._complete_choice(current, pair, known, more - 1) for pair in joined)
        return next(filter(None, completed), None)

    def _choices_for(
        self, problem: ConfigProblem, repair: Mapping[str, ProblemChoice]
    ) -> tuple[ProblemChoice, ...]:
        """Choices of a problem, its first one in front, each with the first ones of the others."""
        first = repair[problem.key]
        others = [choice for choice in repair.values() if choice is not first]
        repaired_others = change_config(self._config, _merge_changes(others)) or self._config
        remaining = _problem_with_key(self._checks(repaired_others), problem.key) or problem
        choices = [first]
        for side in remaining.candidates():
            tried = list(islice(side, TRIED))
            other_choices = [choice for choice in tried if choice.changes != first.changes]
            fitting = (
                choice for choice in other_choices if self._accepts_choice(repaired_others, choice)
            )
            choices += islice(fitting, remaining.each - (len(tried) - len(other_choices)))
        return tuple(choices)

    def _accepts_choice(self, repaired_others: ExperimentConfig, choice: ProblemChoice) -> bool:
        config = change_config(repaired_others, choice.changes)
        return config is not None and self._is_accepted(config)

    def _is_accepted(self, config: ExperimentConfig) -> bool:
        return {problem.key for problem in self._checks(config)} <= self._stay


def data_alone(config: ExperimentConfig) -> ProblemChoice:
    """Plans that split nothing but rows, for every module."""
    devices = config.parallel.devices or config.parallel.backbone_plan.devices
    plan = {"data": devices}
    backbone = config.model.backbone
    plans = sections_of_modules(dict.fromkeys((backbone, *config.model.buckets), plan), backbone)
    changes = {f"parallel.{key}": value for key, value in plans.items()}
    label = f"data {devices} for every module"
    return ProblemChoice(label, {"parallel.devices": devices, **changes})


def _join_choices(
    repair: dict[str, ProblemChoice], choices_made: Sequence[ProblemChoice]
) -> dict[str, ProblemChoice]:
    """Choices that change the same key become one, in which the value chosen last holds."""
    used = {id(choice) for choice in repair.values()}
    remaining = list({id(choice): choice for choice in choices_made if id(choice) in used}.values())
    while pair := _overlapping_choices(remaining):
        earlier, later = pair
        other_changes = {k: v for k, v in earlier.changes.items() if k not in later.changes}
        joint = later.combined_with(ProblemChoice("", other_changes)) if other_changes else later
        # After all that lies between both, none of which changes what the first one does.
        remaining = [
            joint if choice is later else choice for choice in remaining if choice is not earlier
        ]
        repair = {k: joint if c is earlier or c is later else c for k, c in repair.items()}
    return repair


def _overlapping_choices(
    choices: Sequence[ProblemChoice],
) -> tuple[ProblemChoice, ProblemChoice] | None:
    """A choice and the next one that changes a key of it, if there are any."""
    pairs = combinations(choices, 2)
    return next(((a, b) for a, b in pairs if a.changes.keys() & b.changes.keys()), None)


def _merge_changes(choices: Iterable[ProblemChoice]) -> dict[str, Any]:
    """The changes of all, which change no key twice."""
    return dict(chain.from_iterable(choice.changes.items() for choice in choices))


def _problem_with_key(problems: Iterable[ConfigProblem], key: str) -> ConfigProblem | None:
    return next((problem for problem in problems if problem.key == key), None)


def _all_candidates(problem: ConfigProblem) -> Iterator[ProblemChoice]:
    """Candidates of all sides, one after the other."""
    return chain.from_iterable(islice(side, TRIED) for side in problem.candidates())


def _format_value(value: Any) -> str:
    """A value as a message and YAML have it."""
    if value is LEFT_OUT:
        return "left out"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def choose_only(key: str, value: object) -> list[Candidates]:
    """The one value of a key that is valid."""
    return [[ProblemChoice.of_key(key, value)]]
