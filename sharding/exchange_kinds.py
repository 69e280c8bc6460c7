"""Forms of exchanges, known without jax: of encoder outputs (`exchange`), tokens (`dispatch`).

And which collectives of layers overlap with compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Exchange = Literal["all_to_all", "gather", "reduce_scatter"]
EXCHANGES: tuple[Exchange, ...] = get_args(Exchange)
#: The exchange of every bucket, by its name; `DEFAULT_EXCHANGE` of buckets that are not named.
Exchanges = Mapping[str, Exchange]
DEFAULT_EXCHANGE: Exchange = "all_to_all"
DEFAULT_EXCHANGES: Exchanges = MappingProxyType({})


def possible_exchanges(independent_rows: bool) -> tuple[Exchange, ...]:
    """The exchanges that are possible.

    An all-to-all follows routes, which batches list only if media are in rows of their own.

    Args:
        independent_rows: whether media are in rows of their own, so that outputs may go from any
            device to any other; otherwise they stay within the block of their row.
    """
    return EXCHANGES if independent_rows else tuple(n for n in EXCHANGES if n != "all_to_all")


# ---- collectives that overlap compute
# -------------------------------------------------------------

#: Collectives of layers that may overlap with compute: the `gather` of the next layer's parameters,
#: the `scatter` of the gradients of the layer before, and the rows of `tensor` ranks, in rings.
OverlapKind = Literal["gather", "scatter", "tensor"]
OVERLAP_KINDS: tuple[OverlapKind, ...] = get_args(OverlapKind)


# ---- copies of tokens and the ranks of their experts ---------------------------------------------


def is_ragged(platform: str) -> bool:
    """Whether exchanges send copies alone, and no empty slots."""
    return platform != "cpu"


#: Columns that hold a float32 number, by bytes of an element: bfloat16 has a third of its digits.
NUMBER_COLUMNS = {4: 1, 2: 3}


def number_columns(size: int, ragged: bool) -> int:
    """Columns, of elements of `size` bytes, that move a float32 number with a row.

    Accelerators have whole tiles of 128 columns.
    """
    columns = NUMBER_COLUMNS[size]
    return columns + -columns % 128 if ragged else columns


def round_capacity(buffer: float, copies: float, ranks: int) -> float:
    """Copies that a rank has room for in a round, over an even share of them.

    A rank has at least one slot for every rank, and no more than the copies of all ranks can fill.

    Args:
        buffer: room that is asked for, over an even share.
        copies: an even share, which is as many copies as a rank sends; at least one.
        ranks: ranks that share experts.
    """
    return min(max(buffer, ranks / copies), ranks)


def parts_of_a_round(platform: str) -> int:
    """Parts of a round: accelerators run the exchange of one during the products of the other."""
    return 2 if is_ragged(platform) else 1
