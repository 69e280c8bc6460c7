"""Which groups of hosts take part in a step with samples, so that no sample is in it twice.

Each group plans from the lengths of its own samples alone, so one comes to the end of an epoch
before another. A step has samples of one epoch: groups that are ahead wait, with nothing but
padding, until the others have come to the end, too. Two groups, and epochs of twelve samples::

    step        0      1      2      3      4
    group 0     6      -      4      2      -        samples of its rows; - waits
    group 1     3      3      3      2      1
    epoch       0      0      1      1      1

In a mixture members have epochs of their own, of which small ones end often; to wait for each would
leave many rows empty. So groups may have neighbouring epochs of a member in a step there, and one
waits that has a sample which another one has, too: the one whose samples came later in the stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StepSample:
    """A sample of a step: its place in the stream, the epoch of its member, and its index."""

    position: int
    member: int
    epoch: int
    index: int


@dataclass(frozen=True)
class GroupOffer:
    """What a group has for the next step.

    Attributes:
        first: the first stream position of the samples.
        epochs: epoch of the samples of every member (0 of a source that is no mixture).
    """

    first: int
    epochs: Mapping[int, int]

    @classmethod
    def for_samples(cls, samples: Sequence[StepSample]) -> GroupOffer:
        """The offer of some samples, which are of one epoch of every member."""
        first = min(sample.position for sample in samples)
        return cls(first, {sample.member: sample.epoch for sample in samples})


def contested(offers: Sequence[GroupOffer]) -> frozenset[int]:
    """Members of which several epochs are offered, so that a sample may be offered twice."""
    epochs: dict[int, set[int]] = {}
    for offer in offers:
        for member, number in offer.epochs.items():
            epochs.setdefault(member, set()).add(number)
    return frozenset(member for member, numbers in epochs.items() if len(numbers) > 1)


def of_oldest_epoch(offers: Sequence[GroupOffer]) -> list[bool]:
    """By group, whether it takes part: if its samples are of the oldest epoch of all."""
    numbers = [max(offer.epochs.values()) for offer in offers]
    return [number == min(numbers) for number in numbers]


def without_repeats(offers: Sequence[GroupOffer], samples: Sequence[Collection[int]]) -> list[bool]:
    """By group, whether it takes part: if no group before it in the stream has one of its samples.

    Args:
        samples: by group, the indices of its samples of contested members.
    """
    goes, seen = [False] * len(offers), set[int]()
    for number in sorted(range(len(offers)), key=lambda number: offers[number].first):
        if seen.isdisjoint(samples[number]):
            goes[number] = True
            seen.update(samples[number])
    return goes
