"""Refuses conversations that cannot be learnt, or whose placeholders do not match their media."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from data.faults import FaultKind
from data.rows.spec import Kind
from data.sample import ConversationError, MediaError, Sample
from data.targets import TargetSpec

_SURROGATES = re.compile("[\ud800-\udfff]")  # JSON may hold unpaired ones; tokenizers refuse them


def check_turns(
    sample: Sample,
    targets: Iterable[TargetSpec],
    marks: Mapping[Kind, str],
    kinds: Collection[Kind],
) -> None:
    """Raise ConversationError or MediaError for turns that cannot be learnt.

    Args:
        targets: specs of the objectives that the sample is for.
        marks: placeholders of all kinds of media.
        kinds: kinds of media that some encoder takes.
    """
    for spec in targets:
        spec.check(sample)
    if not sample.turns:
        raise ConversationError("the conversation has no turns")
    for number, turn in enumerate(sample.turns):
        broken = _SURROGATES.search(turn.text)
        if broken:
            raise ConversationError(
                f"turn {number} has U+{ord(broken[0]):04X}, half of a character (a surrogate), "
                f"at {broken.start()}"
            )
        if turn.role == "assistant" and not turn.text.strip():
            raise ConversationError(f"turn {number} is an empty answer")
    _check_placeholders(sample, marks, kinds)


def _check_placeholders(sample: Sample, marks: Mapping[Kind, str], kinds: Collection[Kind]) -> None:
    """Raise MediaError unless every medium has a placeholder, and some encoder takes it."""
    for kind, mark in marks.items():
        count, files = sum(turn.count(mark) for turn in sample.turns), sample.of(kind)
        if kind not in kinds and not files:
            continue  # a word like any other, as in pages about HTML
        if count != len(files):
            text = f"{count} {mark} placeholders for {len(files)} {kind} files"
            written = sum(turn.text.count(mark) for turn in sample.turns)
            if written > count:
                text += f"; {written - count} more in parts of type text are words"
            elif count > len(files):
                text += f"; where {mark} is a word, write messages with parts of type text"
            raise MediaError(FaultKind.MEDIA, text)
        if count and kind not in kinds:
            valid = ", ".join(kinds) or "text alone"
            text = f"has {kind} media, but no encoder takes {kind}; valid: {valid}"
            raise MediaError(FaultKind.MEDIA, text)
