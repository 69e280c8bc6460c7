"""The pipeline executor: loops over ticks, inside the train step, that read a program's rows.

Everything here runs inside a fully manual, typed `jax.shard_map`. What is compiled is a
`ScheduleBounds`; the rows of a program and the number of its ticks are arguments. In a tick every
device

1. runs its bundle: of the kinds of bundles in use, a loop of one iteration for the right one and of
   none for the others, or if tasks run apart the same for every kind of task. Devices that share a
   stage choose the same, which makes collectives over data and tensor axes inside it safe;
2. if the stages meet at the tick's end (`Schedule.stage_syncs`), sends activations right and
   gradients left (`ppermute`), takes its share of the head of the microbatch that has left the last
   stage, and keeps the gradient for an encoder it ran;
3. then takes part in the embedding of the microbatch that enters next: each stage holds a run of
   the vocabulary, and the outputs of the encoders wait on the stages that made them, so one sum
   over the stages delivers both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from scheduling.executor.batch import StepBatch
from scheduling.executor.control import run_if, run_tasks
from scheduling.executor.modules import BoundModule
from scheduling.executor.observe import first_elements, record_event
from scheduling.executor.tasks import Tasks
from scheduling.lowering.bounds import PHASES, ScheduleBounds
from scheduling.lowering.lowered import IDLE, FusedKind
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import BACKBONE, Observer
from sharding.collectives import Axes, axis_index, ppermute, psum, vary
from sharding.layerstack.loops import Tree, add, write
from sharding.layerstack.module import Loss, Merge, Module
from sharding.layerstack.run import Aux


def ticks_scope(phase: int) -> str:
    """Name of the loop over the ticks of a phase in profiles and compiled programs.

    It has scopes by kind of bundle.
    """
    return f"{PHASES[phase]}_ticks"


@dataclass(frozen=True)
class Pipeline:
    """bounds with the functions that the tasks of its programs stand for.

    Attributes:
        bounds: what is fixed of the programs that run.
        decoder, encoders: the model; encoders by their lanes, which may share parameters.
        merges: by lane, how outputs are merged into the decoder's rows.
        loss: the loss of the decoder's outputs.
        stage: grid axes of the decoder's stages.
        axes: all axes of the grid.
        layers: layers of one virtual chunk, and of one chunk of each lane by name.
        exists: whether a layer of the local stack (index) is one of the model and not padding.
        co_issue: trace independent tasks of a bundle side by side, if it runs as a whole.
        observe: called on the host by every device at the start and at the end of every bundle,
            empty ones included; None traces no callbacks.
    """

    bounds: ScheduleBounds
    decoder: Module[Any]
    encoders: Mapping[str, Module[Any]]
    merges: Mapping[str, Merge]
    loss: Loss
    stage: Axes
    axes: Axes
    layers: Mapping[str, int]
    exists: Callable[[jax.Array], jax.Array] | None = None
    co_issue: bool = True
    observe: Observer | None = None

    def loss_and_gradients(
        self,
        params: Tree,
        batch: StepBatch[Any],
        weight: jax.Array,
        aux: Aux,
        carried: Mapping[str, jax.Array],
    ) -> tuple[jax.Array, Aux, Tree, dict[str, jax.Array]]:
        """Loss and gradients of one step, as this device's shares of sums over the grid.

        Args:
            params: by module, local shards that are marked as varying over all axes; `layers` of
                each is a stack, this stage's layers chunk by chunk.
            batch: local shards: rows of the decoder, `[microbatches, rows, ...]`, after this step's
                those of the next that it works ahead for; rows of encoders, `[slots, rows, ...]`,
                the microbatches that this device's stage encodes; routes of the stage's pairs of
                microbatches; the schedule of this stage, `[1, ...]`.
            weight: divisor of the sum of the losses.
            aux: factors of the sums of auxiliary losses in the loss.
            carried: outputs that the step before has made for this one, by encoder that works
                ahead, `[slots, rows, outputs / shards, d_decoder]`.

        Returns:
            The loss summed over the microbatches, different on ranks with different rows only, and
            without auxiliary losses; sums of these, different on all ranks; gradients in float32,
            of what `trained_apart` of the towers says has any; and the outputs that are carried on.
        """
        return _Step(self, params, batch, weight, aux, carried).run()

    def prefetch_outputs(self, params: Tree, batch: StepBatch[Any]) -> dict[str, jax.Array]:
        """The encoder outputs alone that a step with this `batch` carries on to the next.

        Its `schedule` is that of the forwards for the next step alone
        (`LoweredSchedule.prefetch_only`).
        """
        return _Step(self, params, batch, jnp.ones(()), {}, {}).prefetch_outputs()

    def profile_task(
        self,
        params: Tree,
        batch: StepBatch[Any],
        kind: FusedKind,
        chunk: int,
        together: bool,
        ticks: int,
    ) -> jax.Array:
        """Run bundles of one kind on all devices at once, to measure how long a task takes.

        Args:
            params, batch: as of `loss_and_gradients`.
            kind: kind of every bundle.
            chunk: chunk of its encoder tasks.
            together: whether all stages also do the joint work of a tick: the embedding and the
                head of a microbatch and the return of its input's gradient.
            ticks: number of ticks.

        Returns:
            A scalar that depends on all that was computed; its value means nothing.
        """
        aux = {name: jnp.ones(()) for name in self.decoder.aux}
        step = _Step(self, params, batch, jnp.ones(()), aux, {})
        return step.profile_task(kind, chunk, together, ticks)

    def bind_modules(self, params: Tree) -> tuple[BoundModule, dict[str, BoundModule]]:
        """The decoder and the lanes of encoders on `params`, as of `loss_and_gradients`."""
        axes, encoders = self.axes, self.bounds.encoders
        functions, count = self.decoder, self.layers["decoder"]
        sizes = count, self.bounds.remat, axes, self.exists
        return BoundModule(functions, params["decoder"], *sizes), {
            name: BoundModule(
                f,
                params[f.name],
                self.layers[name],
                encoders[name].remat,
                axes,
            )
            for name, f in self.encoders.items()
        }


class _Step:
    """One traced step: the loops over its ticks, and the joint work of the stages in a tick.

    The state is that of `Tasks`.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        params: Tree,
        batch: StepBatch[Any],
        weight: jax.Array,
        aux: Aux,
        carried: Mapping[str, jax.Array],
    ) -> None:
        self.pipeline, self.bounds = pipeline, pipeline.bounds
        assert batch.schedule is not None  # the step of a pipeline has one
        self.schedule = batch.schedule
        self.weight, self.carried = weight, carried
        self.vary = partial(vary, axes=pipeline.axes)
        self.index = axis_index(pipeline.stage)
        self.decoder, encoders = pipeline.bind_modules(params)
        modules = self.decoder, encoders, pipeline.merges
        self.tasks = Tasks(pipeline.bounds, *modules, batch, pipeline.axes, aux)
        inside = tuple(axis for axis in pipeline.axes if axis not in pipeline.stage)
        mixed = any(kind.backbone.tasks for kind in pipeline.bounds.without_encoders)
        # `Tasks.with_media` of all ranks of this stage.
        self.media_in_stage = {
            name: psum(self.vary(held).astype(jnp.int32), inside) > 0
            for name, held in (self.tasks.with_media if mixed else {}).items()
        }

    def run(self) -> tuple[jax.Array, Aux, Tree, dict[str, jax.Array]]:
        """Prologue, the ticks of the decoder, epilogue."""
        prologue, middle, epilogue = range(len(PHASES))
        state = self._phase(prologue, self._encoders()) | {"decoder": self._decoder()}
        state = self._embed(state, self._row(jnp.int32(-1)))
        state = self._phase(middle, state)
        decoder = state.pop("decoder")
        state = self._phase(epilogue, state)
        gradients = {"decoder": self.tasks.decoder_gradients(decoder)} | {
            name: tree["rest"] | {"layers": tree["layers"]} for name, tree in state["sums"].items()
        }
        carried = self._carried_outputs(state["encoders"])
        return decoder["loss"], decoder["aux"], gradients, carried

    def prefetch_outputs(self) -> dict[str, jax.Array]:
        """See `Pipeline.prefetch_outputs`."""
        state = self._encoders()
        for phase in range(len(PHASES)):
            state = self._phase(phase, state)
        return self._carried_outputs(state["encoders"])

    def _encoders(self) -> Tree:
        """The state before the decoder starts."""
        names = self.bounds.encoders
        start = {name: self.tasks.encoder_state(name, self.carried.get(name)) for name in names}
        return {"encoders": start, "sums": self.tasks.sums()}

    def _decoder(self) -> Tree:
        """The state when the decoder starts."""
        hidden = self._from_stage(True, self.tasks.activation)
        batch = self.tasks.decoder_batch(jnp.int32(0))
        value_type = jax.eval_shape(self._loss, self.decoder.rest, hidden, batch).manual_axis_type
        axes = tuple(axis for axis in self.pipeline.axes if axis in value_type.varying)
        return self.tasks.decoder_state() | {"loss": vary(jnp.zeros(()), axes)}

    def _loss(self, rest: Tree, hidden: jax.Array, batch: Tree) -> jax.Array:
        """This rank's share of the loss of one microbatch."""
        outputs = self.decoder.functions.output(rest, hidden, batch)
        return self.pipeline.loss(rest, outputs, batch) / self.weight

    def _carried_outputs(self, encoders: Tree) -> dict[str, jax.Array]:
        """Outputs for the next step."""
        counts = {name: encoder.carried for name, encoder in self.bounds.encoders.items()}
        return {name: encoders[name]["output_buffer"][:n] for name, n in counts.items() if n}

    def profile_task(self, kind: FusedKind, chunk: int, together: bool, ticks: int) -> jax.Array:
        """See `Pipeline.profile_task`."""

        def row(tick: jax.Array) -> Tree:
            tables, joint = self.bounds.entries
            row = self.bounds.unpack([jnp.int32(0)] * tables, [jnp.int32(0)] * joint)
            for name in ("embed_microbatch", "head_microbatch", "return_microbatch"):
                row[name] = jnp.int32(0 if together else -1)
            for name, tables in row.get("encoders", {}).items():
                for task in (tables["forward"], tables["backward"]):
                    task["chunk"] = jnp.int32(chunk)
                    # A new input every time, lest the work be done once for all ticks.
                    task["local"] = tick % self.bounds.encoders[name].slots
            return row | {"runs": {str(kind): jnp.int32(1)}}

        state = self._encoders() | {"decoder": self._decoder()}
        state = self._ticks((kind,), row, (0, ticks), state, meet=True)
        return psum(self.vary(jnp.sum(jnp.stack(first_elements(state)))), self.pipeline.axes)

    # ---- ticks -----------------------------------------------------------------------------------

    def _phase(self, phase: int, state: Tree) -> Tree:
        """Run the ticks of a phase; a state without the decoder's part is for those without it."""
        kinds, phases = self.bounds.kinds[phase], self.schedule.phases
        if not kinds:
            return state
        ticks = phases[phase], phases[phase + 1]
        # Where nothing moves between stages, a stage sync leaves the state as it is.
        meet = self.bounds.syncs[phase] or not ("decoder" in state or self._sent_modules)
        with jax.named_scope(ticks_scope(phase)):
            return self._ticks(kinds, self._row, ticks, state, meet=meet)

    def _ticks(
        self,
        kinds: Sequence[FusedKind],
        row_of: Callable[[jax.Array], Tree],
        ticks: tuple[jax.Array | int, jax.Array | int],
        state: Tree,
        *,
        meet: bool,
    ) -> Tree:
        """Run the ticks from the first of `ticks` to before the second.

        The stages meet in all of them, or else where their row says so.
        """

        def tick(number: jax.Array, state: Tree) -> Tree:
            row = row_of(number)
            done = state, self._nothing_sent(state)
            # Known to no compiler, so that each loop waits for the one before it: what one reads
            # and another writes would be copied if the two could run in any order.
            turn = self.vary(jnp.int32(0))
            for kind in kinds:
                if kind != IDLE or self.pipeline.observe:
                    chosen = (row["runs"][str(kind)] > 0) & (turn >= 0)
                    done, turn = run_if(
                        str(kind), chosen, partial(self._in_turn, kind, row), (done, turn)
                    )
            state, sent = done
            sync = partial(self._sync_stages, sent=sent, row=row)
            return sync(state) if meet else run_if("stage_sync", row["syncs"] > 0, sync, state)

        first, last = (jnp.asarray(bound, jnp.int32) for bound in ticks)
        return lax.while_loop(
            lambda carry: carry[0] < last,
            lambda carry: (carry[0] + 1, tick(*carry)),
            (first, state),
        )[1]

    def _row(self, tick: jax.Array) -> Tree:
        """This stage's entries of a tick; of tick -1: what enters for the decoder's first.

        Tasks of encoders do not run if their microbatches have no media: nothing of what they make
        would land, and all their gradients are zero. Of a bundle with tasks of the decoder, those
        run alone. An observer is told of whole bundles.
        """
        rows = self.schedule.by_stage[0], self.schedule.joint
        entries = (lax.dynamic_index_in_dim(rows_of, 1 + tick, keepdims=False) for rows_of in rows)
        row = self.bounds.unpack(*map(list, entries))
        if self.pipeline.observe:
            return row
        runs = dict(row["runs"])
        for kind, parts in self.bounds.without_encoders.items():
            runs_fused, media = row["runs"][str(kind)], self._fused_has_media(kind, row)
            runs[str(kind)] = jnp.where(media, runs_fused, 0)
            for part in map(str, parts):
                runs[part] = jnp.where(media, runs[part], jnp.maximum(runs[part], runs_fused))
        return row | {"runs": runs}

    def _fused_has_media(self, kind: FusedKind, row: Tree) -> jax.Array:
        """Whether the microbatch of any task of an encoder in a bundle has media.

        For a bundle with tasks of the decoder, whether it has media on any rank of the stage, as
        the ranks of the decoder's collectives must run the same loops.
        """
        any_media = jnp.zeros((), bool)
        has_media = self.media_in_stage if kind.backbone.tasks else self.tasks.with_media
        for task, name in kind.tasks:
            if name != BACKBONE:
                slot = jnp.maximum(row["encoders"][name][task.cost]["local"], 0)
                any_media |= has_media[name][slot]
        return any_media

    def _embed(self, state: Tree, row: Tree) -> Tree:
        """The input of the microbatch that enters next: embeddings and encoder outputs."""

        def enter(inputs: Tree) -> Tree:
            batch = self.tasks.decoder_batch(row["embed_microbatch"])
            x = self.vary(self.decoder.functions.embed(self.decoder.rest, batch))
            for name, encoder in state["encoders"].items():
                x = self.tasks.merge_outputs(name, x, encoder["output_buffer"], row)
            x = self.vary(psum(x, self.pipeline.stage))
            slot = jnp.where(self.index == 0, row["embed_input"], -1)
            return write(inputs, slot, x)

        entering = row["embed_microbatch"] >= 0
        inputs = run_if("embed", entering, enter, state["decoder"]["inputs"])
        return state | {"decoder": state["decoder"] | {"inputs": inputs}}

    def _in_turn(self, kind: FusedKind, row: Tree, state: Tree) -> Tree:
        """`_run_observed`, and a number that only it changes."""
        done, turn = state
        return self._run_observed(kind, row, done), turn + 1

    def _run_observed(
        self, kind: FusedKind, row: Tree, done: tuple[Tree, Tree]
    ) -> tuple[Tree, Tree]:
        """Run the tasks of a bundle: the new state, and the values sent from this stage."""
        observe, axes = self.pipeline.observe, self.pipeline.axes
        if observe is None:
            return self._run_fused(kind, row, done)
        place = self.index, self.bounds.stages
        began = record_event(observe, axes, kind, row, place, end=False, after=done)
        row = jax.tree.map(lambda x: x + began, row)
        state, sent = self._run_fused(kind, row, done)
        ended = record_event(observe, axes, kind, row, place, end=True, after=(state, sent))
        return state, jax.tree.map(lambda x: x + ended.astype(x.dtype), sent)

    def _run_fused(self, kind: FusedKind, row: Tree, done: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
        """Write the results of the tasks into the state and into the values to send."""
        state, sent = done
        tasks = self.tasks.run_fused(kind, state, row)
        results = run_tasks(list(tasks.values()), self.pipeline.co_issue)
        for (task, name), (change, out) in zip(tasks, results, strict=True):
            if name == BACKBONE:
                state = state | {"decoder": state["decoder"] | change}
                sent = sent | ({task.name: self.vary(out)} if task.passes else {})
                continue
            state = self.tasks.update_encoder(name, state, change)
            if name in self._sent_modules:
                outputs = sent["encoders"][name] | {task.name: self.vary(out)}
                sent = sent | {"encoders": sent["encoders"] | {name: outputs}}
        return state, sent

    def _nothing_sent(self, state: Tree) -> Tree:
        """Values sent from a stage without tasks: zeros."""
        zeros = {name: self.tasks.encoder_activation(name) for name in self._sent_modules}
        sent: Tree = {
            "encoders": {name: {F.name: zero, B.name: zero} for name, zero in zeros.items()}
        }
        if "decoder" in state:
            sent |= {F.name: self.tasks.activation, B.name: self.tasks.entry}
        return sent

    @cached_property
    def _sent_modules(self) -> tuple[str, ...]:
        """Encoders whose activations move between stages."""
        return tuple(
            name for name, bounds_of in self.bounds.encoders.items() if bounds_of.module.stages > 1
        )

    def _sync_stages(self, state: Tree, sent: Tree, row: Tree) -> Tree:
        """Send activations and gradients on, and take part in the joint work of the stages."""
        stage = self.pipeline.stage
        encoders = dict(state["encoders"])
        for name in self._sent_modules:
            tables, out = row["encoders"][name], sent["encoders"][name]
            right, left = ppermute(out[F.name], stage, 1), ppermute(out[B.name], stage, -1)
            encoders[name] = encoders[name] | {
                "inputs": write(encoders[name]["inputs"], tables["receive_input"], right),
                "gradients": write(encoders[name]["gradients"], tables["receive_gradient"], left),
            }
        state = state | {"encoders": encoders}
        if "decoder" not in state:
            return state
        decoder = state["decoder"]
        gradient, _ = self.decoder.layers.split_features(sent[B.name])
        right, left = ppermute(sent[F.name], stage, 1), ppermute(gradient, stage, -1)
        entry = self.tasks.into_entry(right)
        decoder = decoder | {
            "inputs": write(decoder["inputs"], row["receive_input"], entry),
            "gradients": write(decoder["gradients"], row["receive_gradient"], left),
        }
        decoder = self._head(decoder, sent[F.name], row)
        state = self._return(state | {"decoder": decoder}, sent[B.name], row)
        return self._embed(state, row)

    def _head(self, decoder: Tree, y: jax.Array, row: Tree) -> Tree:
        """Loss of the microbatch that has left the last stage, and its gradient."""
        last = self.index == self.bounds.stages - 1
        names = ("gradients", "rest", "loss")

        def head(part: Tree) -> Tree:
            batch = self.tasks.decoder_batch(row["head_microbatch"])
            hidden = self._from_stage(last, y)

            def loss(trained: Tree, hidden: jax.Array) -> jax.Array:
                return self._loss(self.decoder.with_constant(trained), hidden, batch)

            value, pull = jax.vjp(loss, self.decoder.trained, hidden)
            one = vary(jnp.ones((), value.dtype), tuple(jax.typeof(value).mat.varying))
            d_rest, d_hidden = pull(one)
            slot = jnp.where(last, row["head_gradient"], -1)
            return {
                "gradients": write(part["gradients"], slot, self.vary(d_hidden)),
                "rest": jax.tree.map(add, part["rest"], d_rest),
                "loss": part["loss"] + value,
            }

        part = {name: decoder[name] for name in names}
        return decoder | run_if("head", row["head_microbatch"] >= 0, head, part)

    def _return(self, state: Tree, dx: jax.Array, row: Tree) -> Tree:
        """Gradient of a microbatch's input: to the embedding, and to the encoders that fed it."""

        def hand_out(part: Tree) -> Tree:
            batch = self.tasks.decoder_batch(row["return_microbatch"])
            g = self.vary(self._from_stage(self.index == 0, dx))

            def embed(trained: Tree) -> jax.Array:
                rest = self.decoder.with_constant(trained)
                return self.vary(self.decoder.functions.embed(rest, batch))

            (d_rest,) = jax.vjp(embed, self.decoder.trained)[1](g)
            gradients = {
                name: self.tasks.return_gradients(name, g, gradients, row)
                for name, gradients in part["output_grads"].items()
            }
            return {"rest": jax.tree.map(add, part["rest"], d_rest), "output_grads": gradients}

        part = {
            "rest": state["decoder"]["rest"],
            "output_grads": {
                name: encoder["output_grad_buffer"] for name, encoder in state["encoders"].items()
            },
        }
        part = run_if("return", row["return_microbatch"] >= 0, hand_out, part)
        encoders = {
            name: encoder | {"output_grad_buffer": part["output_grads"][name]}
            for name, encoder in state["encoders"].items()
        }
        decoder = state["decoder"] | {"rest": part["rest"]}
        return state | {"decoder": decoder, "encoders": encoders}

    def _from_stage(self, chosen: jax.Array | bool, x: jax.Array) -> jax.Array:
        """The value of the one stage where `chosen` holds, on every stage."""
        return psum(jnp.where(chosen, x, 0), self.pipeline.stage)
