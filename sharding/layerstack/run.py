"""Runs of layers, as loops of their forward and their backward.

A layer's backward is written out as a call of `jax.vjp`, from what the rematerialisation policy has
kept of its forward (`residuals.py`). `ahead.py` runs layers without a pipeline.

The layers of a stack may be unlike one another, in a period that repeats. One iteration of a loop
is a whole period, so that every kind of layer is compiled once and nothing is chosen at run time.
Parameters that only some layers of a period have are stacked for these alone::

    stack      0  1  2  3  4  5           [layers, ...], one behind the other
    some       -  0  1  -  2  3           [2 of 3 layers, ...], of those that have it
    place      0  1  2  0  1  2           which layer of the period, known to the compiler
    iteration  |-- 0 --||-- 1 --|
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from sharding.collectives import Axes, vary
from sharding.layerstack.loops import Loop, Tree, read
from sharding.layerstack.partition import apart, joined
from sharding.layerstack.residuals import from_residuals, with_residuals
from sharding.layerstack.split_backward import CutLayer, Pairs

#: Auxiliary losses of layers by name, float32 scalars: this rank's shares of sums over all ranks.
Aux = Mapping[str, jax.Array]


@dataclass(frozen=True)
class LayerTraits:
    """How the layers of a stack differ, and what they take and give beside the activation.

    Attributes:
        period: layers after which kinds of layers repeat.
        aux: names of the auxiliary losses that every layer gives.
        inputs: number of first layers that have an input of their own, which is added behind
            them. The inputs lie behind the features of the activation that enters a run::

                [rows, positions, width]  ->  [rows, positions, (1 + inputs) * width]

        taps: numbers of layers, from 1, whose outputs are handed on. They lie behind the features
            of the activation, before and behind a run. The stack is whole on every rank.
        without: of each layer of a period the entries of the stack, a dict then, that it does not
            have; empty if all layers have all.
    """

    period: int = 1
    aux: tuple[str, ...] = ()
    inputs: int = 0
    taps: tuple[int, ...] = ()
    without: tuple[frozenset[str], ...] = ()

    def holders(self, name: str) -> list[int]:
        """Places of a period whose layers have this entry of the stack."""
        return [n for n in range(self.period) if not self.without or name not in self.without[n]]


#: The traits of layers that are all alike, and take and return nothing but the activation.
ALIKE = LayerTraits()


@dataclass(frozen=True)
class LayerRun:
    """`count` successive layers of a stack, as loops of their forward and their backward.

    Attributes:
        layer: `(params, x, context, place) -> (x, aux)`, where `place` is the layer's in its period
            and `aux` has the auxiliary losses of the layer on this rank.
        stack: parameters with a leading dimension of layers, of those that have them. Gradients
            have this structure.
        count: layers of the run, whole periods.
        remat: `full`, `layer` or `none`.
        axes: all axes of the grid. All that a layer sees varies over all of them, because the
            residuals of its backward depend on the types of its inputs.
        exists: whether the layer with this index is one of the model and not padding.
        traits: how layers differ, and what else they take and give.
        late: numbers of the leaves of parameters whose gradients `weights` makes, and not
            `backward` (`sharding.layerstack.split_backward`); None if `backward` makes all.
        constant: further parameters like `stack`, which have no gradients
            (`sharding.layerstack.partition`).
    """

    layer: Callable[[Tree, jax.Array, Tree, int], tuple[jax.Array, Aux]]
    stack: Tree
    count: int
    remat: str
    axes: Axes
    exists: Callable[[jax.Array], jax.Array] | None = None
    traits: LayerTraits = ALIKE
    late: frozenset[int] | None = None
    constant: Tree = field(default_factory=dict)

    def forward(self, start: jax.Array, x: jax.Array, context: Tree) -> Loop:
        """Carry: the activation, sums of auxiliary losses, and outputs that are handed on.

        Outputs: values of each layer of a period that the backward needs, none if it recomputes.

        Args:
            start: index of the first layer, the first of a period.
            x: with what `traits` says behind its features.
        """
        x, beside = self.apart(x)

        def body(carry: Tree, first: jax.Array) -> tuple[Tree, tuple[Tree, ...]]:
            (x, aux, taps, ready), kept = carry, []
            for place in range(self.traits.period):
                i = first + place if place else first
                params, ready = self.taken(place, i, ready)
                (x, aux), own = self._layer(place, i, params, (x, aux), context)
                x, taps = self._add_input(i - start, x, beside), self._tap(i, x, taps)
                kept.append(own)
            return (x, aux, taps, ready), tuple(kept)

        taps, ready = beside if self.traits.taps else (), self.ready(0, start)
        return Loop(body, (x, self._no_aux(x), taps, ready), self._firsts(start))

    def made(self, carry: Tree) -> tuple[jax.Array, Aux]:
        """The activation with the outputs handed on, and the sums, of a forward's last carry."""
        x, aux, taps, _ = carry
        return jnp.concatenate([x, *taps], axis=-1) if self.traits.taps else x, aux

    def apart(self, x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The activation, and the parts that lie behind its features."""
        parts = jnp.split(x, 1 + self._beside, axis=-1) if self._beside else [x]
        return parts[0], tuple(parts[1:])

    @property
    def _beside(self) -> int:
        return max(self.traits.inputs, len(self.traits.taps))

    def _add_input(
        self, number: jax.Array, x: jax.Array, inputs: tuple[jax.Array, ...]
    ) -> jax.Array:
        """The activation `x`, with the input of layer `number` of the run added if it has one."""
        own = inputs[: self.traits.inputs]
        return sum((jnp.where(number == k, value, 0) for k, value in enumerate(own)), x)

    def _tap(
        self, i: jax.Array, x: jax.Array, taps: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, ...]:
        """Outputs that are handed on, behind layer `i`."""
        pairs = zip(self.traits.taps, taps, strict=True) if taps else ()
        return tuple(jnp.where(i + 1 == number, x, tap) for number, tap in pairs)

    def _layer(
        self,
        place: int,
        i: jax.Array,
        params: Tree,
        carry: tuple[jax.Array, Aux],
        context: Tree,
    ) -> tuple[tuple[jax.Array, Aux], list[Any]]:
        """Layer `i` of the forward: the new carry, and the kept values."""
        x, sums = carry
        if self.remat == "none":
            (y, aux), kept = with_residuals(partial(self._vjp, place), x, (params, i, context))
        else:
            y, aux = self._apply(place, i, params, x, context)
            kept = [x] if self.remat == "layer" else []
        return (y, jax.tree.map(jnp.add, sums, aux)), kept

    def _firsts(self, start: jax.Array) -> jax.Array:
        """Index of the first layer of every period, `[periods]`."""
        return vary(start + jnp.arange(0, self.count, self.traits.period), self.axes)

    @property
    def periods(self) -> jax.Array:
        """Numbers of the periods, `[periods]`."""
        return vary(jnp.int32(0) + jnp.arange(self.count // self.traits.period), self.axes)

    def recompute(self, start: jax.Array, x: jax.Array, context: Tree) -> Loop:
        """The forward again, keeping the values that the backward needs."""
        return replace(self, remat="none").forward(start, x, context)

    def backward(
        self, start: jax.Array, kept: Tree, gradient: jax.Array, aux: Aux, context: Tree, sums: Tree
    ) -> Loop:
        """Carry: gradients as in `of_carry`, and `sums` with the parameters' gradients added.

        Outputs: what `weights` reads of each layer of a period, nothing without late parameters.

        Args:
            kept: outputs of `forward`, or of `recompute` where the policy is `full`.
            gradient: gradient of the arrays that `made` returns for the forward's carry.
            aux: gradients of the sums of auxiliary losses.
            sums: tree like `stack`, or the first of `sums_apart`.
        """
        gradient, beside = self.gradients_apart(gradient)

        def body(carry: Tree, number: jax.Array) -> tuple[Tree, tuple[Any, ...]]:
            (g, beside, sums), found = carry, []
            # Kept values are read in place: reversing their order would copy all of them.
            own = read(kept, number)
            for place in reversed(range(self.traits.period)):
                offset = self.index(number, place)
                i = start + offset
                g, beside = self.beside_gradients(offset, i, g, beside)
                params = self.params(place, i)
                d_params, g, pairs = self.pulled(place, i, params, own[place], (g, aux), context)
                sums = self.added(place, i, sums, d_params, late=False)
                found.append(pairs)
            return (g, beside, sums), tuple(found[::-1])

        return Loop(body, (gradient, beside, sums), self.periods[::-1])

    def weights(
        self, start: jax.Array, pairs: tuple[Pairs, ...], like: jax.Array, context: Tree, sums: Tree
    ) -> Loop:
        """Carry: `sums` with the gradients of the late parameters added.

        Args:
            pairs: outputs of `backward`.
            like: an array of the shape and type of the layers' input.
            sums: the second of `sums_apart`.
        """

        def body(sums: Tree, own: tuple[jax.Array, tuple[Pairs, ...]]) -> tuple[Tree, tuple[()]]:
            number, pairs = own
            for place in range(self.traits.period):
                i = start + self.index(number, place)
                params, constant = self.apart_from_constant(self.params(place, i))
                cut = self._cut(place, params, like, (i, constant, context))
                found = cut.weights(jax.tree.leaves(params), pairs[place])
                sums = self.added(place, i, sums, found, late=True)
            return sums, ()

        return Loop(body, sums, (self.periods[::-1], pairs))

    def apart_from_weights(self, x: jax.Array, context: Tree) -> LayerRun:
        """The run with the parameters that products alone read as late ones.

        Args:
            x, context: as of a layer.
        """
        early = set[int]()
        for place in range(self.traits.period):
            numbers = self._numbers(place)
            i = jnp.int32(0)
            params, constant = self.apart_from_constant(self.params(place, i))
            late = self._cut(place, params, x, (i, constant, context)).late
            early |= {number for n, number in enumerate(numbers) if n not in late}
        return replace(self, late=frozenset(range(len(self._entries))) - early)

    def pairs(self, x: jax.Array, context: Tree) -> tuple[Pairs, ...]:
        """What `backward` gives for `weights`, where the first layers of the stack run on `x`."""
        start, own = jnp.int32(0), replace(self, remat="none")
        carry, kept = own.forward(start, x, context).run()
        early, _ = self.sums_apart(jax.tree.map(jnp.zeros_like, self.stack))
        found: tuple[Pairs, ...] = own.backward(
            start, kept, own.made(carry)[0], self._no_aux(x), context, early
        ).run()[1]
        return found

    def sums_apart(self, sums: Tree) -> tuple[list[jax.Array], list[jax.Array]]:
        """Of a tree like `stack` the leaves that `backward` adds to, and those of `weights`."""
        assert self.late is not None  # else there is nothing apart
        leaves = list(enumerate(jax.tree.leaves(sums)))
        return [own for n, own in leaves if n not in self.late], [
            own for n, own in leaves if n in self.late
        ]

    def sums_whole(self, early: list[jax.Array], late: list[jax.Array]) -> Tree:
        """Inverse of `sums_apart`."""
        assert self.late is not None  # as there
        leaves, structure = jax.tree.flatten(self.stack)
        rows = iter(early), iter(late)
        return jax.tree.unflatten(
            structure, [next(rows[n in self.late]) for n in range(len(leaves))]
        )

    def of_carry(self, carry: Tree) -> tuple[jax.Array, Tree]:
        """The gradient of the forward's `x`, and the sums, of a backward's last carry."""
        g, beside, sums = carry
        return jnp.concatenate([g, *beside], axis=-1) if beside else g, sums

    def gradients_apart(self, gradient: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Gradients of the activation, and of what lies behind the features of the input."""
        if self.traits.taps:
            return self.apart(gradient)
        return gradient, (jnp.zeros_like(gradient),) * self.traits.inputs

    def beside_gradients(
        self, number: jax.Array, i: jax.Array, g: jax.Array, beside: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """The gradient of the output of layer `i` before its input was added, and of that input."""
        for k, own in zip(self.traits.taps, beside, strict=False):
            g = g + jnp.where(i + 1 == k, own, 0)
        if not self.traits.inputs:
            return g, beside
        return g, tuple(jnp.where(number == k, g, own) for k, own in enumerate(beside))

    def gradients(
        self, kept: Tree, gradient: jax.Array, aux: Aux, context: Tree
    ) -> tuple[Tree, jax.Array]:
        """Gradients of the parameters and of the run's input, the run being the whole stack.

        Args:
            kept, aux: as for `backward`.
        """

        def body(carry: Tree, own: tuple[jax.Array, Tree]) -> tuple[Tree, list[Tree]]:
            (g, beside), (number, kept), found = carry, own, []
            for place in reversed(range(self.traits.period)):
                i = self.index(number, place)
                g, beside = self.beside_gradients(i, i, g, beside)
                params = self.params(place, i)
                d_params, g, _ = self.pulled(place, i, params, kept[place], (g, aux), context)
                found.append(d_params)
            return (g, beside), found[::-1]

        apart = self.gradients_apart(gradient)
        made, found = lax.scan(body, apart, (self.periods, kept), reverse=True)
        return self._together(found), self.of_carry((*made, ()))[0]

    def _together(self, found: list[Tree]) -> Tree:
        """Trees `[periods, ...]` of each place of a period as one like `stack`."""
        if not self.traits.without:
            return jax.tree.map(interleaved, *found)
        return {
            name: jax.tree.map(interleaved, *(found[n][name] for n in self.traits.holders(name)))
            for name in self.stack
        }

    def index(self, number: jax.Array, place: int) -> jax.Array:
        """Index of a layer in the run, by the number of its period."""
        return number if self.traits.period == 1 else number * self.traits.period + place

    # ---- the stack -------------------------------------------------------------------------------

    def ready(self, place: int, i: jax.Array) -> Tree:
        """What the carry of a loop that begins with layer `i` holds of that layer's parameters."""
        del place, i
        return ()

    def taken(self, place: int, i: jax.Array, ready: Tree) -> tuple[Tree, Tree]:
        """Parameters of layer `i` of a forward, and what the carry then holds of the next one's."""
        return self.params(place, i), ready

    def params(self, place: int, i: jax.Array) -> Tree:
        """Parameters of layer `i`."""
        return self.with_constant(*(self._of(own, place, i) for own in (self.stack, self.constant)))

    def _of(self, stack: Tree, place: int, i: jax.Array) -> Tree:
        if not self.traits.without:
            return read(stack, i)
        return {
            name: read(own, self._row(place, name, i))
            for name, own in stack.items()
            if name not in self.traits.without[place]
        }

    def apart_from_constant(self, params: Tree) -> tuple[Tree, Tree]:
        """A layer's parameters that have gradients, and those that have none."""
        return apart(params, self.stack) if self.constant else (params, {})

    def with_constant(self, params: Tree, constant: Tree) -> Tree:
        """Inverse of `apart_from_constant`."""
        return joined(params, constant) if self.constant else params

    def _row(self, place: int, name: str, i: jax.Array) -> jax.Array:
        """Number of layer `i` among those that have an entry of the stack."""
        holders = self.traits.holders(name)
        if len(holders) == self.traits.period:
            return i
        return (i - place) // self.traits.period * len(holders) + holders.index(place)

    @property
    def _entries(self) -> list[str]:
        """The entry of the stack in which each of its leaves is."""
        if not self.traits.without:
            return [""] * len(jax.tree.leaves(self.stack))
        return [path[0].key for path, _ in jax.tree_util.tree_leaves_with_path(self.stack)]

    def _numbers(self, place: int) -> list[int]:
        """Numbers of the leaves of the stack that layers at this place have, in their order."""
        without = self.traits.without[place] if self.traits.without else ()
        return [number for number, name in enumerate(self._entries) if name not in without]

    def added(self, place: int, i: jax.Array, sums: Tree, found: Tree, *, late: bool) -> Tree:
        """`sums` with the gradients of layer `i`.

        Args:
            sums: leaves of the stack: all if none are late, or else the `late` ones or the others.
            found: as many of the leaves of the layer.
        """
        entries, own = self._entries, self._numbers(place)
        numbers = [n for n in range(len(entries)) if self.late is None or (n in self.late) == late]
        new = iter(jax.tree.leaves(found))
        totals, structure = jax.tree.flatten(sums)
        added = [
            _add_at(self._row(place, entries[n], i), total, next(new)) if n in own else total
            for n, total in zip(numbers, totals, strict=True)
        ]
        return jax.tree.unflatten(structure, added)

    def _no_aux(self, x: jax.Array) -> Aux:
        """Zeros that vary as the activation does."""
        return {name: _like(jnp.zeros(()), x) for name in self.traits.aux}

    def _apply(
        self, place: int, i: jax.Array, params: Tree, x: jax.Array, context: Tree
    ) -> tuple[jax.Array, Aux]:
        y, aux = self.layer(params, x, context, place)
        if tuple(sorted(aux)) != tuple(sorted(self.traits.aux)):
            raise TypeError(
                f"layer {place} of a period gives the auxiliary losses {sorted(aux)}; valid: "
                f"{sorted(self.traits.aux)}, those that its stack names, from each of its layers"
            )
        made = y, {name: _like(value, x) for name, value in aux.items()}
        if self.exists is None:
            return made
        exists, without = self.exists(i), (x, self._no_aux(x))
        return jax.tree.map(lambda own, other: jnp.where(exists, own, other), made, without)

    def _vjp(
        self, place: int, x: jax.Array, rest: tuple[Tree, jax.Array, Tree]
    ) -> tuple[tuple[jax.Array, Aux], Any]:
        """A layer and its backward, from gradients of its outputs to those of its inputs.

        Its inputs are its parameters that have gradients, and `x`; `rest` are all parameters, the
        number of the layer and the context. With late parameters the backward is what
        `CutLayer.backward` takes.
        """
        whole, i, context = rest
        params, constant = self.apart_from_constant(whole)
        if self.late is not None:
            leaves, own = jax.tree.leaves(params), (i, constant, context)
            return self._cut(place, params, x, own).linearized(leaves, x, own)

        def layer(params: Tree, x: jax.Array) -> tuple[jax.Array, Aux]:
            return self._apply(place, i, self.with_constant(params, constant), x, context)

        return jax.vjp(layer, params, x)

    def _cut(
        self, place: int, params: Tree, x: jax.Array, rest: tuple[jax.Array, Tree, Tree]
    ) -> CutLayer:
        """The layers of a place, cut at their products, for arguments like these.

        Args:
            params: those that have gradients.
            rest: number of the layer, its other parameters, and the context.
        """

        def layer(params: Tree, x: jax.Array, rest: tuple[jax.Array, Tree, Tree]) -> Tree:
            i, constant, context = rest
            return self._apply(place, i, self.with_constant(params, constant), x, context)

        late = (
            None
            if self.late is None
            else frozenset(
                n for n, number in enumerate(self._numbers(place)) if number in self.late
            )
        )
        return CutLayer.of(layer, params, x, rest, late)

    def pulled(
        self,
        place: int,
        i: jax.Array,
        params: Tree,
        kept: list[Any],
        gradients: tuple[jax.Array, Aux],
        context: Tree,
    ) -> tuple[Tree, jax.Array, Pairs | tuple[()]]:
        """Gradients of the parameters of layer `i` and of its input, and what `weights` reads.

        Args:
            gradients: those of its outputs.
        """
        if self.remat == "layer":
            (x,) = kept
            pull = self._vjp(place, x, (params, i, context))[1]
        else:
            linearized = partial(self._vjp, place)
            pull = from_residuals(linearized, kept, gradients[0], (params, i, context))
        if self.late is not None:
            return CutLayer.backward(pull, gradients)
        return (*pull(gradients), ())


def interleaved(*places: jax.Array) -> jax.Array:
    """Values `[periods, ...]` of each place of a period as `[layers, ...]`."""
    if len(places) == 1:
        return places[0]
    return jnp.stack(places, axis=1).reshape(-1, *places[0].shape[1:])


def _like(value: jax.Array, x: jax.Array) -> jax.Array:
    """`value`, varying over the axes that `x` varies over."""
    return vary(value, tuple(sorted(jax.typeof(x).mat.varying)))


def _add_at(i: jax.Array, total: jax.Array, value: jax.Array) -> jax.Array:
    new = lax.dynamic_index_in_dim(total, i) + value[None].astype(total.dtype)
    return lax.dynamic_update_index_in_dim(total, new, i, 0)
