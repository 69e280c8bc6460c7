"""Unusable samples of a run: each is logged once, listed in its folder, and counted by kind."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from data.faults import FaultKind
from data.planning.stream import SkippedSample
from mllm_jax.runtime.records import read_record_lines, records_text, write_atomically
from mllm_jax.train.records.forms import SKIPPED

logger = logging.getLogger(__name__)

#: Samples that are warned of one by one.
TOLD = 20
LIST = "skipped"


@dataclass
class SkippedSamples:
    """Samples skipped so far.

    Attributes:
        times: by kind, how often the stream came upon an unusable sample; saved with the run.
        samples: by kind, how many samples cannot be used; saved with the run, so that a line of the
            list that is lost changes no count.
        kinds: kind of the reason why a sample cannot be used, by the sample's name.
        path: the list of these, a record a line; None to keep none.
        lost: by kind, how many samples are counted whose lines the list has lost.
    """

    times: Counter[str] = field(default_factory=Counter)
    samples: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, str] = field(default_factory=dict, compare=False)
    path: Path | None = field(default=None, compare=False)
    lost: Counter[str] = field(default_factory=Counter, compare=False)

    def listed_in(self, path: Path, resumed_step: int) -> None:
        """Keep the list at `path`; entries after `resumed_step` are dropped, and damaged ones."""
        read = read_record_lines(path, SKIPPED).log_problems().values
        earlier = [record for record in read if record["step"] <= resumed_step]
        self.path, self.kinds = path, {skip["sample"]: skip["reason"] for skip in earlier}
        listed = Counter(self.kinds.values())
        self.samples |= listed
        self.lost = self.samples - listed
        if path.exists():
            self._write_list(path, records_text(earlier), again=True)

    def note_skipped(self, step: int, skipped: Iterable[SkippedSample]) -> None:
        """Count the skipped samples of a step; warn of new ones, and list them."""
        lines = []
        for name, fault in skipped:
            self.times[fault.kind] += 1
            if name in self.kinds:
                continue
            self.kinds[name] = fault.kind
            if self.lost[fault.kind]:  # of these samples one comes again, as far as is known
                self.lost[fault.kind] -= 1
            else:
                self.samples[fault.kind] += 1
            self._warn_once(name, fault.text)
            lines.append({"step": step, "sample": name, "reason": fault.kind, "text": fault.text})
        if lines and self.path is not None:
            self._write_list(self.path, records_text(lines))

    def _write_list(self, path: Path, text: str, *, again: bool = False) -> None:
        """Append to the list, or begin it again; a failed write does not end the run."""
        try:
            if again:
                write_atomically(path, text)
            else:
                with path.open("a", encoding="utf-8") as file:
                    file.write(text)
        except OSError as error:
            logger.warning("skipped samples are no longer listed: %s", error)
            self.path = None

    def _warn_once(self, name: str, text: str) -> None:
        if len(self.kinds) <= TOLD:
            logger.warning("skipped sample %s: %s", name, text)
        if len(self.kinds) == TOLD:
            where = f" and listed in {self.path}" if self.path else ""
            logger.warning("further skipped samples are only counted%s", where)

    def make_summary(self) -> dict[str, Any]:
        """Samples, how often they came up, and samples by kind."""
        reasons = dict(self.samples.most_common())
        return {"samples": self.samples.total(), "times": self.times.total(), "reasons": reasons}

    @classmethod
    def from_json(cls, times: Mapping[str, int], samples: Mapping[str, int]) -> Self:
        """From the counts that were saved with a run, by kind: how often, and how many samples."""
        return cls(_count_by_kind(times), _count_by_kind(samples))


def _count_by_kind(counts: Mapping[str, int]) -> Counter[str]:
    """Counts by kind; reasons that earlier versions had are of one kind."""
    by_kind: Counter[str] = Counter()
    for reason, count in counts.items():
        known = reason in FaultKind.__members__.values()
        by_kind[reason if known else FaultKind.UNKNOWN.value] += count
    return by_kind
