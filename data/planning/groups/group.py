"""Groups of neighbouring hosts that balance by themselves (`data.balance_group`).

Every group has rows of its own of every module, and its own samples of the stream, in turn::

    position of the stream       0 1 2 3 4 5 6 7 8
    group, of two                0 1 0 1 0 1 0 1 0
    its host, of two, that reads 0 0 1 1 0 0 1 1 0     (data.lengths: on_read)

A group plans its rows from the lengths of its own samples, so that only its hosts exchange lengths,
samples and encoder outputs (grouped reordering of MegaScale-Omni, arXiv 2605.08962). The groups
together take every position of the stream once. Some take fewer samples for a step than others, so
that they are at different positions; `data.planning.groups.turns` says which of them wait at the
end of an epoch, and `data.planning.stream.joined` makes one state of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from data.config import DataConfig
from data.sample import DataError

#: Rows of a batch by module.
RowNumbers = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class HostGroupSpec:
    """Hosts that balance among themselves.

    Attributes:
        number: number of the group, from 0.
        count: number of groups.
        hosts: the hosts of the group; empty where there is one group and nobody asks.
        rows: by module, the rows of a batch that the group fills, ascending; empty for all rows.
    """

    number: int = 0
    count: int = 1
    hosts: tuple[int, ...] = ()
    rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def has_position(self, position: int) -> bool:
        """Whether the sample at a position of the stream is one of the group's."""
        return position % self.count == self.number

    def reader_of(self, position: int, hosts: int) -> int:
        """The host, among `hosts` of the group, that reads one of the group's samples."""
        return position // self.count % hosts

    def positions(self, first: int, count: int) -> range:
        """The group's `count` positions of the stream from `first` on."""
        begin = first + (self.number - first) % self.count
        return range(begin, begin + count * self.count, self.count)

    def share_of(self, config: DataConfig) -> DataConfig:
        """The configuration of what the group plans: its share of the rows and of the samples."""
        if self.count == 1:
            return config
        offered = None if config.lookahead is None else -(-config.lookahead // self.count)
        samples = None if config.samples is None else config.samples // self.count
        shares = {"rows": config.rows // self.count, "samples": samples, "lookahead": offered}
        return config.model_copy(update=shares)

    def row_of(self, module: str, row: int) -> int:
        """The row of a batch that is the group's row `row`."""
        return self.rows[module][row] if self.rows else row


#: The one group of all hosts.
WHOLE = HostGroupSpec()


def sizes_of_groups(config: DataConfig, rows: Sequence[RowNumbers]) -> list[int]:
    """The numbers of hosts that a group may have: ascending, the last is the number of all hosts.

    Args:
        config: configuration of the data.
        rows: by host, the rows of a batch that it holds.
    """
    hosts = len(rows)
    divisors = [size for size in range(1, hosts + 1) if hosts % size == 0]
    return [size for size in divisors if _refusal_of_groups(config, rows, size) is None]


def make_groups(config: DataConfig, rows: Sequence[RowNumbers], size: int) -> list[HostGroupSpec]:
    """The groups of `size` hosts each, in the order of their hosts.

    Args:
        config: configuration of the data.
        rows: by host, the rows of a batch that it holds, by module.

    Raises:
        DataError: `size` does not divide the hosts, a row lies in several groups, or groups would
            have unequal shares of rows or of `data.samples`.
    """
    reason = _refusal_of_groups(config, rows, size)
    if reason is not None:
        valid = ", ".join(map(str, sizes_of_groups(config, rows)))
        raise DataError(f"data.balance_group: {size} {reason}; valid: {valid}, or null")
    count = len(rows) // size
    return [
        HostGroupSpec(number, count, (*range(number * size, (number + 1) * size),), rows_of_group)
        for number, rows_of_group in enumerate(_rows_of_groups(rows, size))
    ]


def _refusal_of_groups(config: DataConfig, rows: Sequence[RowNumbers], size: int) -> str | None:
    """Why there cannot be groups of `size` hosts, or None."""
    count, remainder = divmod(len(rows), size)
    if remainder or not count:
        return f"does not divide {len(rows)}, the number of hosts"
    shares = _rows_of_groups(rows, size)
    for module in shares[0]:
        held_rows = [row for share in shares for row in share[module]]
        twice = next((row for row in held_rows if held_rows.count(row) > 1), None)
        if twice is not None:
            return f"would cut row {twice} of {module}, which hosts of several groups hold"
        if len({len(share[module]) for share in shares}) > 1 or len(held_rows) % count:
            return f"would give groups unequal numbers of the rows of {module}"
    if config.samples is not None and config.samples % count:
        return f"makes {count} groups, which do not divide data.samples {config.samples}"
    return None


def _rows_of_groups(rows: Sequence[RowNumbers], size: int) -> list[dict[str, tuple[int, ...]]]:
    """Rows by module of every group of `size` hosts."""
    return [
        {
            module: tuple(
                sorted({row for share in rows[first : first + size] for row in share[module]})
            )
            for module in rows[0]
        }
        for first in range(0, len(rows), size)
    ]
