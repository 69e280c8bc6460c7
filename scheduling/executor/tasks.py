"""Tasks of a pipeline: forwards and backwards of chunks and of encoder chunks, on ring buffers.

Gradients are written out as calls of `jax.vjp`, task by task, so that nothing lives longer than
the schedule says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from scheduling.executor.batch import StepBatch
from scheduling.executor.control import TaskLoops, for_range, loop_result, run_if
from scheduling.executor.modules import BoundModule
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lowered import FusedKind
from scheduling.schedules.task_kinds import B, F, TaskKind, W
from scheduling.schedules.tasks import BACKBONE
from sharding.collectives import Axes, vary
from sharding.layerstack.loops import Tree, add, read, write
from sharding.layerstack.module import Merge
from sharding.layerstack.run import Aux


class Tasks:
    """The tasks of one traced step, and the state that they change.

    The state is a tree. `decoder`: ring buffers `inputs`, `gradients`, `saved` and `operands`, sums
    of gradients `layers`, `deferred` (of weights apart from backwards) and `rest`, the `loss` and
    sums of auxiliary losses `aux`; `encoders`: for every lane the buffers `inputs`, `saved`,
    `output_buffer`, `output_grad_buffer` and `gradients`; `sums`: for every encoder gradient
    sums `layers` and `rest`, to which all of its lanes add.

    Args:
        bounds: what is fixed of the programs that run.
        decoder, encoders: the modules; encoders by their lanes.
        merges: as in `Pipeline`.
        batch: as in `Pipeline.loss_and_gradients`.
        axes: all axes of the grid; all that layers see varies over them.
        aux: factors of the sums of auxiliary losses in the loss.

    Attributes:
        with_media: by lane, `[slots]`: whether the microbatch in each slot of this stage has media.
    """

    def __init__(
        self,
        bounds: ScheduleBounds,
        decoder: BoundModule,
        encoders: Mapping[str, BoundModule],
        merges: Mapping[str, Merge],
        batch: StepBatch[Any],
        axes: Axes,
        aux: Aux,
    ) -> None:
        self.bounds, self.decoder, self.encoders = bounds, decoder, encoders
        self.merges = merges
        self.batch, self.axes = batch, axes
        self.vary = partial(vary, axes=axes)
        self.aux = self.vary(dict(aux))
        self.with_media = {
            name: jax.vmap(tower.functions.has_inputs)(batch.rows[name])
            for name, tower in encoders.items()
        }
        if bounds.sizes.operands:
            context = self._context(decoder, self.decoder_batch(jnp.int32(0)))
            decoder.layers = decoder.layers.split_backward(self.activation, context)

    def run_fused(
        self, kind: FusedKind, state: Tree, row: Tree
    ) -> dict[tuple[TaskKind, str], TaskLoops]:
        """The fused tasks; each returns changes of the state and values to send."""
        # Beside the backward proper rather than beside its recomputation.
        wait = (B, BACKBONE) in kind.tasks and self.bounds.remat == "full"
        backbone: dict[TaskKind, Callable[[str, Tree, Tree], TaskLoops]] = {
            W: self._weights,
            B: self._backward,
            F: partial(self._forward, wait=wait),
        }
        others = {F: self._encoder_forward, B: self._encoder_backward}
        tasks = [(task, BACKBONE, function) for task, function in backbone.items()]
        tasks += [(task, name, others[task]) for task, name in kind.tasks if name != BACKBONE]
        return {
            (task, name): function(name, self._state_of(name, state), row)
            for task, name, function in tasks
            if (task, name) in kind.tasks
        }

    def _state_of(self, name: str, state: Tree) -> Tree:
        """The state that a task of a module reads: its buffers and its sums of gradients."""
        if name == BACKBONE:
            return state["decoder"]
        return state["encoders"][name] | state["sums"][self.encoder_of(name)]

    def encoder_of(self, name: str) -> str:
        """The encoder whose parameters a lane uses."""
        encoder: str = self.encoders[name].functions.name
        return encoder

    def update_encoder(self, name: str, state: Tree, change: Tree) -> Tree:
        """The state after a task of lane `name`; gradients are in the sums of its encoder."""
        encoders, sums, encoder = state["encoders"], state["sums"], self.encoder_of(name)
        added = {key: value for key, value in change.items() if key in sums[encoder]}
        buffers = {key: value for key, value in change.items() if key not in sums[encoder]}
        return state | {
            "encoders": encoders | {name: encoders[name] | buffers},
            "sums": sums | {encoder: sums[encoder] | added},
        }

    # ---- state -----------------------------------------------------------------------------------

    @cached_property
    def activation(self) -> jax.Array:
        """A zero activation between decoder layers."""
        return self.decoder.layers.split_features(self.entry)[0]

    def into_entry(self, x: jax.Array) -> jax.Array:
        """An activation as the input of a chunk: without inputs of its layers' own."""
        inputs = self.decoder.layers.spec.side_inputs
        return jnp.concatenate([x, *[jnp.zeros_like(x)] * inputs], axis=-1) if inputs else x

    @cached_property
    def entry(self) -> jax.Array:
        """A zero input of the decoder, with inputs of its layers' own."""
        batch = self.decoder_batch(jnp.int32(0))
        return self._zeros_of(lambda: self.decoder.functions.embed(self.decoder.rest, batch))

    def encoder_activation(self, name: str) -> jax.Array:
        """A zero activation between encoder layers."""
        return self._zeros(self._encoder_shapes[name][0])

    def encoder_output(self, name: str) -> jax.Array:
        """Zeros in place of an encoder's outputs."""
        return self._zeros(self._encoder_shapes[name][1])

    @cached_property
    def _encoder_shapes(self) -> dict[str, tuple[Tree, Tree]]:
        """Shapes of an activation between layers and of the outputs, by lane."""

        def traced(name: str, tower: BoundModule) -> tuple[Tree, Tree]:
            batch = self.encoder_batch(name, jnp.int32(0))
            between = jax.eval_shape(lambda: tower.functions.embed(tower.rest, batch))
            x = self._zeros(between)
            return between, jax.eval_shape(lambda: tower.functions.output(tower.rest, x, batch))

        return {name: traced(name, tower) for name, tower in self.encoders.items()}

    def _zeros_of(self, function: Callable[[], Tree]) -> Tree:
        """Zeros shaped like the result of `function`, varying over all axes."""
        return self._zeros(jax.eval_shape(function))

    def _zeros(self, shapes: Tree) -> Tree:
        return self.vary(jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))

    def _context(self, tower: BoundModule, batch: Tree) -> Tree:
        """The values of a microbatch that all layers read, of one type, for the residuals."""
        return self.vary(tower.functions.context(batch))

    def decoder_batch(self, microbatch: jax.Array) -> Tree:
        """Local rows of a microbatch."""
        return read(self.batch.decoder, microbatch)

    def encoder_batch(self, name: str, slot: jax.Array) -> Tree:
        """Local rows of the microbatch in a slot of this stage's."""
        return read(self.batch.rows[name], slot)

    def _buffer(self, slots: int, like: Tree) -> Tree:
        """Zeros `[slots, ...]` for values like `like`."""
        zeros = jax.tree.map(lambda x: jnp.zeros((slots, *x.shape), x.dtype), like)
        return self.vary(zeros) if slots else ()

    def decoder_state(self) -> Tree:
        """The state of the decoder at a step's start, without the loss."""
        sizes, x = self.bounds.sizes, self.entry
        batch = self.decoder_batch(jnp.int32(0))
        context = self._context(self.decoder, batch)
        residuals = self._zeros_of(
            lambda: self.decoder.layers.forward(jnp.int32(0), x, context).run()[1]
        )
        state = {
            "inputs": self._buffer(sizes.inputs, x),
            "gradients": self._buffer(sizes.gradients, self.activation),
            "saved": self._buffer(sizes.saved, residuals),
            "aux": jax.tree.map(jnp.zeros_like, self.aux),
            **self.decoder.zero_sums(),
        }
        if not sizes.operands:
            return state
        early, late = self.decoder.layers.partition_sums(state["layers"])
        operands = self._zeros_of(lambda: self.decoder.layers.saved_operands(x, context))
        return state | {
            "layers": early,
            "deferred": late,
            "operands": self._buffer(sizes.operands, operands),
        }

    def decoder_gradients(self, state: Tree) -> Tree:
        """The gradients of the decoder's parameters, from its state at a step's end."""
        layers = state["layers"]
        if self.bounds.sizes.operands:
            layers = self.decoder.layers.combine_sums(layers, state["deferred"])
        return state["rest"] | {"layers": layers}

    def encoder_state(self, name: str, carried: jax.Array | None) -> Tree:
        """The state of a lane at a step's start; `carried` as of `Pipeline`."""
        sizes, x = self.bounds.encoders[name].sizes, self.encoder_activation(name)
        saved = self._zeros_of(lambda: self._encoder_saved(name, x)) if sizes.saved else ()
        outputs = self.encoder_output(name)
        buffer = self._buffer(sizes.output_buffer, outputs)
        if carried is not None:
            buffer = lax.dynamic_update_slice_in_dim(buffer, self.vary(carried), 0, 0)
        return {
            "inputs": self._buffer(sizes.inputs, x),
            "saved": self._buffer(sizes.saved, saved),
            "output_buffer": buffer,
            "output_grad_buffer": self._buffer(sizes.output_grad_buffer, outputs),
            "gradients": self._buffer(sizes.gradients, x),
        }

    def sums(self) -> Tree:
        """Zeros for the gradients of all encoders."""
        by_encoder = {self.encoder_of(name): tower for name, tower in self.encoders.items()}
        return {name: tower.zero_sums() for name, tower in by_encoder.items()}

    def _encoder_saved(self, name: str, x: jax.Array) -> Tree:
        tower = self.encoders[name]
        context = self._context(tower, self.encoder_batch(name, jnp.int32(0)))
        carry, residuals = tower.layers.forward(jnp.int32(0), x, context).run()
        return self._residuals(name, residuals), tower.layers.outputs_of(carry)[0]

    # ---- tasks -----------------------------------------------------------------------------------

    def _forward(self, _: str, state: Tree, rows: Tree, wait: bool) -> TaskLoops:
        row = rows["forward"]
        context = self._context(self.decoder, self.decoder_batch(row["microbatch"]))
        x = read(state["inputs"], row["input"])
        if wait:
            yield None
        run = self.decoder.layers
        result = yield run.forward(row["chunk"] * run.count, x, context)
        carry, residuals = loop_result(result)
        y, aux = run.outputs_of(carry)
        sums = jax.tree.map(jnp.add, state["aux"], aux)
        return {"saved": write(state["saved"], row["saved"], residuals), "aux": sums}, y

    def _backward(self, _: str, state: Tree, rows: Tree) -> TaskLoops:
        row = rows["backward"]
        context = self._context(self.decoder, self.decoder_batch(row["microbatch"]))
        run = self.decoder.layers
        start = row["chunk"] * run.count
        if self.bounds.remat == "full":
            result = yield run.recompute(start, read(state["inputs"], row["input"]), context)
            residuals = loop_result(result)[1]
        else:
            residuals = read(state["saved"], row["saved"])
        gradient = read(state["gradients"], row["gradient"])
        result = yield run.backward(start, residuals, gradient, self.aux, context, state["layers"])
        carry, operands = loop_result(result)
        dx, sums = run.gradients_of(carry)
        if not self.bounds.sizes.operands:
            return {"layers": sums}, dx
        return {
            "layers": sums,
            "operands": write(state["operands"], rows["weights"]["written"], operands),
        }, dx

    def _weights(self, _: str, state: Tree, rows: Tree) -> TaskLoops:
        row, run = rows["weights"], self.decoder.layers
        context = self._context(self.decoder, self.decoder_batch(row["microbatch"]))
        operands = read(state["operands"], row["operands"])
        start = row["chunk"] * run.count
        result = yield run.weight_gradients(
            start, operands, self.activation, context, state["deferred"]
        )
        return {"deferred": loop_result(result)[0]}, ()

    def _encoder_forward(self, name: str, state: Tree, rows: Tree) -> TaskLoops:
        tower, row = self.encoders[name], rows["encoders"][name]["forward"]
        batch = self.encoder_batch(name, row["local"])
        x = self._chunk_input(name, state, row, batch)
        result = yield tower.layers.forward(
            self._first_layer(name, row), x, self._context(tower, batch)
        )
        carry, residuals = loop_result(result)
        y, _ = tower.layers.outputs_of(carry)
        outputs = run_if(
            "F_last",
            self._is_last(name, row),
            lambda _: self.vary(tower.functions.output(tower.rest, y, batch)),
            self.encoder_output(name),
        )
        return {
            "saved": write(state["saved"], row["saved"], (self._residuals(name, residuals), y)),
            "output_buffer": write(state["output_buffer"], row["output"], outputs),
            "inputs": write(state["inputs"], rows["encoders"][name]["keep_input"], y),
        }, y

    def _encoder_backward(self, name: str, state: Tree, rows: Tree) -> TaskLoops:
        tower, row = self.encoders[name], rows["encoders"][name]["backward"]
        batch = self.encoder_batch(name, row["local"])
        context, start = self._context(tower, batch), self._first_layer(name, row)
        frozen = tower.functions.frozen
        if self.bounds.encoders[name].remat == "full":
            x = self._chunk_input(name, state, row, batch)
            again = tower.layers.forward if frozen else tower.layers.recompute
            result = yield again(start, x, context)
            carry, residuals = loop_result(result)
            y, _ = tower.layers.outputs_of(carry)
        else:
            residuals, y = read(state["saved"], row["saved"])

        def from_connector(done: tuple[Tree, jax.Array | None]) -> tuple[Tree, jax.Array]:
            def connect(trained: Tree, y: jax.Array) -> jax.Array:
                rest = tower.with_constant(trained)
                return self.vary(tower.functions.output(rest, y, batch))

            pull = jax.vjp(connect, tower.trained, y)[1]
            d_rest, g = pull(read(state["output_grad_buffer"], row["gradient"]))
            return jax.tree.map(add, done[0], d_rest), self.vary(g)

        if frozen:  # the one backward that there is
            rest, _ = from_connector((state["rest"], None))
            return {"rest": rest}, self.encoder_activation(name)
        g = read(state["gradients"], row["gradient"])
        rest, g = run_if("B_last", self._is_last(name, row), from_connector, (state["rest"], g))
        result = yield tower.layers.backward(start, residuals, g, {}, context, state["layers"])
        dx, sums = tower.layers.gradients_of(loop_result(result)[0])

        def into_embedding(rest: Tree) -> Tree:
            def embed(trained: Tree) -> jax.Array:
                rest = tower.with_constant(trained)
                return self.vary(tower.functions.embed(rest, batch))

            (d_rest,) = jax.vjp(embed, tower.trained)[1](dx)
            return jax.tree.map(add, rest, d_rest)

        rest = run_if("B_first", self._is_first(name, row), into_embedding, rest)
        slot = rows["encoders"][name]["keep_gradient"]
        kept_gradients = write(state["gradients"], slot, dx)
        return {"rest": rest, "layers": sums, "gradients": kept_gradients}, dx

    def _chunk_input(self, name: str, state: Tree, row: Tree, batch: Tree) -> jax.Array:
        tower = self.encoders[name]
        return run_if(
            "F_first",
            self._is_first(name, row),
            lambda _: self.vary(tower.functions.embed(tower.rest, batch)),
            read(state["inputs"], row["input"]),
        )

    # ---- between encoders and the decoder --------------------------------------------------------

    def merge_outputs(self, name: str, x: jax.Array, buffer: jax.Array, row: Tree) -> jax.Array:
        """The input `x` of the microbatch that enters, with the outputs that lie on this stage."""
        tables, batch = row["encoders"][name], self.decoder_batch(row["embed_microbatch"])

        def add_landed(number: jax.Array, x: jax.Array) -> jax.Array:
            outputs = read(buffer, self._merge_entries(name, number)["output_buffer"])
            return x + self._merge(name, outputs, number, batch).astype(x.dtype)

        return for_range(
            f"{name}_merge", tables["merge_first"], tables["merge_count"], add_landed, x
        )

    def return_gradients(self, name: str, g: jax.Array, buffer: jax.Array, row: Tree) -> jax.Array:
        """`buffer` with the gradients of outputs that entered with the microbatch that leaves.

        Args:
            g: gradient of the microbatch's input.
        """
        if not self.bounds.encoders[name].sizes.output_grad_buffer:  # no backward reads one
            return buffer
        tables, batch = row["encoders"][name], self.decoder_batch(row["return_microbatch"])
        nothing = self.encoder_output(name)

        def take(number: jax.Array, buffer: jax.Array) -> jax.Array:
            pair = self._merge_entries(name, number)

            def land(outputs: jax.Array) -> jax.Array:
                return self._merge(name, outputs, number, batch)

            (new,) = jax.vjp(land, nothing)[1](g)
            old = jnp.where(pair["is_first"] > 0, 0, read(buffer, pair["output_grad_buffer"]))
            return write(buffer, pair["output_grad_buffer"], old + self.vary(new))

        return for_range(
            f"{name}_return", tables["return_first"], tables["return_count"], take, buffer
        )

    def _merge(self, name: str, outputs: jax.Array, number: jax.Array, batch: Tree) -> jax.Array:
        """Outputs of a pair of microbatches where they land."""
        routes = self.batch.routes.get(name)
        routes_of_pair = None if routes is None else read(routes, number)
        return self.vary(self.merges[name](outputs, routes_of_pair, batch))

    def _merge_entries(self, name: str, number: jax.Array) -> Tree:
        """The entries of a pair of microbatches of this stage."""
        assert self.batch.schedule is not None  # the step of a pipeline has one
        tables = self.batch.schedule.merges[name]
        return {table: read(rows[0], number) for table, rows in tables.items()}

    def _chunks(self, name: str) -> int:
        return self.bounds.encoders[name].module.chunks

    def _is_first(self, name: str, row: Tree) -> jax.Array | bool:
        """Whether a task is an encoder's first chunk."""
        return self._chunks(name) == 1 or row["chunk"] == 0

    def _is_last(self, name: str, row: Tree) -> jax.Array | bool:
        """Whether a task is an encoder's last chunk."""
        return self._chunks(name) == 1 or row["chunk"] == self._chunks(name) - 1

    def _first_layer(self, name: str, row: Tree) -> jax.Array:
        """Index in this stage's stack of the first layer of a chunk."""
        module = self.bounds.encoders[name].module
        return row["chunk"] % module.stage_chunks * self.encoders[name].layers.count

    def _residuals(self, name: str, residuals: Tree) -> Tree:
        """A frozen encoder's backward needs nothing of its layers."""
        return () if self.encoders[name].functions.frozen else residuals
