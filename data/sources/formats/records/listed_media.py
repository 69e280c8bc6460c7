"""Media in a field next to the messages: their encoders, and the parts that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from data.config import ONLY_WHERE_TAKEN
from data.faults import FaultKind
from data.media.registry import MEDIA_TYPES
from data.quotes import quoted
from data.rows.spec import Kind
from data.sources.formats.records.keys import ShapeError
from data.sources.formats.records.turns import Media, SpokenTurns

S = TypeVar("S")

#: Encoders of media, None for that of `data.routes`.
Names = tuple[str | None, ...]


def encoder_names(field: str, value: object, count: int, kind: Kind) -> Names:
    """The encoder of each of so many media."""
    names = [value] * count if isinstance(value, str) else value
    if not isinstance(names, list) or not all(n is None or isinstance(n, str) for n in names):
        raise ShapeError(f"{field}: {quoted(value)} is no name, nor a list of names and nulls")
    if len(names) != count:
        raise ShapeError(f"{field}: {len(names)} names of {count} {kind} media")
    return tuple(names)


def pick_places(kind: Kind, items: Sequence[S], places: Sequence[int | None]) -> Sequence[S]:
    """The media next to messages, in the order in which the parts of messages name them."""
    named = [place for place in places if place is not None]
    if not named:
        return items
    if len(named) < len(places) or {*named} != {*range(len(items))}:
        raise ShapeError(
            f"{kind} parts have the indices {quoted([*places])} of {len(items)} beside the "
            "messages; valid: all of these from 0, or none"
        )
    return [items[place] for place in named]


def check_parts(name: str, kind: Kind, dialogue: SpokenTurns, count: int) -> None:
    """Check that each part of a message for a medium has one, in the part or next to the messages.

    Raises:
        ShapeError: of `count` media there are fewer, or more, than parts.
    """
    bare, inside = len(dialogue.places[kind]), len(dialogue.media[kind])
    if bare and (inside or bare != count):
        raise ShapeError(
            f"{bare} parts of type {kind} in the {name} have no medium of their own, and "
            f"{0 if inside else count} {kind} media are beside; valid: as many, or the medium in "
            f"each part, {{type: {kind}, {kind}: ...}}",
            FaultKind.MEDIA,
        )


def is_number_field(kind: Kind, value: object) -> bool:
    """Whether a field named like media of a kind holds a number, as in many data sets."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return kind in ONLY_WHERE_TAKEN and is_number


def with_all_kinds(media: Media) -> Media:
    """`media` with every kind."""
    return {kind: media.get(kind, ()) for kind in MEDIA_TYPES}
