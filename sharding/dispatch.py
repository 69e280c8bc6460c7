"""Tokens to the ranks of their experts and back, in rounds of bounded memory.

Tokens are split over the expert axes as over other axes of rows, and each of these ranks has some
of the experts. A token is copied for each of its experts. Copies are sorted by expert, go to the
ranks of these experts, are sorted by expert there, and their results come back to the rank of the
token, which adds them up by their weights (GShard, arXiv 2006.16668, section 3.1)::

    tokens    a b c          d e f
    copies    a0 c1|b2 b3    d0 e0|f2 d3         experts 0 and 1 | experts 2 and 3
                   \\  all-to-all  /
    arrived   a0 c1 d0 e0    b2 b3 f2 d3
    sorted    a0 d0 e0 c1    b2 f2 b3 d3         grouped products, then back in the same order

No copy is dropped, whatever the router does. As all tokens may choose one expert, a buffer for all
cases would hold the copies of all ranks. Copies go in rounds instead: a rank receives at most
`slots` of them in a round, and all ranks run as many rounds as the fullest one needs. One round is
enough where no rank gets more than its slots.

The backward runs the same rounds: tokens and the gradients of their results go to the experts,
whose products are computed again, so that nothing is kept but tokens, routes and weights. A weight
and its gradient move in columns of their own next to the rows.

A round has several parts on accelerators, whose exchanges are asynchronous: the compiler puts that
of the second part with the products of the first, and that of the first's results with the
products of the second.

Ragged exchanges send nothing but copies. CPUs lack them: there every pair of ranks has as many
slots as any other pair, and a round moves at most that many copies from each to each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sharding import collectives
from sharding.collectives import axis_index, axis_size, vary
from sharding.exchange_kinds import NUMBER_COLUMNS, number_columns
from sharding.grid import Axes

PyTree = Any
#: `(params, rows [n, width], counts [local experts]) -> [n, width]`: rows are sorted by expert, and
#: those after the sum of the counts belong to none: their results and gradients are zero.
Grouped = Callable[[PyTree, jax.Array, jax.Array], jax.Array]


@dataclass(frozen=True)
class ExpertDispatch:
    """How copies of tokens move; plain data.

    Attributes:
        axes: expert axes of the grid, which number the ranks.
        experts: experts of all ranks, a multiple of the ranks.
        slots: copies that a rank receives in a part of a round, a multiple of the ranks.
        parts: parts of a round. A compiler can run the exchange of one part during the products of
            another.
        ragged: whether exchanges send copies only; not on CPUs.
    """

    axes: Axes
    experts: int
    slots: int
    parts: int = 1
    ragged: bool = False


def through_experts(
    grouped: Grouped,
    params: PyTree,
    tokens: jax.Array,
    experts: jax.Array,
    weights: jax.Array,
    dispatch: ExpertDispatch,
) -> jax.Array:
    """For each token the weighted sum of what its experts make of it.

    Args:
        grouped: products of the experts of this rank; it may be differentiated.
        params: parameters of the experts of this rank.
        tokens: `[tokens, width]`, those of this rank.
        experts: `[tokens, choices]` int32, numbers of experts, `dispatch.experts` for no expert.
        weights: `[tokens, choices]` float32.
        dispatch: how copies move.

    Returns:
        `[tokens, width]` float32.
    """
    operands = params, tokens, experts, weights
    axes = {axis for leaf in jax.tree.leaves(operands) for axis in jax.typeof(leaf).mat.varying}
    return _run_experts(grouped, dispatch, *vary(operands, tuple(sorted({*axes, *dispatch.axes}))))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _run_experts(
    grouped: Grouped,
    dispatch: ExpertDispatch,
    params: PyTree,
    tokens: jax.Array,
    experts: jax.Array,
    weights: jax.Array,
) -> jax.Array:
    copies = _TokenCopies.of_experts(experts, dispatch)

    def part(move: _RoundMove, rows: jax.Array, results: jax.Array) -> jax.Array:
        return move.return_results(grouped(params, rows, move.counts), results)

    outputs = _in_rounds(
        copies, copies.of_tokens(tokens), part, copies.zero_copies(tokens), dispatch
    )
    return jnp.sum(copies.by_token(outputs).astype(jnp.float32) * weights[..., None], axis=1)


def _experts_forward(
    grouped: Grouped, dispatch: ExpertDispatch, *operands: Any
) -> tuple[jax.Array, tuple[PyTree, jax.Array, jax.Array, jax.Array]]:
    return _run_experts(grouped, dispatch, *operands), operands


def _experts_backward(
    grouped: Grouped,
    dispatch: ExpertDispatch,
    operands: tuple[PyTree, jax.Array, jax.Array, jax.Array],
    gradient: jax.Array,
) -> tuple[PyTree, jax.Array, None, jax.Array]:
    params, tokens, experts, weights = operands
    copies = _TokenCopies.of_experts(experts, dispatch)
    both = copies.of_tokens(jnp.concatenate([tokens, gradient.astype(tokens.dtype)], axis=-1))
    sent = _join_numbers(both, copies.sort_copies(weights), dispatch)

    def part(move: _RoundMove, received: jax.Array, state: tuple[PyTree, jax.Array]) -> PyTree:
        of_params, of_copies = state
        (rows, of_results), scale = _split_numbers(received, 2 * [tokens.shape[-1]])
        results, pull = jax.vjp(lambda p, x: grouped(p, x, move.counts), params, rows)
        wide = of_results.astype(jnp.float32)
        of_part, of_rows = pull((wide * scale).astype(results.dtype))
        of_scale = jnp.sum(wide * results.astype(jnp.float32), axis=-1, keepdims=True)
        of_params = jax.tree.map(lambda total, x: total + x.astype(total.dtype), of_params, of_part)
        return of_params, move.return_results(_join_numbers(of_rows, of_scale, dispatch), of_copies)

    nothing = jax.tree.map(lambda x: jnp.zeros_like(x, jnp.float32), params)
    of_copies = _join_numbers(
        copies.zero_copies(tokens), jnp.zeros_like(copies.sort_copies(weights)), dispatch
    )
    sums, of_copies = _in_rounds(copies, sent, part, (nothing, of_copies), dispatch)
    of_params = jax.tree.map(lambda x, total: total.astype(x.dtype), params, sums)
    (of_tokens,), of_weights = _split_numbers(of_copies, [tokens.shape[-1]])
    summed = jnp.sum(copies.by_token(of_tokens).astype(jnp.float32), axis=1)
    return of_params, summed.astype(tokens.dtype), None, copies.by_token(of_weights)[..., 0]


_run_experts.defvjp(_experts_forward, _experts_backward)


def _in_rounds(
    copies: _TokenCopies,
    values: jax.Array,
    part: Callable[[_RoundMove, jax.Array, PyTree], PyTree],
    state: PyTree,
    dispatch: ExpertDispatch,
) -> PyTree:
    """`state` after all parts of all rounds.

    Args:
        copies: copies of this rank's tokens.
        values: `[copies, width]`, what the experts need.
        part: what a part makes of its move, of the rows that came, and of the state before.
        state: the state before all parts.
        dispatch: how copies move.
    """
    rounds = -(-copies.part_count(dispatch) // dispatch.parts)

    def body(carry: tuple[jax.Array, PyTree]) -> tuple[jax.Array, PyTree]:
        number, state = carry
        inputs = values
        for index in range(dispatch.parts):
            move = _RoundMove.of_part(copies, number * dispatch.parts + index, dispatch)
            # Exchanges are in the order of their parts, or a compiler may begin with the last one.
            inputs, received = lax.optimization_barrier((inputs, move.send_copies(inputs)))
            state = part(move, received, state)
        return number + 1, state

    with jax.named_scope("rounds"):
        start = jnp.zeros_like(rounds), state
        return lax.while_loop(lambda carry: carry[0] < rounds, body, start)[1]


def _join_numbers(rows: jax.Array, numbers: jax.Array, dispatch: ExpertDispatch) -> jax.Array:
    """Rows `[n, width]` and a float32 number of each, `[n, 1]`, as one array to move.

    A number is the sum of its columns, each of which has the next bits of it that the type of the
    rows can hold. (As bits of other types they would be changed: subnormal numbers become zero.)
    """
    kind, columns = jnp.finfo(rows.dtype), []
    for _ in range(NUMBER_COLUMNS[rows.dtype.itemsize]):
        columns.append(lax.reduce_precision(numbers, kind.nexp, kind.nmant))
        numbers = numbers - columns[-1]
    packed = jnp.concatenate(columns, axis=1).astype(rows.dtype)
    padding = number_columns(rows.dtype.itemsize, dispatch.ragged) - len(columns)
    return jnp.concatenate([rows, jnp.pad(packed, ((0, 0), (0, padding)))], axis=1)


def _split_numbers(joined: jax.Array, widths: list[int]) -> tuple[list[jax.Array], jax.Array]:
    """The columns of `_join_numbers` rows in parts of these widths, and the numbers `[n, 1]`."""
    *parts, columns = jnp.split(joined, np.cumsum(widths), axis=1)
    return parts, jnp.sum(columns.astype(jnp.float32), axis=1, keepdims=True)


class _TokenCopies(NamedTuple):
    """Copies of this rank's tokens, in the order of their experts.

    Attributes:
        order: `[copies]`, the number of each copy among the choices of all tokens.
        places: `[tokens, choices]`, the place of each copy in this order.
        counts: `[from, to, local experts]`, copies from each rank to each expert of each rank.
    """

    order: jax.Array
    places: jax.Array
    counts: jax.Array

    @classmethod
    def of_experts(cls, experts: jax.Array, dispatch: ExpertDispatch) -> _TokenCopies:
        """The copies of tokens that go to `experts`, `[tokens, choices]`."""
        flat, ranks = experts.reshape(-1), axis_size(dispatch.axes)
        order = jnp.argsort(flat, stable=True).astype(jnp.int32)
        places = _invert_permutation(order, dispatch)
        bounds = jnp.arange(dispatch.experts + 1, dtype=flat.dtype)
        local_counts = jnp.diff(jnp.searchsorted(flat[order], bounds)).astype(jnp.int32)
        counts = collectives.all_gather(local_counts[None], dispatch.axes, dim=0)
        return cls(order, places.reshape(experts.shape), counts.reshape(ranks, ranks, -1))

    @property
    def rank_totals(self) -> jax.Array:
        """`[from, to]`."""
        return jnp.sum(self.counts, axis=2)

    def part_count(self, dispatch: ExpertDispatch) -> jax.Array:
        """Parts of rounds until all copies have moved."""
        if dispatch.ragged:
            return _divide_up(jnp.max(jnp.sum(self.rank_totals, axis=0)), dispatch.slots)
        return _divide_up(jnp.max(self.rank_totals), dispatch.slots // len(self.counts))

    def of_tokens(self, values: jax.Array) -> jax.Array:
        """`[tokens, ..]` to `[copies, ..]`."""
        return values[self.order // self.places.shape[1]]

    def sort_copies(self, values: jax.Array) -> jax.Array:
        """`[tokens, choices]` to `[copies, 1]`."""
        return values.reshape(-1, 1)[self.order]

    def by_token(self, values: jax.Array) -> jax.Array:
        """`[copies, ..]` to `[tokens, choices, ..]`."""
        return values[self.places]

    def zero_copies(self, tokens: jax.Array) -> jax.Array:
        """Zeros `[copies, width]`."""
        return jnp.zeros_like(tokens, shape=(self.order.size, tokens.shape[-1]))


class _RoundMove(NamedTuple):
    """The copies that this rank sends and receives in a part of a round.

    Ranks are numbered along the expert axes; a *block* is what comes from one rank for one expert.

    Attributes:
        dispatch: how copies move.
        begin, sent: `[to]`, places of the first copies for each rank, and their numbers.
        arrive, received: `[from]`, places of what comes from each rank, and the numbers.
        output_offsets: `[to]`, where on each rank the copies of this one arrive.
        returns: `[from]`, places of the received copies on the ranks from which they come.
        blocks: `[from, local experts]`, the copies of each block.
        counts: `[local experts]`.
    """

    dispatch: ExpertDispatch
    begin: jax.Array
    sent: jax.Array
    arrive: jax.Array
    received: jax.Array
    output_offsets: jax.Array
    returns: jax.Array
    blocks: jax.Array
    counts: jax.Array

    @classmethod
    def of_part(
        cls, copies: _TokenCopies, number: jax.Array, dispatch: ExpertDispatch
    ) -> _RoundMove:
        """What moves in part `number`.

        With slots for all ranks together, a rank receives first all copies of the first rank, then
        those of the next, and so on, `slots` of them in each part.
        """
        totals, me = copies.rank_totals, axis_index(dispatch.axes)
        before = _sums_before(totals, axis=0) if dispatch.ragged else jnp.zeros_like(totals)
        slots = dispatch.slots if dispatch.ragged else dispatch.slots // len(totals)
        first, last = (
            jnp.clip(slots * (number + i) - before, 0, totals) for i in (0, 1)
        )  # [from, to], counted from the first copy for a rank
        lengths = last - first
        starts = _sums_before(totals, axis=1) + first
        arrive = (
            _sums_before(lengths, axis=0) if dispatch.ragged else _padded_starts(lengths, slots)
        )
        experts = jnp.cumsum(copies.counts[:, me], axis=1)
        ends = jnp.clip(experts, first[:, me, None], last[:, me, None])
        blocks = jnp.diff(ends, axis=1, prepend=first[:, me, None])
        return cls(
            dispatch,
            begin=starts[me],
            sent=lengths[me],
            arrive=arrive[:, me],
            received=lengths[:, me],
            output_offsets=arrive[me],
            returns=starts[:, me],
            blocks=blocks,
            counts=jnp.sum(blocks, axis=0),
        )

    def send_copies(self, values: jax.Array) -> jax.Array:
        """Values of this rank's copies, `[copies, ..]`, to those of the received ones by expert.

        Returns:
            `[slots, ..]`, zero after the received ones.
        """
        if self.dispatch.ragged:
            slices = jnp.stack([self.begin, self.sent, self.output_offsets, self.received])
            received = collectives.ragged_all_to_all(
                values, slices, self.dispatch.slots, self.dispatch.axes
            )
        else:
            sent = self._pick_rows(values, self._slot_copies())
            received = collectives.all_to_all(sent, self.dispatch.axes)
        return self._pick_rows(received, self._expert_order(by_expert=True))

    def return_results(self, results: jax.Array, into: jax.Array) -> jax.Array:
        """Results of the received copies, `[slots, ..]`, put into those of this rank's copies."""
        arrived = self._pick_rows(results, self._expert_order(by_expert=False))
        if self.dispatch.ragged:
            slices = jnp.stack([self.arrive, self.received, self.returns, self.sent])
            return collectives.ragged_all_to_all(arrived, slices, into, self.dispatch.axes)
        returned = collectives.all_to_all(arrived, self.dispatch.axes)
        slots, moved = self._copy_slots(len(into))
        return jnp.where(moved[:, None], returned[self._broadcast_once(slots)], into)

    def _copy_slots(self, copies: int) -> tuple[jax.Array, jax.Array]:
        """`[copies]`, the slot of every copy of this rank, and whether it moves in this part."""
        place = jnp.arange(copies, dtype=jnp.int32)
        to = jnp.searchsorted(self.begin, place, side="right", method="scan_unrolled") - 1
        offset = place - self.begin[to]
        moved = (to >= 0) & (offset < self.sent[to])
        return jnp.where(moved, to * (self.dispatch.slots // len(self.begin)) + offset, 0), moved

    def _pick_rows(self, values: jax.Array, index: jax.Array) -> jax.Array:
        """`values[index]`, zero where an index is beyond them."""
        return values.at[self._broadcast_once(index)].get(mode="fill", fill_value=0)

    def _broadcast_once(self, index: jax.Array) -> jax.Array:
        """`index`, computed once for a row and not for each of its columns.

        XLA for CPUs fuses an index of cheap terms into the gather that reads it, and computes the
        terms again for every element. It does so with no sum over a window.
        """
        return index if self.dispatch.ragged else lax.cumsum(jnp.diff(index, prepend=0))

    def _slot_copies(self) -> jax.Array:
        """`[slots]`, the copy in every slot of every rank, beyond all copies in an empty slot."""
        ranks = len(self.begin)
        offsets = jnp.arange(self.dispatch.slots // ranks, dtype=jnp.int32)[None]
        picks = jnp.where(
            offsets < self.sent[:, None], self.begin[:, None] + offsets, jnp.iinfo(jnp.int32).max
        )
        return picks.reshape(-1)

    def _expert_order(self, by_expert: bool) -> jax.Array:
        """`[slots]`: for received copies by expert their places as they arrived, or the inverse."""
        arrived = self.arrive[:, None] + _sums_before(self.blocks, axis=1)
        grouped = _sums_before(self.blocks.T.reshape(-1), axis=0).reshape(self.blocks.T.shape).T
        if by_expert:
            source, target, blocks = arrived.T, grouped.T, self.blocks.T
        else:
            source, target, blocks = grouped, arrived, self.blocks
        return _source_places(
            source.reshape(-1), target.reshape(-1), blocks.reshape(-1), self.dispatch.slots
        )


def _source_places(
    source: jax.Array, target: jax.Array, lengths: jax.Array, size: int
) -> jax.Array:
    """For each of `size` target places the source place of what comes there, `size` for nothing.

    Args:
        source, target: first places of blocks; those of the target do not decrease.
        lengths: of the blocks.
    """
    place = jnp.arange(size, dtype=jnp.int32)
    begun = target[None] <= place[:, None]

    def of_block(values: jax.Array) -> jax.Array:
        """The value of the last block that has begun, as a sum of differences.

        Compilers for TPUs take 13 s for `jnp.searchsorted`, unrolled, and the gathers by it.
        """
        return jnp.sum(jnp.where(begun, jnp.diff(values, prepend=0)[None], 0), axis=1)

    inside = place < of_block(target + lengths)
    return jnp.where(inside, place + of_block(source - target), size)


def _invert_permutation(order: jax.Array, dispatch: ExpertDispatch) -> jax.Array:
    """The inverse of a permutation.

    CPUs write 16384 numbers to any places in a hundredth of the time in which they sort them (rows
    they write entry by entry). What accelerators take for it was not measured.
    """
    if dispatch.ragged:
        return jnp.argsort(order).astype(jnp.int32)
    place = jnp.arange(order.size, dtype=jnp.int32)
    return jnp.zeros_like(place).at[order].set(place, unique_indices=True)


def _sums_before(lengths: jax.Array, axis: int) -> jax.Array:
    """Sums of all lengths before each one."""
    return jnp.cumsum(lengths, axis=axis) - lengths


def _padded_starts(lengths: jax.Array, slots: int) -> jax.Array:
    """`[from, to]`, where copies arrive if every pair of ranks has `slots`."""
    return jnp.zeros_like(lengths) + slots * jnp.arange(len(lengths), dtype=jnp.int32)[:, None]


def _divide_up(count: jax.Array, size: int) -> jax.Array:
    return -(-count // size)
