"""The pipeline executor: a `Program` run by one `lax.scan` over ticks, inside the train step.

Everything here runs inside a fully manual, typed `jax.shard_map`. In a tick every device

1. runs its bundle: of the kinds of bundles in use, a loop of one iteration for the right one and of
   none for the others. Devices that share a stage choose the same kind, which makes collectives
   over data and tensor axes inside it safe;
2. if the stages meet at the tick's end (`Schedule.meetings`), sends activations right and gradients
   left (`ppermute`), takes its share of the head of the microbatch that has left the last stage,
   and keeps the gradient for an encoder it ran;
3. then takes part in the embedding of the microbatch that enters next: each stage holds a run of
   the vocabulary, and the outputs of the encoders wait on the stages that made them, so one sum
   over the stages delivers both.

Gradients are written out as calls of `jax.vjp`, task by task, so that nothing lives longer than
the schedule says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

from scheduling.layers import (
    Axes,
    LayerRun,
    Steps,
    Tree,
    add,
    given,
    once_if,
    read,
    run_tasks,
    write,
)
from scheduling.program import BundleKind, Program
from scheduling.schedule import Kind, Task
from sharding.collectives import axis_index, ppermute, psum, vary


class DecoderFunctions(Protocol):
    """The decoder as pure functions on local shards; `params` is without the layers."""

    def embed(self, params: Tree, batch: Tree) -> jax.Array:
        """Tokens to `[rows, tokens / tensor, d_model]`: this stage's share of a sum over stages."""

    def context(self, batch: Tree) -> Tree:
        """What the layers must know of a microbatch; not differentiated."""

    def layer(self, params: Tree, x: jax.Array, context: Tree) -> jax.Array:
        """One layer."""

    def head(self, params: Tree, x: jax.Array, batch: Tree) -> jax.Array:
        """Loss of the local rows, a float32 scalar, equal on all stages and tensor ranks."""


class EncoderFunctions(Protocol):
    """An encoder as pure functions on local shards; `params` is without the layers.

    Attributes:
        frozen: the layers and the embedding do not train; the connector may.
    """

    frozen: bool

    def embed(self, params: Tree, batch: Tree) -> jax.Array:
        """Patches or frames to `[rows, positions / tensor, d_model]`."""

    def context(self, batch: Tree) -> Tree:
        """What the layers must know of a microbatch; not differentiated."""

    def layer(self, params: Tree, x: jax.Array, context: Tree) -> jax.Array:
        """One layer."""

    def finish(self, params: Tree, x: jax.Array, batch: Tree, decoder_batch: Tree) -> jax.Array:
        """Norm, connector and exchange: `[decoder rows, tokens / tensor, d_decoder]`."""


class Observer(Protocol):
    """Told what the devices do while they do it."""

    def __call__(self, end: bool, device: int, tick: int, tasks: tuple[Task, ...]) -> None:
        """A bundle starts or ends.

        Args:
            end: False at its start.
            device: number of the device in the grid, the slowest axis first.
            tick: as in the schedule.
            tasks: what runs, in the order of `KINDS`.
        """


def scan_scope(ticks: range) -> str:
    """How profiles and compiled programs name the scan over `ticks`; in it are scopes by kind."""
    return f"ticks_{ticks.start}_to_{ticks.stop}"


@dataclass(frozen=True)
class Pipeline:
    """A program with the functions that its tasks stand for.

    Attributes:
        program: what runs where and when, and in which slots.
        decoder, encoders: the model.
        stage: grid axes of the decoder's stages.
        axes: all axes of the grid.
        layers: layers of one virtual chunk, and of one piece of each encoder by name.
        exists: whether a layer of the local stack (index) is one of the model and not padding.
        co_issue: trace independent tasks of a bundle side by side.
        observe: called on the host by every device at the start and at the end of every bundle,
            empty ones included; None traces no callbacks.
    """

    program: Program
    decoder: DecoderFunctions
    encoders: Mapping[str, EncoderFunctions]
    stage: Axes
    axes: Axes
    layers: Mapping[str, int]
    exists: Callable[[jax.Array], jax.Array] | None = None
    co_issue: bool = True
    observe: Observer | None = None

    def loss_and_gradients(
        self, params: Tree, batch: Tree, weight: jax.Array, carried: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, Tree, dict[str, jax.Array]]:
        """Loss and gradients of one step, as this device's shares of sums over the grid.

        Args:
            params: `{"decoder": tower, "encoders": {name: tower}}`, local shards that are marked
                as varying over all axes; `tower["layers"]` is a stack, this stage's layers chunk
                by chunk.
            batch: `decoder`: local rows `[microbatches, rows, ...]`, after this step's those of the
                next that it works ahead for; `encoders`: by name `[slots, rows, ...]`, the
                microbatches that this device's stage encodes.
            weight: what the sum of the losses is divided by.
            carried: outputs that the step before has made for this one, by encoder that works
                ahead, `[slots, rows, tokens / tensor, d_model]`.

        Returns:
            The loss summed over the microbatches, different on ranks with different rows only;
            gradients in the structure of `params`, in float32; and what is carried on.
        """
        return _Step(self, params, batch, weight, carried).run()

    def work_ahead(self, params: Tree, batch: Tree) -> dict[str, jax.Array]:
        """What a step with this `batch` would carry on to the next, and nothing else."""
        ahead = replace(self, program=self.program.ahead_only)
        return _Step(ahead, params, batch, jnp.ones(()), {}).work_ahead()

    def rehearse(
        self, params: Tree, batch: Tree, kind: BundleKind, piece: int, together: bool, ticks: int
    ) -> jax.Array:
        """Run bundles of one kind on all devices at once, to measure how long a task takes.

        Args:
            params, batch: as of `loss_and_gradients`.
            kind: of every bundle.
            piece: of its encoder tasks.
            together: let all stages also do what they do together in a tick: the embedding and the
                head of a microbatch and the return of its input's gradient.
            ticks: number of ticks.

        Returns:
            A scalar that depends on all that was computed; its value means nothing.
        """
        step = _Step(self, params, batch, jnp.ones(()), {})
        return step.rehearse(kind, piece, together, ticks)


class _Step:
    """One traced step: the state of the scan and the functions that change it.

    The state is a tree. `decoder`: ring buffers `inputs`, `gradients` and `saved`, gradient sums
    `layers` and `rest`, the `loss`; for every encoder the buffers `pieces`, `saved`, `outbox`,
    `inbox`, `piece_gradients` and gradient sums `layers` and `rest`.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        params: Tree,
        batch: Tree,
        weight: jax.Array,
        carried: Mapping[str, jax.Array],
    ) -> None:
        self.pipeline, self.program = pipeline, pipeline.program
        self.batch, self.weight, self.carried = batch, weight, carried
        self.vary = partial(vary, axes=pipeline.axes)
        self.index = axis_index(pipeline.stage)
        self.decoder = _Tower(pipeline, "decoder", pipeline.decoder, params["decoder"])
        self.encoders = {
            name: _Tower(pipeline, name, functions, params["encoders"][name])
            for name, functions in pipeline.encoders.items()
        }

    def run(self) -> tuple[jax.Array, Tree, dict[str, jax.Array]]:
        """Prologue, the ticks of the decoder, epilogue."""
        prologue, middle, epilogue = self.program.schedule.phases
        encoders = {name: self._encoder_state(name) for name in self.encoders}
        encoders = self._scan(prologue, {"encoders": encoders})["encoders"]
        state = {"decoder": self._decoder_state(), "encoders": encoders}
        state = self._embed(state, self._entry_row(self.program.schedule.span.start))
        state = self._scan(middle, state)
        decoder = state.pop("decoder")
        encoders = self._scan(epilogue, state)["encoders"]
        gradients = {
            "decoder": decoder["rest"] | {"layers": decoder["layers"]},
            "encoders": {
                name: tree["rest"] | {"layers": tree["layers"]} for name, tree in encoders.items()
            },
        }
        return decoder["loss"], gradients, self._carry_on(encoders)

    def work_ahead(self) -> dict[str, jax.Array]:
        """See `Pipeline.work_ahead`."""
        encoders = {name: self._encoder_state(name) for name in self.encoders}
        ticks = range(len(self.program.schedule.ticks))
        return self._carry_on(self._scan(ticks, {"encoders": encoders})["encoders"])

    def _carry_on(self, encoders: Tree) -> dict[str, jax.Array]:
        """Outputs for the next step."""
        counts = {name: encoder.carried for name, encoder in self.program.encoders.items()}
        return {name: encoders[name]["outbox"][:n] for name, n in counts.items() if n}

    def rehearse(self, kind: BundleKind, piece: int, together: bool, ticks: int) -> jax.Array:
        """See `Pipeline.rehearse`."""
        rows = jax.tree.map(lambda _: jnp.zeros(ticks, jnp.int32), self.program.rows(range(1)))
        for name in ("embed_microbatch", "head_microbatch", "return_microbatch"):
            rows[name] += 0 if together else -1
        for name, own in rows["encoders"].items():
            for table in (own["forward"], own["backward"]):
                table["piece"] += piece
                # A new input every time, lest the work be done once for all ticks.
                table["local"] += (
                    jnp.arange(ticks, dtype=jnp.int32) % self.program.encoders[name].slots
                )
        state = {
            "decoder": self._decoder_state(),
            "encoders": {name: self._encoder_state(name) for name in self.encoders},
        }
        state = self._ticks((kind,), rows, state, meet=True)
        return psum(self.vary(jnp.sum(jnp.stack(_probes(state)))), self.pipeline.axes)

    # ---- state -----------------------------------------------------------------------------------

    @cached_property
    def activation(self) -> jax.Array:
        """A zero activation between decoder layers."""
        batch = self._decoder_batch(jnp.int32(0))
        return self._zeros_of(lambda: self.decoder.functions.embed(self.decoder.rest, batch))

    def encoder_activation(self, name: str) -> jax.Array:
        """A zero activation between encoder layers."""
        tower, batch = self.encoders[name], self._encoder_batch(name, jnp.int32(0))
        return self._zeros_of(lambda: tower.functions.embed(tower.rest, batch))

    def _zeros_of(self, function: Callable[[], Tree]) -> Tree:
        """Zeros shaped like the result of `function`, varying over all axes."""
        shapes = jax.eval_shape(function)
        return self.vary(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))

    def _buffer(self, slots: int, like: Tree) -> Tree:
        """Zeros `[slots, ...]` for values like `like`."""
        zeros = jax.tree.map(lambda x: jnp.zeros((slots, *x.shape), x.dtype), like)
        return self.vary(zeros) if slots else ()

    def _decoder_state(self) -> Tree:
        sizes, x = self.program.sizes, self.activation
        batch = self._decoder_batch(jnp.int32(0))
        rows = tuple(
            axis
            for axis in self.pipeline.axes
            if any(axis in jax.typeof(leaf).mat.varying for leaf in jax.tree.leaves(batch))
        )
        context = self._context(self.decoder, batch)
        kept = self._zeros_of(
            lambda: self.decoder.layers.forward(jnp.int32(0), x, context).run()[1]
        )
        return {
            "inputs": self._buffer(sizes.inputs, x),
            "gradients": self._buffer(sizes.gradients, x),
            "saved": self._buffer(sizes.saved, kept),
            "loss": vary(jnp.zeros(()), rows),
            **self.decoder.zero_sums(),
        }

    def _encoder_state(self, name: str) -> Tree:
        sizes, x = self.program.encoders[name].sizes, self.encoder_activation(name)
        saved = self._zeros_of(lambda: self._encoder_saved(name, x)) if sizes.saved else ()
        outbox = self._buffer(sizes.outbox, self.activation)
        if name in self.carried:
            outbox = lax.dynamic_update_slice_in_dim(outbox, self.vary(self.carried[name]), 0, 0)
        return {
            "pieces": self._buffer(sizes.pieces, x),
            "saved": self._buffer(sizes.saved, saved),
            "outbox": outbox,
            "inbox": self._buffer(sizes.inbox, self.activation),
            "piece_gradients": self._buffer(sizes.piece_gradients, x),
            **self.encoders[name].zero_sums(),
        }

    def _encoder_saved(self, name: str, x: jax.Array) -> Tree:
        tower = self.encoders[name]
        context = self._context(tower, self._encoder_batch(name, jnp.int32(0)))
        y, kept = tower.layers.forward(jnp.int32(0), x, context).run()
        return self._kept(name, kept), y

    def _context(self, tower: _Tower, batch: Tree) -> Tree:
        """What the layers must know of a microbatch; of one type, as the residuals depend on it."""
        return self.vary(tower.functions.context(batch))

    def _decoder_batch(self, microbatch: jax.Array) -> Tree:
        return read(self.batch["decoder"], microbatch)

    def _encoder_batch(self, name: str, slot: jax.Array) -> Tree:
        return read(self.batch["encoders"][name], slot)

    # ---- ticks -----------------------------------------------------------------------------------

    def _scan(self, ticks: range, state: Tree) -> Tree:
        """Run `ticks`; a state without the decoder's part is for ticks without decoder tasks."""
        if not ticks:
            return state
        rows = jax.tree.map(self._own, self.program.rows(ticks))
        always = bool(self.program.schedule.meetings[ticks.start : ticks.stop].all())
        with jax.named_scope(scan_scope(ticks)):
            return self._ticks(self.program.kinds(ticks), rows, state, meet=always)

    def _ticks(self, kinds: Sequence[BundleKind], rows: Tree, state: Tree, *, meet: bool) -> Tree:
        """Scan over `rows`; the stages meet in all of them, or else where their row says so."""

        def tick(state: Tree, row: Tree) -> tuple[Tree, tuple[()]]:
            done = state, self._nothing_sent(state)
            for number, kind in enumerate(kinds):
                if kind != IDLE or self.pipeline.observe:
                    run = partial(self._bundle, kind, row)
                    done = once_if(str(kind), row["kind"] == number, run, done)
            state, sent = done
            meeting = partial(self._meet, sent=sent, row=row)
            if not meet:
                return once_if("meeting", row["meets"] > 0, meeting, state), ()
            return meeting(state), ()

        return lax.scan(tick, state, rows)[0]

    def _entry_row(self, tick: int) -> Tree:
        """What enters the decoder for `tick`, its first."""
        tables = jax.tree.map(lambda table: table[tick : tick + 1], self.program.tables())
        return jax.tree.map(lambda table: self._own(table)[0], tables)

    def _own(self, table: np.ndarray) -> jax.Array:
        """This stage's column of a table that has one."""
        whole = jnp.asarray(table)
        return whole if whole.ndim == 1 else jnp.take(whole, self.index, axis=1)

    def _embed(self, state: Tree, row: Tree) -> Tree:
        """The input of the microbatch that enters next: embeddings and encoder outputs."""

        def enter(inputs: Tree) -> Tree:
            batch = self._decoder_batch(row["embed_microbatch"])
            x = self.decoder.functions.embed(self.decoder.rest, batch)
            for name, encoder in state["encoders"].items():
                slot = row["encoders"][name]["deliver"]
                x = x + jnp.where(slot >= 0, read(encoder["outbox"], slot), 0)
            x = self.vary(psum(self.vary(x), self.pipeline.stage))
            slot = jnp.where(self.index == 0, row["embed_input"], -1)
            return write(inputs, slot, x)

        entering = row["embed_microbatch"] >= 0
        inputs = once_if("embed", entering, enter, state["decoder"]["inputs"])
        return state | {"decoder": state["decoder"] | {"inputs": inputs}}

    def _bundle(self, kind: BundleKind, row: Tree, done: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
        """Run the tasks of one kind of bundle: the new state, and what leaves this stage."""
        state, _ = done
        observe = self.pipeline.observe
        if observe is None:
            return self._run_bundle(kind, state, row)
        # The stamps are zeros: what follows a callback must wait for it to return.
        began = self._stamp(observe, kind, row, end=False, after=state)
        row = jax.tree.map(lambda x: x + began, row)
        state, sent = self._run_bundle(kind, state, row)
        ended = self._stamp(observe, kind, row, end=True, after=(state, sent))
        return state, jax.tree.map(lambda x: x + ended.astype(x.dtype), sent)

    def _stamp(
        self, observe: Observer, kind: BundleKind, row: Tree, *, end: bool, after: Tree
    ) -> jax.Array:
        """Tell the observer, once `after` has been computed."""
        numbers = [
            (name, module, table["microbatch"], table[part])
            for name, module, table, part in _tables_of(kind, row)
        ]
        names = tuple((name, module) for name, module, _, _ in numbers)
        device = axis_index(self.pipeline.axes)
        call = partial(_tell, observe, end, names)
        values = [number for _, _, *pair in numbers for number in pair]
        shape = jax.ShapeDtypeStruct((), jnp.int32)
        return self.vary(
            io_callback(call, shape, sum(_probes(after)), device, row["tick"], *values)
        )

    def _run_bundle(self, kind: BundleKind, state: Tree, row: Tree) -> tuple[Tree, Tree]:
        tasks: dict[str, Steps] = {}
        if kind.backward:
            tasks["B"] = self._backward(state["decoder"], row["backward"])
        if kind.forward:
            # Beside the backward proper rather than beside its recomputation.
            wait = kind.backward and self.program.remat == "full"
            tasks["F"] = self._forward(row["forward"], state["decoder"], wait)
        if kind.encoder_forward:
            name = kind.encoder_forward
            tasks["EF"] = self._encoder_forward(name, state["encoders"][name], row)
        if kind.encoder_backward:
            name = kind.encoder_backward
            tasks["EB"] = self._encoder_backward(name, state["encoders"][name], row)
        done = run_tasks(list(tasks.values()), self.pipeline.co_issue)
        results = dict(zip(tasks, done, strict=True))
        return self._collect(kind, state, results)

    def _collect(self, kind: BundleKind, state: Tree, results: Mapping[str, Tree]) -> Tree:
        """Changes of the tasks put into the state; zeros where nothing is sent."""
        encoders = dict(state["encoders"])
        sent: dict[str, Tree] = {"encoders": {}}
        for task, name in (("EF", kind.encoder_forward), ("EB", kind.encoder_backward)):
            if name:
                change, out = results[task]
                encoders[name] = encoders[name] | change
                sent["encoders"].setdefault(name, {})[task] = self.vary(out)
        for name in self._travelling:
            own = sent["encoders"].setdefault(name, {})
            for task in ("EF", "EB"):
                own.setdefault(task, self.encoder_activation(name))
        sent["encoders"] = {name: sent["encoders"][name] for name in self._travelling}
        new = state | {"encoders": encoders}
        if "decoder" in state:
            decoder = dict(state["decoder"])
            for task in ("F", "B"):
                change, out = results.get(task, ({}, self.activation))
                decoder |= change
                sent[task] = self.vary(out)
            new["decoder"] = decoder
        return new, sent

    def _nothing_sent(self, state: Tree) -> Tree:
        """What leaves a stage without tasks: zeros."""
        return self._collect(IDLE, state, {})[1]

    @cached_property
    def _travelling(self) -> tuple[str, ...]:
        """Encoders whose activations move between stages."""
        cuts = self.program.schedule.encoders
        return tuple(cut.name for cut in cuts if cut.stages > 1)

    def _meet(self, state: Tree, sent: Tree, row: Tree) -> Tree:
        """Send activations and gradients on, and take part in what all stages do together."""
        stage = self.pipeline.stage
        encoders = dict(state["encoders"])
        for name in self._travelling:
            own, out = row["encoders"][name], sent["encoders"][name]
            right, left = ppermute(out["EF"], stage, 1), ppermute(out["EB"], stage, -1)
            encoders[name] = encoders[name] | {
                "pieces": write(encoders[name]["pieces"], own["receive_piece"], right),
                "piece_gradients": write(
                    encoders[name]["piece_gradients"], own["receive_piece_gradient"], left
                ),
            }
        state = state | {"encoders": encoders}
        if "decoder" not in state:
            return state
        decoder = state["decoder"]
        right, left = ppermute(sent["F"], stage, 1), ppermute(sent["B"], stage, -1)
        decoder = decoder | {
            "inputs": write(decoder["inputs"], row["receive_input"], right),
            "gradients": write(decoder["gradients"], row["receive_gradient"], left),
        }
        decoder = self._head(decoder, sent["F"], row)
        state = self._return(state | {"decoder": decoder}, sent["B"], row)
        return self._embed(state, row)

    def _head(self, decoder: Tree, y: jax.Array, row: Tree) -> Tree:
        """Loss of the microbatch that has left the last stage, and its gradient."""
        last = self.index == self.program.schedule.stages - 1
        names = ("gradients", "rest", "loss")

        def head(part: Tree) -> Tree:
            batch = self._decoder_batch(row["head_microbatch"])
            hidden = self._from_stage(last, y)

            def loss(rest: Tree, x: jax.Array) -> jax.Array:
                return self.decoder.functions.head(rest, x, batch) / self.weight

            value, pull = jax.vjp(loss, self.decoder.rest, hidden)
            one = vary(jnp.ones((), value.dtype), tuple(jax.typeof(value).mat.varying))
            d_rest, d_hidden = pull(one)
            slot = jnp.where(last, row["head_gradient"], -1)
            return {
                "gradients": write(part["gradients"], slot, self.vary(d_hidden)),
                "rest": jax.tree.map(add, part["rest"], d_rest),
                "loss": part["loss"] + value,
            }

        part = {name: decoder[name] for name in names}
        return decoder | once_if("head", row["head_microbatch"] >= 0, head, part)

    def _return(self, state: Tree, dx: jax.Array, row: Tree) -> Tree:
        """Gradient of a microbatch's input: to the embedding, and to the encoders that fed it."""

        def hand_out(part: Tree) -> Tree:
            batch = self._decoder_batch(row["return_microbatch"])
            g = self.vary(self._from_stage(self.index == 0, dx))

            def embed(rest: Tree) -> jax.Array:
                return self.vary(self.decoder.functions.embed(rest, batch))

            (d_rest,) = jax.vjp(embed, self.decoder.rest)[1](g)
            inboxes = {
                name: write(inbox, row["encoders"][name]["inbox"], g)
                for name, inbox in part["inboxes"].items()
            }
            return {"rest": jax.tree.map(add, part["rest"], d_rest), "inboxes": inboxes}

        part = {
            "rest": state["decoder"]["rest"],
            "inboxes": {name: encoder["inbox"] for name, encoder in state["encoders"].items()},
        }
        part = once_if("return", row["return_microbatch"] >= 0, hand_out, part)
        encoders = {
            name: encoder | {"inbox": part["inboxes"][name]}
            for name, encoder in state["encoders"].items()
        }
        return {"decoder": state["decoder"] | {"rest": part["rest"]}, "encoders": encoders}

    def _from_stage(self, chosen: jax.Array | bool, x: jax.Array) -> jax.Array:
        """The value of the one stage where `chosen` holds, on every stage."""
        return psum(jnp.where(chosen, x, 0), self.pipeline.stage)

    # ---- tasks -----------------------------------------------------------------------------------

    def _forward(self, row: Tree, state: Tree, wait: bool) -> Steps:
        context = self._context(self.decoder, self._decoder_batch(row["microbatch"]))
        x = read(state["inputs"], row["input"])
        if wait:
            yield None
        run = self.decoder.layers
        result = yield run.forward(row["chunk"] * run.count, x, context)
        y, kept = given(result)
        return {"saved": write(state["saved"], row["saved"], kept)}, y

    def _backward(self, state: Tree, row: Tree) -> Steps:
        context = self._context(self.decoder, self._decoder_batch(row["microbatch"]))
        run = self.decoder.layers
        start = row["chunk"] * run.count
        if self.program.remat == "full":
            result = yield run.recompute(start, read(state["inputs"], row["input"]), context)
            kept = given(result)[1]
        else:
            kept = read(state["saved"], row["saved"])
        gradient = read(state["gradients"], row["gradient"])
        result = yield run.backward(start, kept, gradient, context, state["layers"])
        dx, sums = given(result)[0]
        return {"layers": sums}, dx

    def _encoder_forward(self, name: str, state: Tree, rows: Tree) -> Steps:
        tower, row = self.encoders[name], rows["encoders"][name]["forward"]
        batch = self._encoder_batch(name, row["local"])
        x = self._piece_input(name, state, row, batch)
        result = yield tower.layers.forward(
            self._first_layer(name, row), x, self._context(tower, batch)
        )
        y, kept = given(result)
        landed = once_if(
            "EF_last",
            self._is_last(name, row),
            lambda _: self._finish(name, tower.rest, y, batch, row),
            self.activation,
        )
        return {
            "saved": write(state["saved"], row["saved"], (self._kept(name, kept), y)),
            "outbox": write(state["outbox"], row["output"], landed),
            "pieces": write(state["pieces"], rows["encoders"][name]["keep_piece"], y),
        }, y

    def _encoder_backward(self, name: str, state: Tree, rows: Tree) -> Steps:
        tower, row = self.encoders[name], rows["encoders"][name]["backward"]
        batch = self._encoder_batch(name, row["local"])
        context, start = self._context(tower, batch), self._first_layer(name, row)
        frozen = tower.functions.frozen
        if self.program.remat == "full":
            x = self._piece_input(name, state, row, batch)
            again = tower.layers.forward if frozen else tower.layers.recompute
            result = yield again(start, x, context)
            y, kept = given(result)
        else:
            kept, y = read(state["saved"], row["saved"])

        def from_connector(done: tuple[Tree, jax.Array | None]) -> tuple[Tree, jax.Array]:
            def finish(rest: Tree, y: jax.Array) -> jax.Array:
                return self._finish(name, rest, y, batch, row)

            d_rest, g = jax.vjp(finish, tower.rest, y)[1](read(state["inbox"], row["gradient"]))
            return jax.tree.map(add, done[0], d_rest), self.vary(g)

        if frozen:  # the one backward that there is
            rest, _ = from_connector((state["rest"], None))
            return {"rest": rest}, self.encoder_activation(name)
        g = read(state["piece_gradients"], row["gradient"])
        rest, g = once_if("EB_last", self._is_last(name, row), from_connector, (state["rest"], g))
        result = yield tower.layers.backward(start, kept, g, context, state["layers"])
        dx, sums = given(result)[0]

        def into_embedding(rest: Tree) -> Tree:
            def embed(rest: Tree) -> jax.Array:
                return self.vary(tower.functions.embed(rest, batch))

            (d_rest,) = jax.vjp(embed, tower.rest)[1](dx)
            return jax.tree.map(add, rest, d_rest)

        rest = once_if("EB_first", self._is_first(name, row), into_embedding, rest)
        slot = rows["encoders"][name]["keep_piece_gradient"]
        kept_gradients = write(state["piece_gradients"], slot, dx)
        return {"rest": rest, "layers": sums, "piece_gradients": kept_gradients}, dx

    def _piece_input(self, name: str, state: Tree, row: Tree, batch: Tree) -> jax.Array:
        tower = self.encoders[name]
        return once_if(
            "EF_first",
            self._is_first(name, row),
            lambda _: self.vary(tower.functions.embed(tower.rest, batch)),
            read(state["pieces"], row["input"]),
        )

    def _finish(self, name: str, rest: Tree, y: jax.Array, batch: Tree, row: Tree) -> jax.Array:
        decoder_batch = self._decoder_batch(row["microbatch"])
        return self.vary(self.encoders[name].functions.finish(rest, y, batch, decoder_batch))

    def _pieces(self, name: str) -> int:
        return self.program.encoders[name].cut.pieces

    def _is_first(self, name: str, row: Tree) -> jax.Array | bool:
        """Whether a task is an encoder's first piece."""
        return self._pieces(name) == 1 or row["piece"] == 0

    def _is_last(self, name: str, row: Tree) -> jax.Array | bool:
        """Whether a task is an encoder's last piece."""
        return self._pieces(name) == 1 or row["piece"] == self._pieces(name) - 1

    def _first_layer(self, name: str, row: Tree) -> jax.Array:
        """Index in this stage's stack of the first layer of a piece."""
        cut = self.program.encoders[name].cut
        return row["piece"] % (cut.pieces // cut.stages) * self.encoders[name].layers.count

    def _kept(self, name: str, kept: Tree) -> Tree:
        """A frozen encoder's backward needs nothing of its layers."""
        return () if self.encoders[name].functions.frozen else kept


class _Tower:
    """A module's functions with its parameters, split into the stack of layers and the rest."""

    def __init__(self, pipeline: Pipeline, name: str, functions: Any, params: Tree) -> None:
        self.functions = functions
        self.rest = {key: value for key, value in params.items() if key != "layers"}
        self._axes = pipeline.axes
        self.layers = LayerRun(
            functions.layer,
            params["layers"],
            pipeline.layers[name],
            pipeline.program.remat,
            pipeline.axes,
            pipeline.exists if name == "decoder" else None,
        )

    def zero_sums(self) -> Tree:
        """Float32 zeros for the gradients."""
        zeros = partial(jax.tree.map, lambda p: jnp.zeros(p.shape, jnp.float32))
        return vary({"layers": zeros(self.layers.stack), "rest": zeros(self.rest)}, self._axes)


#: A bundle without tasks.
IDLE = BundleKind(False, False, None, None)


def _probes(tree: Tree) -> list[jax.Array]:
    """One number of every array."""
    return [leaf.ravel()[0].astype(jnp.float32) for leaf in jax.tree.leaves(tree)]


def _tables_of(kind: BundleKind, row: Tree) -> list[tuple[Kind, str, Tree, str]]:
    """Kind, module, row of the table and name of the part of every task of a bundle."""
    tasks: list[tuple[Kind, str, Tree, str]] = []
    if kind.forward:
        tasks.append(("F", "decoder", row["forward"], "chunk"))
    if kind.backward:
        tasks.append(("B", "decoder", row["backward"], "chunk"))
    if kind.encoder_forward:
        own = row["encoders"][kind.encoder_forward]
        tasks.append(("EF", kind.encoder_forward, own["forward"], "piece"))
    if kind.encoder_backward:
        own = row["encoders"][kind.encoder_backward]
        tasks.append(("EB", kind.encoder_backward, own["backward"], "piece"))
    return tasks


def _tell(
    observe: Observer,
    end: bool,
    names: Sequence[tuple[Kind, str]],
    probe: Any,
    device: Any,
    tick: Any,
    *values: Any,
) -> np.ndarray:
    """Host side of a stamp."""
    del probe
    pairs = zip(values[::2], values[1::2], strict=True)
    tasks = tuple(
        Task(kind, int(microbatch), int(part), module)
        for (kind, module), (microbatch, part) in zip(names, pairs, strict=True)
    )
    observe(end, int(device), int(tick), tasks)
    return np.zeros((), np.int32)
