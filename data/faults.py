"""Why samples cannot be used: a closed set of kinds to count by, and a text for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from data.quotes import cut, printable, quoted

#: Most characters of a reason: it goes into the log, and into a file of the run.
LONGEST = 1000


class FaultKind(StrEnum):
    """The keys of `skipped.reasons` in `summary.json`."""

    MISSING = "missing file"
    CLOSED = "file that cannot be opened"
    PLACE = "unusable path"
    IMAGE = "unreadable image"
    PIXELS = "image of too many pixels"
    SHAPE = "image of unusable size"
    VIDEO = "unreadable video"
    CLIP = "unreadable clip"
    RATE = "clip of another sample rate"
    DURATION = "clip too long or too short"
    RECORD = "malformed record"
    CONVERSATION = "unusable conversation"
    MEDIA = "media that do not match the text"
    BUDGET = "longer than a row"
    POSITIONS = "longer than the model's positions"
    LENGTH = "not as long as measured"
    UNKNOWN = "noted by an earlier version"


@dataclass(frozen=True)
class SampleFault:
    """Why one sample cannot be used.

    Attributes:
        kind: kind by which faults are counted.
        text: reason with names and numbers, in one line; a long one is cut.
    """

    kind: FaultKind
    text: str

    def __post_init__(self) -> None:
        """Cut a long text, and escape what cannot be printed."""
        text = cut(self.text, LONGEST)
        object.__setattr__(self, "text", cut(printable(text), LONGEST))

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> list[str]:
        """A JSON-able list."""
        return [self.kind.value, self.text]

    @classmethod
    def from_json(cls, value: object) -> SampleFault:
        """Inverse of `to_json`; for a text alone, as earlier versions wrote, the kind is unknown.

        Raises:
            ValueError: `value` is neither.
        """
        match value:
            case str(text):
                return cls(FaultKind.UNKNOWN, text)
            case [str(kind), str(text)]:
                return cls(FaultKind(kind), text)
        raise ValueError(f"{quoted(value)} is no reason why a sample cannot be used")
