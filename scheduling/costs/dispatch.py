"""Bytes and seconds of exchanges of tokens between ranks that share experts (`sharding.dispatch`).

Every rank sends copies of its tokens to the ranks of their experts and gets results back. The load
is taken to be even, so that each of n ranks receives as many copies c as it sends, what it sends to
itself included (`Hardware.exchange_seconds`):

| exchange | copies |
|---|---|
| ragged | c |
| padded, as on CPUs | r b c: all slots of r rounds, each with room for b c copies |

where b is `experts.buffer` within the bounds of `exchange_kinds.round_capacity`, and r is one
round, or as many as hold all copies if b is less than one. Forward, a token and its result move;
backward, the token again with the gradient of its result and its weight, and then the gradients of
token and weight. Before either, ranks gather how many copies each of them has for each expert. What
is not counted are sorts of copies by expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from scheduling.costs.hardware import Hardware
from scheduling.costs.work import ExpertWork
from scheduling.costs.workload import WIDE
from sharding.exchange_kinds import is_ragged, number_columns, parts_of_a_round, round_capacity
from sharding.numbering import Span


@dataclass(frozen=True)
class ExposedTime:
    """Seconds of the exchange in a task of one layer with experts.

    Attributes:
        moving: seconds in which memory is read and written for it.
        collective: seconds of the links that no product of the layer hides.
    """

    moving: float
    collective: float

    @property
    def seconds(self) -> float:
        """Seconds without anything that overlaps."""
        return self.moving + self.collective


@dataclass(frozen=True)
class TokenExchange:
    """What a rank exchanges in a layer with experts, for one microbatch.

    Attributes:
        experts: the experts.
        tokens: tokens of the rank.
        token: bytes of a token between two layers.
        size: bytes of one of its elements.
        spans: digits of the ranks' numbers, see `Hardware.exchange_seconds`.
    """

    experts: ExpertWork
    tokens: float
    token: float
    size: int
    spans: tuple[Span, ...]

    @property
    def copies(self) -> float:
        """Copies of the rank's tokens."""
        return self.tokens * self.experts.top_k

    @property
    def ranks(self) -> int:
        """Ranks that share the experts."""
        return prod(high // low for low, high in self.spans)

    @property
    def _capacity(self) -> float:
        return round_capacity(self.experts.buffer, self.copies, self.ranks)

    @property
    def rounds(self) -> int:
        """Rounds that move an even load."""
        return ceil(1 / self._capacity)

    def slots_of_part(self, parts: int = 1) -> float:
        """Copies that a rank has room for in each of the `parts` of a round."""
        return self._capacity * self.copies / parts

    def moved_bytes(self, size: float, ragged: bool) -> float:
        """Bytes that a rank sends in one direction of copies of `size` bytes."""
        return size * (self.copies if ragged else self.rounds * self.slots_of_part())

    def forward_time(self, hardware: Hardware, products: float) -> ExposedTime:
        """Seconds of the exchange in a forward.

        Args:
            products: seconds of the experts' products in this task.
        """
        return self._exposed_time([self.token] * 2, hardware, products)

    def backward_time(self, hardware: Hardware, products: float) -> ExposedTime:
        """Seconds of the exchange in a backward; arguments as of `forward_time`."""
        number = self.size * number_columns(self.size, is_ragged(hardware.platform))
        message_bytes = [2 * self.token + number, self.token + number]
        return self._exposed_time(message_bytes, hardware, products)

    def _exposed_time(
        self, message_bytes: list[float], hardware: Hardware, products: float
    ) -> ExposedTime:
        """Seconds in which copies of so many bytes each go there or back, one after the other."""
        parts, ragged = parts_of_a_round(hardware.platform), is_ragged(hardware.platform)
        times = self.rounds * parts
        seconds = sum(
            times * hardware.exchange_seconds(self.moved_bytes(size, ragged) / times, self.spans)
            for size in message_bytes
        )
        # The exchange of all parts but one overlaps with the products of another.
        hidden = min((1 - 1 / parts) * seconds, products)
        # In each direction received rows are gathered in another order, that of their experts or
        # that of their ranks; slots for every pair of ranks are one more order.
        gathers = 1 if ragged else 2
        written = gathers * sum(message_bytes) * self.rounds * self.slots_of_part()
        collective = self._count_seconds(hardware) + seconds - hidden
        return ExposedTime(2 * written / hardware.gather_bandwidth, collective)

    def _count_seconds(self, hardware: Hardware) -> float:
        """Seconds in which ranks tell each other how many copies they have for each expert."""
        return hardware.digits_seconds(WIDE * self.experts.count * self.ranks, self.spans)

    def buffer_bytes(self, platform: str, hidden: float) -> float:
        """Bytes that the backward of a layer works with.

        Args:
            platform: platform of the devices.
            hidden: hidden width of an expert on one tensor rank.
        """
        slots = self.slots_of_part(parts_of_a_round(platform))
        return self.copies * 3 * self.token + slots * (6 * self.token + 4 * hidden * self.size)
