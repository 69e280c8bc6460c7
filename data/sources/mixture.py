"""Several sources as one; the order (`data.sources.order`) decides how often each comes up.

As a list a mixture holds every sample of every member once. Held-out samples are those of the
members that have some, interleaved evenly, so that the first ones come from all members.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import accumulate

from data.config import DataConfig, MixtureSource
from data.sample import DataError, Sample, SampleError, StorageError
from data.sources.cache import home_of
from data.sources.order import MixedOrder, SampleOrder, interleave_members
from data.sources.source import SampleKey, Source, Split, has_split


class SourceMixture:
    """A split of the mixture; see the module.

    Args:
        config: configuration of the data, whose source is a mixture.
        split: split of the samples.
        make: makes the source of a member from a configuration that names only this member.

    Raises:
        DataError: a member cannot be used, has no sample, or none has the split.
    """

    def __init__(
        self, config: DataConfig, split: Split, make: Callable[[DataConfig, Split], Source]
    ) -> None:
        if not isinstance(config.source, MixtureSource):
            raise DataError(f"data.source is of kind {config.source.kind}, not mixture")
        options = {
            name: member
            for name, member in config.source.members.items()
            if has_split(member.source, split)
        }
        if not options:
            raise DataError(f"data.source has no member with the split {split!r}")
        self.members: Mapping[str, Source] = {
            name: _open_member(
                name, config.model_copy(update={"source": member.source}), split, make
            )
            for name, member in options.items()
        }
        self._names, self._list = list(options), list(self.members.values())
        self._sizes = tuple(len(member) for member in self._list)
        if 0 in self._sizes:
            name = self._names[self._sizes.index(0)]
            raise DataError(f"data.source.members.{name} has no samples; valid: at least one")
        self._ends = list(accumulate(self._sizes))
        self.home = home_of(config.cache, [member.home.name for member in self._list])
        self._weights = tuple(member.weight for member in options.values())
        self._places = interleave_members(self._sizes) if split == "heldout" else None

    def __len__(self) -> int:
        return self._ends[-1]

    @cached_property
    def fingerprint(self) -> str | None:
        """Fingerprint of the members, but not of their weights, which change no sample."""
        prints = [member.fingerprint for member in self._list]
        if None in prints:
            return None
        return hashlib.sha256(repr((prints, self._places is None)).encode()).hexdigest()

    def member_place(self, index: int) -> tuple[int, int]:
        """The member that holds sample `index`, and the index in it. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        if self._places is not None:
            return self._places[index]
        member = bisect_right(self._ends, index)
        return member, index - self._ends[member] + self._sizes[member]

    def member_name(self, index: int) -> str:
        """Name of the member that holds sample `index`."""
        return self._names[self.member_place(index)[0]]

    def name(self, index: int) -> str:
        """`charts/train.json[17]`: the name of the member, and that of the sample in it."""
        member, in_member = self.member_place(index)
        return f"{self._names[member]}/{self._list[member].name(in_member)}"

    def __getitem__(self, key: SampleKey) -> Sample:
        index, epoch = key
        member, in_member = self.member_place(index)
        try:
            return replace(self._list[member][in_member, epoch], name=self.name(index))
        except SampleError as error:
            text = _of_member(self._names[member], error.fault.text)
            raise SampleError(self.name(index), replace(error.fault, text=text)) from error

    def make_order(self, seed: int) -> SampleOrder:
        """The order in which samples come up."""
        return MixedOrder(self._sizes, self._weights, seed)


def _open_member(
    name: str, config: DataConfig, split: Split, make: Callable[[DataConfig, Split], Source]
) -> Source:
    """The source of a member.

    Raises:
        DataError: as of `make`; the message names keys as they are in the mixture.
    """
    try:
        return make(config, split)
    except StorageError:
        raise
    except DataError as error:
        raise DataError(_of_member(name, str(error))) from error


def _of_member(name: str, message: str) -> str:
    """A message whose keys of the source are those of a member."""
    prefix = f"data.source.members.{name}.source"
    return re.sub(r"\bdata\.source(?=: |\.(?:fields|ignore|media)\b)", lambda _: prefix, message)
