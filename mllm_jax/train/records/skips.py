"""Unusable samples of a run: each is told once, listed in its folder, and counted by kind."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from data.faults import FaultKind
from data.planning.stream import Skip
from mllm_jax.train.records.sinks import kept_lines, write_atomically

logger = logging.getLogger(__name__)

#: Samples that are warned of one by one.
TOLD = 20
LIST = "skipped"
#: Keys of an entry of the list, beside its step.
KEYS = "sample", "reason", "text"


@dataclass
class Skips:
    """Samples skipped so far.

    Attributes:
        times: by kind, how often the stream came upon an unusable sample; saved with the run.
        kinds: kind of the reason why a sample cannot be used, by the sample's name.
        path: the list of these, a JSON object a line; None to keep none.
    """

    times: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, str] = field(default_factory=dict, compare=False)
    path: Path | None = field(default=None, compare=False)

    def listed_in(self, path: Path, resumed_step: int) -> None:
        """Keep the list at `path`; entries after `resumed_step` are dropped."""
        kept = kept_lines(path, resumed_step, KEYS)
        listed = map(json.loads, kept)
        self.path, self.kinds = path, {line["sample"]: line["reason"] for line in listed}
        if path.exists():
            self._write(path, "".join(kept), again=True)

    def note(self, step: int, skipped: Iterable[Skip]) -> None:
        """Count the skipped samples of a step; warn of new ones, and list them."""
        lines = []
        for name, fault in skipped:
            self.times[fault.kind] += 1
            if name in self.kinds:
                continue
            self.kinds[name] = fault.kind
            self._warn(name, fault.text)
            lines.append({"step": step, "sample": name, "reason": fault.kind, "text": fault.text})
        if lines and self.path is not None:
            self._write(self.path, "".join(json.dumps(line) + "\n" for line in lines))

    def _write(self, path: Path, text: str, *, again: bool = False) -> None:
        """Append to the list, or begin it again; a run goes on without it."""
        try:
            if again:
                write_atomically(path, text)
            else:
                with path.open("a", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            logger.warning("skipped samples are no longer listed: %s", error)
            self.path = None

    def _warn(self, name: str, text: str) -> None:
        if len(self.kinds) <= TOLD:
            logger.warning("skipped sample %s: %s", name, text)
        if len(self.kinds) == TOLD:
            where = f" and listed in {self.path}" if self.path else ""
            logger.warning("further skipped samples are only counted%s", where)

    def summary(self) -> dict[str, Any]:
        """Samples, how often they came up, and samples by kind."""
        reasons = dict(Counter(self.kinds.values()).most_common())
        return {"samples": len(self.kinds), "times": self.times.total(), "reasons": reasons}

    def to_json(self) -> dict[str, int]:
        """The counts as saved with a run."""
        return dict(self.times)

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Self:
        """Inverse of `to_json`; reasons that earlier versions had are of one kind."""
        times: Counter[str] = Counter()
        for reason, count in value.items():
            known = reason in FaultKind.__members__.values()
            times[reason if known else FaultKind.UNKNOWN.value] += count
        return cls(times)
