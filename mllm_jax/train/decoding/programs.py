"""The programs that write answers: prompts at once, then a loop over tokens on the devices.

::

    prompts, media  ->  prefill  ->  cache, first tokens  ->  decode  ->  tokens of the answers

Both run in one manual `shard_map` over the grid of the forward pass, under whose plan a pipeline's
stages are part of fsdp. The loop ends when no answer goes on, without a word from the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from data.batch import PackedBatch
from mllm_jax.layers.attention.masks import TokenIds
from mllm_jax.layers.config.kinds import SPAN_IDS
from mllm_jax.models.decoding import (
    CachedDecoder,
    DecodingCache,
    cast_to_compute_dtype,
    next_positions,
)
from mllm_jax.models.model import Model
from mllm_jax.models.module import parameter_axes
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.runtime.compiled.synchronized import SynchronizedProgram, synchronize_program
from mllm_jax.runtime.run_peers import waiting_for_peers
from mllm_jax.train.decoding.columns import NAMES, AnswerColumns
from mllm_jax.train.decoding.sampling import TokenDraw, TokenSampling, draw_tokens
from mllm_jax.train.step.batch_placement import gather_to_host, place_microbatches
from mllm_jax.train.step.gradient_program import Batch, first_microbatch
from mllm_jax.train.step.step import Step
from sharding.collectives import join_slices, psum, shard_slice
from sharding.rules import ParameterSharding

#: When parameters are gathered over fsdp: once, or layer by layer for every token.
Gather = Literal["step", "layer"]


#: Layouts of a `TokenDraw`, which every device has.
_DRAW_SPECS: Any = TokenDraw(*[cast(Any, PartitionSpec())] * 4)


class DecodingState(NamedTuple):
    """The state of answers that are being decoded; arrays of columns are `[rows, columns]`.

    Attributes:
        cache: keys and values of prompts and answers.
        token: the newest token of each answer, which the decoder has not seen yet.
        written: `[rows, columns, most]` int32: tokens of the answers; -1 after their ends.
        written_counts: how many these are.
        alive: whether the answer goes on.
        left: number of answers of all ranks that go on.
        positions: position of each answer's first token, on all axes.
        segments, lengths, limits, numbers: as in `AnswerColumns`.
    """

    cache: DecodingCache
    token: jax.Array
    written: jax.Array
    written_counts: jax.Array
    alive: jax.Array
    left: jax.Array
    positions: jax.Array
    segments: jax.Array
    lengths: jax.Array
    limits: jax.Array
    numbers: jax.Array


@dataclass(frozen=True)
class WrittenAnswers:
    """Answers of a batch, on every process.

    Attributes:
        answers: tokens of the answer to each prompt, the token of its end included.
        prefill_seconds, decode_seconds: time of the devices, without compiling.
        compile_seconds: time for programs that were not there yet.
    """

    answers: list[list[int]]
    prefill_seconds: float
    decode_seconds: float
    compile_seconds: float


class DecodingPrograms:
    """Compiled programs that write answers with a model under its plans.

    Args:
        step: step whose shardings serve forward passes (`Experiment.forward_step`).
        ends: tokens that end an answer.
        gather: `step`: parameters are gathered over fsdp once, by `prepare_parameters`; `layer`:
            layer by layer for every token, which takes less memory and more communication.
    """

    def __init__(self, step: Step, ends: Sequence[int], gather: Gather = "step") -> None:
        program = step.program
        views = dict(program.views)
        if gather == "step":
            views = {name: view.gathered_view for name, view in views.items()}
        self._step, self._gather = step, gather
        self._ends = np.asarray(ends, np.int32)
        self._modules = Model(program.model, views)
        self._backbone = program.model.backbone
        self._view = views[self._backbone]
        self._decoder = CachedDecoder(program.model, self._view)
        self._programs: dict[tuple[str, int, bool], SynchronizedProgram] = {}

    # ---- parameters ------------------------------------------------------------------------------

    @cached_property
    def prepare_parameters(self) -> Callable[[Any], Any]:
        """From parameters of the step to those that `write` takes.

        Layers of the decoder are separate trees, in the type in which they are used.
        """
        names = self._step.local_modules
        specs = {name: self._parameter_specs[name] for name in names}
        convert = synchronize_program(
            "parameters for decoding",
            self._step.jit_on(self._backbone, self._convert_parameters, specs, placed=True),
        )
        return lambda params: {**params, **convert({name: params[name] for name in names})}

    def _convert_parameters(self, params: Any) -> Any:
        axes = parameter_axes(self._step.program.model)
        name = self._backbone
        decoder = cast_to_compute_dtype(params[name], axes[name], self._decoder.dtype)
        return params | {name: self._decoder.unstack_parameters(decoder)}

    @cached_property
    def _parameter_specs(self) -> Any:
        """Layouts of prepared parameters on the devices of the backbone."""
        form = self._step.form.shardings
        local = {name: form[name] for name in self._step.local_modules}
        sharding = jax.tree.map(self._local_sharding, local)
        decoder = self._decoder.unstack_parameters(sharding[self._backbone], _of_one)
        specs = jax.tree.map(lambda leaf: leaf.spec, sharding | {self._backbone: decoder})
        return self._step.forward_specs | specs

    def _local_sharding(self, sharding: ParameterSharding) -> ParameterSharding:
        return (
            replace(sharding, view=sharding.view.gathered_view)
            if self._gather == "step"
            else sharding
        )

    # ---- answers ---------------------------------------------------------------------------------

    @property
    def columns_unit(self) -> int:
        """The number of columns of a row is a multiple of this: ranks that share its positions."""
        return self._view.degree_of(self._view.sequence_axes)

    def write_answers(
        self,
        params: Any,
        batch: PackedBatch,
        columns: AnswerColumns,
        most: int,
        sampling: TokenSampling,
    ) -> WrittenAnswers:
        """Answers to the prompts of a batch.

        Args:
            params: parameters that `prepare_parameters` returned.
            batch: packed prompts, rows of this process, see `data.loading.assemble`.
            columns: the answers of these rows.
            most: largest limit that there can be: the length of the answers' arrays.
            sampling: how tokens are chosen.
        """
        arrays = {**batch.text_rows.arrays, **columns.arrays}
        prompts = replace(batch.text_rows, arrays=arrays)
        placed = place_microbatches(
            [replace(batch, rows={**batch.rows, self._backbone: prompts})], self._step
        )
        params, placed = self._step.forward_inputs(params, placed)
        draw = sampling.as_arrays
        prefill = self._make_program("prefill", most, sampling.is_greedy)
        decode = self._make_program("decode", most, sampling.is_greedy)
        state, first = self._time_program(
            "prompts", prefill, {"params": params, "draw": draw}, placed
        )
        tokens, rest_seconds = self._time_program("answers", decode, params, draw, state)
        token_rows = gather_to_host(tokens)
        answers = [token_rows[at][token_rows[at] >= 0].tolist() for at in columns.places]
        return WrittenAnswers(
            answers, first.run, rest_seconds.run, first.compile + rest_seconds.compile
        )

    def _make_program(self, name: str, most: int, greedy: bool) -> SynchronizedProgram:
        """A program, which is compiled for every shape of a batch."""
        key = name, most, greedy
        if key not in self._programs:
            program = (
                self._prefill_program(most, greedy)
                if name == "prefill"
                else self._decode_program(greedy)
            )
            self._programs[key] = program
        return self._programs[key]

    def _time_program(
        self, name: str, program: SynchronizedProgram, *arguments: Any
    ) -> tuple[Any, _ProgramSeconds]:
        """The result of a program, and its seconds."""
        began = time.perf_counter()
        ready = program.prepare(*arguments)
        compiled = time.perf_counter()
        with waiting_for_peers(name, limited=False):
            result = jax.block_until_ready(ready(*arguments))
        return result, _ProgramSeconds(compiled - began, time.perf_counter() - compiled)

    # ---- programs --------------------------------------------------------------------------------

    def _prefill_program(self, most: int, greedy: bool) -> SynchronizedProgram:
        """Program of prompts: `({"params", "draw"}, batch)` to a `State`."""
        specs = {"params": self._parameter_specs, "draw": _DRAW_SPECS}
        body = partial(self._begin_state, most, greedy)
        program = self._step.shard_over_mesh(body, specs, self._state_specs)
        jitted = self._step.jit_on(self._backbone, program, self._state_specs)
        return synchronize_program("the prompts", jitted)

    def _decode_program(self, greedy: bool) -> SynchronizedProgram:
        """Program of answers: `(params, draw, state)` to `State.written`."""
        specs = self._parameter_specs, _DRAW_SPECS, self._state_specs
        written = self._state_specs.written
        program = self._step.map_shards(partial(self._finish_answers, greedy), specs, written)
        return synchronize_program(
            "the answers", self._step.jit_on(self._backbone, program, written)
        )

    @property
    def _state_specs(self) -> DecodingState:
        """Layouts of a state: rows over the ranks of the batch, heads over those of a row."""
        rows: Any = PartitionSpec(self._view.batch_axes or None)
        heads = (*self._view.tensor, *self._view.context)
        cache_spec: Any = PartitionSpec(self._view.batch_axes or None, heads or None)
        everywhere: Any = PartitionSpec()
        layers = ((cache_spec, cache_spec),) * self._step.program.model.backbone_config.layers
        ids = TokenIds(rows, rows, rows if self._decoder.reads_spans else None)
        cache = DecodingCache(layers, ids)
        return DecodingState(
            cache, rows, rows, rows, rows, everywhere, rows, rows, rows, rows, rows
        )

    def _begin_state(self, most: int, greedy: bool, tree: Any, batch: Batch) -> DecodingState:
        """Prompts of this rank's rows, and the first token of every answer."""
        params, draw = tree["params"], tree["draw"]
        modules, routes, encoded = first_microbatch(batch)
        rows: ModuleRows = modules[self._backbone]
        last, segments, lengths, limits, numbers = (rows.arrays[name] for name in NAMES)
        count, tokens = rows.inputs.shape
        cache = self._decoder.empty_cache(count, tokens + last.shape[1] * most)
        cache = cache.with_tokens(self._decoder.token_ids(rows), jnp.int32(0))
        media = self._modules.merged_outputs(params, modules, routes, encoded)
        hidden, cache = self._decoder.forward_cached(
            params[self._backbone], rows, media, cache, None
        )
        none = jnp.zeros_like(last)
        state = DecodingState(
            cache,
            none,
            jnp.full((*last.shape, most), -1, jnp.int32) + none[..., None],
            none,
            segments > 0,
            jnp.int32(0),
            next_positions(rows, segments),
            segments,
            lengths,
            limits,
            numbers,
        )
        last_hidden = self._decoder.take_states(hidden, last)
        return self._with_next(params[self._backbone], last_hidden, draw, greedy, state)

    def _finish_answers(
        self, greedy: bool, params: Any, draw: TokenDraw, state: DecodingState
    ) -> jax.Array:
        """The tokens of all answers."""
        decoder = params[self._backbone]
        columns, most = state.written.shape[1:]
        first = state.cache.tokens.boundary_ids.shape[1] - columns * most

        def is_going(carry: tuple[jax.Array, DecodingState]) -> jax.Array:
            return carry[1].left > 0

        def step(carry: tuple[jax.Array, DecodingState]) -> tuple[jax.Array, DecodingState]:
            number, state = carry
            start = first + number * columns
            rows = self._newest_rows(state)
            cache = state.cache.with_tokens(self._decoder.token_ids(rows), start)
            hidden, cache = self._decoder.forward_cached(decoder, rows, None, cache, start)
            state = state._replace(cache=cache)
            return number + 1, self._with_next(decoder, hidden, draw, greedy, state)

        return lax.while_loop(is_going, step, (jnp.int32(0), state))[1].written

    def _newest_rows(self, state: DecodingState) -> ModuleRows:
        """The newest token of every answer, as a row of columns."""
        ids = jnp.where(state.alive, state.segments, 0)
        offset = state.written_counts - 1
        axes = self._step.program.model.backbone_config.position_axes
        positions = jnp.repeat((state.positions + offset)[..., None], axes, axis=-1)
        # What an answer says belongs to no span.
        spans = {SPAN_IDS: jnp.zeros_like(ids)} if self._decoder.reads_spans else {}
        return ModuleRows(state.token, ids, positions, state.lengths + offset, arrays=spans)

    def _with_next(
        self, params: Any, hidden: jax.Array, draw: TokenDraw, greedy: bool, state: DecodingState
    ) -> DecodingState:
        """The state with the next token of every answer that has not ended.

        Args:
            hidden: `[rows, columns / shards, d_model]`, states of the newest tokens.
        """
        chosen = self._choose_tokens(params, hidden, draw, greedy, state)
        most = state.written.shape[2]
        is_next = jnp.arange(most)[None, None] == state.written_counts[..., None]
        written = jnp.where(is_next & state.alive[..., None], chosen[..., None], state.written)
        written_count = state.written_counts + state.alive
        ended = jnp.any(chosen[..., None] == self._ends[None, None], axis=-1)
        alive = state.alive & ~ended & (written_count < jnp.minimum(state.limits, most))
        left = psum(jnp.sum(alive.astype(jnp.int32)), self._view.batch_axes)
        return state._replace(
            token=chosen, written=written, written_counts=written_count, alive=alive, left=left
        )

    def _choose_tokens(
        self, params: Any, hidden: jax.Array, draw: TokenDraw, greedy: bool, state: DecodingState
    ) -> jax.Array:
        """The next token of every column, `[rows, columns]`, equal on a row's ranks."""
        if greedy:
            return self._decoder.greedy_tokens(params, hidden)
        context = self._view.context
        numbers, places = (
            shard_slice(x, context, dim=1) for x in (state.numbers, state.written_counts)
        )
        tokens = draw_tokens(self._decoder.full_logits(params, hidden), draw, numbers, places)
        return join_slices(tokens, context, dim=1)


class _ProgramSeconds(NamedTuple):
    compile: float
    run: float


def _of_one(row: int, sharding: ParameterSharding) -> ParameterSharding:
    """Layout of a layer's parameter, without the dimension of layers."""
    del row
    return replace(sharding, axes=sharding.axes[1:])
