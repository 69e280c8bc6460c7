"""What the stages do together at a stage sync: sends, heads and embeddings of shared ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from scheduling.executor.control import run_if
from scheduling.executor.merges import Row
from scheduling.executor.modules import BoundModule
from scheduling.executor.tasks import ModuleRow, PipelineTasks
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.schedules.task_kinds import B, F
from sharding.collectives import Axes, ppermute, psum, vary
from sharding.layerstack.loops import PyTree, add_cast, read_slot, write_slot
from sharding.layerstack.module import Loss


@dataclass(frozen=True)
class StageSync:
    """The joint work of the stages in a tick, traced for one step.

    Attributes:
        bounds: what is fixed of the schedules that run.
        tasks: the tasks of the step, whose state this work changes.
        losses: the losses of the backbone's outputs, by name.
        divisors: of the sum of each loss, by name.
        stage: grid axes of the backbone's stages.
        axes: all axes of the grid.
        index: the number of this device's stage.
    """

    bounds: ScheduleBounds
    tasks: PipelineTasks
    losses: Mapping[str, Loss]
    divisors: Mapping[str, jax.Array]
    stage: Axes
    axes: Axes
    index: jax.Array | int

    @property
    def modules(self) -> Mapping[str, BoundModule]:
        """The modules on the parameters of the step."""
        return self.tasks.modules

    @property
    def backbone(self) -> str:
        """The module whose outputs the losses read."""
        return self.bounds.backbone_name

    def vary(self, x: jax.Array) -> jax.Array:
        """`x`, marked as varying over all axes."""
        return vary(x, self.axes)

    def zero_sent(self, state: PyTree) -> PyTree:
        """Values sent from a stage without tasks: zeros."""
        tasks = self.tasks
        return {
            name: {F.name: tasks.zero_activation(name), B.name: tasks.zero_input(name)}
            for name in self.sent_modules(state)
        }

    def sent_modules(self, state: PyTree) -> list[str]:
        """The modules in the state whose values leave a stage."""
        stages = {name: self.bounds.modules[name].stages for name in state["modules"]}
        return [
            n
            for n, module_stages in stages.items()
            if module_stages.sends_activations or module_stages.shared_ends
        ]

    def sync_stages(self, state: PyTree, sent: PyTree, row: Row) -> PyTree:
        """Send activations and gradients on, and take part in the joint work of the stages."""
        modules = dict(state["modules"])
        for name, out in sent.items():
            if self.bounds.modules[name].stages.sends_activations:
                modules[name] = self._exchange_chunks(name, modules[name], out, row.modules[name])
        state = state | {"modules": modules}
        for name, out in sent.items():
            if self.bounds.modules[name].stages.shared_ends:
                state = self._run_head(name, state, out[F.name], row)
                state = self._return_gradients(name, state, out[B.name], row)
                state = self.enter_microbatch(name, state, row)
        return state

    def _exchange_chunks(self, name: str, buffers: PyTree, out: PyTree, row: ModuleRow) -> PyTree:
        """The buffers of a module with what comes from the stages before and after."""
        stage, tasks = self.stage, self.tasks
        assert row.receive_input is not None  # as of every module of several stages
        assert row.receive_gradient is not None
        gradient = tasks.drop_side_inputs(name, out[B.name])
        right, left = ppermute(out[F.name], stage, 1), ppermute(gradient, stage, -1)
        entry = tasks.pad_side_inputs(name, right)
        return buffers | {
            "inputs": write_slot(buffers["inputs"], row.receive_input, entry),
            "gradients": write_slot(buffers["gradients"], row.receive_gradient, left),
        }

    def _run_head(self, name: str, state: PyTree, y: jax.Array, row: Row) -> PyTree:
        """Losses of the microbatch that has left the last stage, and their gradients."""
        ends, learners = row.modules[name].ends, self.learners_of(state["samples"])
        assert ends is not None  # as of every module with shared ends
        last = self.index == self.bounds.stages - 1
        trained = {learner: module.trained for learner, module in learners.items()}

        def head(part: PyTree) -> PyTree:
            number = ends.head_microbatch
            rows, samples = self.tasks.read_rows(name, number), read_slot(state["samples"], number)
            hidden = self.broadcast_stage(last, y)
            losses = partial(self.compute_losses, rows=rows)
            values, pull = jax.vjp(losses, trained, hidden, samples)
            ones = {name: self.loss_scalar(1, jax.typeof(value)) for name, value in values.items()}
            d_rest, d_hidden, d_samples = pull(ones)
            slot = jnp.where(last, ends.head_gradient, -1)
            return {
                "gradients": write_slot(part["gradients"], slot, self.vary(d_hidden)),
                "rest": jax.tree.map(add_cast, part["rest"], d_rest),
                "losses": jax.tree.map(jnp.add, part["losses"], values),
                "sample_gradients": write_slot(part["sample_gradients"], number, d_samples),
            }

        sums = state["sums"]
        part = {"gradients": state["modules"][name]["gradients"], "losses": state["losses"]}
        part |= {"rest": {learner: sums[learner]["rest"] for learner in learners}}
        part |= {"sample_gradients": state["sample_gradients"]}
        part = run_if("head", ends.head_microbatch >= 0, head, part)
        state = self.tasks.update_module(name, state, {"gradients": part.pop("gradients")})
        rest_sums, sums = part.pop("rest"), state["sums"]
        sums = sums | {
            learner: sums[learner] | {"rest": added} for learner, added in rest_sums.items()
        }
        return state | part | {"sums": sums}

    def _return_gradients(self, name: str, state: PyTree, dx: jax.Array, row: Row) -> PyTree:
        """Gradient of a microbatch's input: to the embedding, and to the modules that fed it."""
        ends, feeds = row.modules[name].ends, self._feeds_into(name)
        assert ends is not None  # as of every module with shared ends

        def hand_out(part: PyTree) -> PyTree:
            rows = self.tasks.read_rows(name, ends.return_microbatch)
            g = self.vary(self.broadcast_stage(self.index == 0, dx))
            of_samples = read_slot(state["sample_gradients"], ends.return_microbatch)
            leaving = g, self._sum_stages(of_samples)
            buffers = part["output_grads"]
            gradients = {
                source: self.tasks.merges.return_gradients(number, leaving, buffers[source], row)
                for source, number in feeds.items()
            }
            rest_sums = self.tasks.add_embedding_gradients(name, part["rest"], g, rows)
            return {"rest": rest_sums, "output_grads": gradients}

        modules, parameters = state["modules"], self.tasks.parameters_of(name)
        part = {
            "rest": state["sums"][parameters]["rest"],
            "output_grads": {source: modules[source]["output_grad_buffer"] for source in feeds},
        }
        part = run_if("return", ends.return_microbatch >= 0, hand_out, part)
        for source, gradients in part["output_grads"].items():
            modules = modules | {source: modules[source] | {"output_grad_buffer": gradients}}
        state = state | {"modules": modules}
        return self.tasks.update_module(name, state, {"rest": part["rest"]})

    def enter_microbatch(self, name: str, state: PyTree, row: Row) -> PyTree:
        """The input of the microbatch that enters next: embeddings and outputs of other modules."""
        module, ends = self.modules[name], row.modules[name].ends
        assert ends is not None  # as of every module with shared ends

        def enter(part: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            inputs, slots = part
            rows = self.tasks.read_rows(name, ends.embed_microbatch)
            x = self.vary(module.functions.embed(module.end_params, rows))
            entering = x, jax.tree.map(lambda slot_values: jnp.zeros_like(slot_values[0]), slots)
            for source, number in self._feeds_into(name).items():
                buffer = state["modules"][source]["output_buffer"]
                entering = self.tasks.merges.merge_outputs(number, entering, buffer, row)
            x, samples = self._sum_stages(entering)
            slot = jnp.where(self.index == 0, ends.embed_input, -1)
            return write_slot(inputs, slot, x), write_slot(slots, ends.embed_microbatch, samples)

        buffers = state["modules"][name]
        part = buffers["inputs"], state["samples"]
        inputs, slots = run_if("embed", ends.embed_microbatch >= 0, enter, part)
        return self.tasks.update_module(name, state, {"inputs": inputs}) | {"samples": slots}

    def learners_of(self, samples: PyTree) -> dict[str, BoundModule]:
        """Modules whose parameters losses may read, by name: of `samples` those that bring them."""
        others = self._feeds_into(self.backbone) if samples else {}
        return {
            self.tasks.parameters_of(name): self.modules[name] for name in (self.backbone, *others)
        }

    def compute_losses(
        self, trained: PyTree, hidden: jax.Array, samples: PyTree, rows: PyTree
    ) -> dict[str, jax.Array]:
        """This rank's shares of the divided losses of one microbatch.

        Args:
            trained: parameters of `learners_of`, by module.
            hidden: outputs of the backbone's layers.
            samples: what losses read of other modules.
            rows: of the backbone.
        """
        learners, losses = self.learners_of(samples), self.losses.items()
        params = {name: learners[name].with_constant(part) for name, part in trained.items()}
        module = self.modules[self.backbone].functions
        outputs = module.output(params[module.name], hidden, rows)
        return {
            name: loss(params, outputs, samples, rows) / self.divisors[name]
            for name, loss in losses
        }

    def loss_scalar(self, value: float, like: Any) -> jax.Array:
        """A float32 scalar of the type of a loss, or of its shape."""
        varying = like.manual_axis_type.varying
        return vary(jnp.float32(value), tuple(n for n in self.axes if n in varying))

    def _feeds_into(self, name: str) -> dict[str, int]:
        """Modules that feed a module, and the numbers of their feeds."""
        feeds = enumerate(self.bounds.feeds)
        return {feed.source: number for number, feed in feeds if feed.target == name}

    def _sum_stages(self, tree: PyTree) -> PyTree:
        """The sum over stages of every leaf, on every stage."""
        return jax.tree.map(lambda x: self.vary(psum(x, self.stage)), tree)

    def broadcast_stage(self, chosen: jax.Array | bool, x: jax.Array) -> jax.Array:
        """The value of the one stage where `chosen` holds, on every stage."""
        return psum(jnp.where(chosen, x, 0), self.stage)
