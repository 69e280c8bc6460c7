"""Names of the exchanges of encoder outputs and where each is possible; see `exchange.py`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Exchange = Literal["all_to_all", "gather", "reduce_scatter"]
EXCHANGES: tuple[Exchange, ...] = get_args(Exchange)
#: The exchange of every lane, by its name; `USUAL` of lanes that are not named.
Exchanges = Mapping[str, Exchange]
USUAL: Exchange = "all_to_all"
AS_USUAL: Exchanges = MappingProxyType({})


def possible(apart: bool) -> tuple[Exchange, ...]:
    """The exchanges that are possible.

    An all-to-all follows routes, which batches list only if media are in rows of their own.

    Args:
        apart: whether media are in rows of their own, so that outputs may go from any device to
            any other; otherwise they stay within the block of their row.
    """
    return EXCHANGES if apart else tuple(name for name in EXCHANGES if name != "all_to_all")
