"""Held-out samples: loss of their answers, answers written greedily and compared, retrieval.

All run under the plans of training, a pipeline's stages as fsdp. The loss is that of training, on
samples, packed: the mean over all tokens that have one. For greedy decoding prompts are
packed likewise; `train.decoding` writes all answers of a batch at once. `retrieval` compares all
samples with all.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from data.faults import SampleFault
from data.loading.evaluation import (
    PromptBatch,
    by_member,
    example_batches,
    heldout_indices,
    prompt_batches,
)
from data.planning.stream import SkippedSample
from data.sources.make import make_source
from data.waits import SOURCE
from mllm_jax.config.buckets import configured_processor
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.models.model import Model
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.folder import RunError
from mllm_jax.runtime.run_peers import current_peers, waiting_for_peers
from mllm_jax.train.components.retrieval import PairReader
from mllm_jax.train.decoding.columns import AnswerColumns
from mllm_jax.train.decoding.programs import DecodingPrograms
from mllm_jax.train.decoding.sampling import TokenSampling
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import check_heldout_data, check_tokenizer, run_on_all
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.mirrors.remote_checkpoints import fetch_newest
from mllm_jax.train.step.batch_placement import gather_to_host, local_rows, place_microbatches
from mllm_jax.train.step.gradient_program import Batch, first_microbatch
from sharding.collectives import psum

logger = logging.getLogger(__name__)

#: Columns of a row at least, so that batches have one shape; budgets of segments are wide.
COLUMNS = 8


class StoppedError(Exception):
    """An evaluation that was asked to stop."""


class LossEvaluator:
    """The compiled programs of an experiment for its held-out samples.

    Args:
        experiment: experiment whose section `evaluate` names the measurements and their samples.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._config, self._processor = experiment.config, experiment.processor
        self._step, self._trained = experiment.forward_step, experiment.step
        self._modules = Model(self._config.model, self._step.program.views)
        self._source = make_source(self._config.data, "heldout")
        # Every share of the batch must be full rows, here with the stages of a pipeline as fsdp.
        grid = self._step.program.grid
        shares = math.lcm(*(plan.batch for plan in grid.plans.values()))
        rows = -(-self._config.data.rows // shares) * shares
        self._data = self._config.data.model_copy(update={"rows": rows})
        self._rows = local_rows(self._step, rows)
        specs = self._step.forward_specs
        self._decoding = DecodingPrograms(self._step, self._processor.end_ids, "layer")
        scalars = PartitionSpec(), PartitionSpec()
        self._sum_losses = synchronize_program(
            "held-out losses",
            self._step.jit_on(
                self._config.model.backbone,
                self._step.shard_over_mesh(self._sum_loss, specs, scalars),
                scalars,
            ),
        )
        self._skipped: dict[str, SampleFault] = {}
        self._warned: set[str] = set()
        self._stopping: Callable[[], bool] = lambda: False

    def __call__(self, params: Any, stopping: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """The measurements that the section `evaluate` requests.

        Args:
            stopping: called before every batch, on all processes alike: whether to stop.

        Returns:
            As `evaluate_losses`, `compare_answers` and `measure_retrieval` return it, and
            `evaluate_skipped`, number of unusable samples by kind of fault.

        Raises:
            StoppedError: `stopping` has held.
            RunError: no held-out sample can be used.
        """
        self._skipped, self._stopping = {}, stopping
        params, section = self.convert_params(params), self._config.evaluate
        result = self.evaluate_losses(params) if section.loss else {}
        result |= self.compare_answers(params) if section.exact_match else {}
        result |= self.measure_retrieval(params) if self._config.measures_retrieval else {}
        return result | {
            "evaluate_skipped": dict(Counter(f.kind.value for f in self._skipped.values()))
        }

    def evaluate_losses(self, params: Any) -> dict[str, Any]:
        """Mean cross entropy of the tokens that have a loss, as in training.

        Args:
            params: parameters that `convert_params` returned.

        Returns:
            `heldout_loss`; `heldout_losses`, by member of a mixture, else empty, None for a member
            of which no sample could be used; `heldout_tokens`, the number of tokens that the first
            is the mean of.
        """
        indices = heldout_indices(self._source, self._config.evaluate.samples)
        members = by_member(self._source, indices)
        sums = {name: self._add_losses(params, member) for name, member in members.items()}
        total = np.sum([*sums.values()], axis=0)
        if not total[1]:
            self._raise_unusable()
        for name, (_, tokens) in sums.items():
            if not tokens:
                self._warn_of_member(name, len(members[name]))
        return {
            "heldout_loss": float(total[0] / total[1]),
            "heldout_losses": {
                name: float(loss / tokens) if tokens else None
                for name, (loss, tokens) in sums.items()
                if name
            },
            "heldout_tokens": int(total[1]),
        }

    def _warn_of_member(self, member: str, samples: int) -> None:
        """Warn, once in a run, of members of a mixture without a loss."""
        skipped = self._skipped.items()
        faults = [fault for name, fault in skipped if name.startswith(f"{member}/")]
        few = f"evaluate.samples={self._config.evaluate.samples} leaves it no held-out sample"
        if member not in self._warned:
            logger.warning(
                "data.source.members.%s has no heldout_loss: %s",
                member,
                _join_reasons(faults) if samples else few,
            )
        self._warned.add(member)

    def _add_losses(self, params: Any, indices: Sequence[int]) -> np.ndarray:
        """`[2]`, float64: sum of the losses of samples, and of their weights."""
        total = np.zeros(2)
        for batch in self._placed_batches(indices):
            sums = self._sum_losses(*self._step.forward_inputs(params, batch))
            with waiting_for_peers("held-out losses", limited=False):
                total += [float(gather_to_host(value)) for value in sums]
        return total

    def _placed_batches(self, indices: Sequence[int]) -> Iterator[Batch]:
        """Samples with their answers, on the devices."""
        for examples in example_batches(
            self._source, self._processor, self._data, self._rows, indices
        ):
            self._begin_batch(examples.skipped)
            yield place_microbatches([examples.batch], self._step)

    def measure_retrieval(self, params: Any) -> dict[str, Any]:
        """How often the nearest partner is a sample's own, among those of all held-out samples.

        Args:
            params: parameters that `convert_params` returned.

        Returns:
            As `PairReader.measure`.
        """
        reader = PairReader(self._step, self._modules)
        indices = heldout_indices(self._source, self._config.evaluate.samples)
        if not sum(reader.read(params, batch) for batch in self._placed_batches(indices)):
            self._raise_unusable()
        return reader.measure()

    def compare_answers(self, params: Any) -> dict[str, Any]:
        """Exact match of full answers that are decoded greedily.

        Args:
            params: parameters that `convert_params` returned.

        Returns:
            `exact_match` by encoder ("text" for samples without media), and `evaluated`, the number
            of samples likewise.
        """
        right: Counter[str] = Counter()
        total: Counter[str] = Counter()
        prepared = self.prepare_params(params)
        for prompts in self.read_prompts():
            self._begin_batch(prompts.skipped)
            for slot, ids in zip(
                prompts.slots, self.decode_answers(prepared, prompts), strict=True
            ):
                names = slot.encoders or ("text",)
                total.update(names)
                if self._processor.decode(ids) == self._expected_answer(slot.index):
                    right.update(names)
        if not total:
            self._raise_unusable()
        return {
            "exact_match": {name: right[name] / total[name] for name in sorted(total)},
            "evaluated": dict(sorted(total.items())),
        }

    def _begin_batch(self, skipped: Sequence[SkippedSample]) -> None:
        """Begin the next batch, and warn once in a run of its unusable samples.

        Raises:
            StoppedError: the evaluation is asked to stop.
        """
        if self._stopping():
            raise StoppedError
        for name, fault in skipped:
            if name not in self._warned:
                logger.warning("skipped held-out sample %s: %s", name, fault)
            self._warned.add(name)
            self._skipped.setdefault(name, fault)

    def _raise_unusable(self) -> NoReturn:
        reasons = _join_reasons(self._skipped.values()) or "the held-out split is empty"
        raise RunError(f"no held-out sample can be evaluated: {reasons}")

    def _expected_answer(self, index: int) -> str:
        """The answer of a held-out sample, with a warning if it is too long to be generated."""
        ids = self._processor.answer_ids(self._source[index, 0])
        needed = len(ids)
        if needed > self._most_tokens:
            logger.warning(
                "held-out sample %s needs %d tokens for its answer, evaluate.max_new_tokens is %d",
                self._source.name(index),
                needed,
                self._most_tokens,
            )
        return self._processor.decode(ids)

    def convert_params(self, params: Any) -> Any:
        """Parameters of the train step laid out for forward passes."""
        if self._step is self._trained:
            return params
        return params | self._convert({name: params[name] for name in self._step.local_modules})

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        """Of modules on the devices of the backbone; others have no stages."""
        form, trained, specs = self._step.form, self._trained.form, self._step.forward_specs
        convert = jax.jit(
            lambda params: form.to_stored(trained.to_canonical(params)),
            out_shardings=self._step.shardings({n: specs[n] for n in self._step.local_modules}),
        )
        return synchronize_program("parameters for evaluation", convert)

    def prepare_params(self, params: Any) -> Any:
        """Parameters that `convert_params` returned, laid out for `decode_answers`."""
        return self._decoding.prepare_parameters(params)

    def read_prompts(self) -> Iterator[PromptBatch]:
        """Held-out prompts, every sample once."""
        limit = self._config.evaluate.samples
        return prompt_batches(self._source, self._processor, self._data, self._rows, limit)

    def decode_answers(self, prepared: Any, prompts: PromptBatch) -> list[list[int]]:
        """Tokens of the answers of a batch, the token of their end included, on every process.

        Args:
            prepared: parameters that `prepare_params` returned.
        """
        longest = self._config.model.backbone_config.max_positions
        limits = [min(self._most_tokens, 1 + longest - slot.tokens) for slot in prompts.slots]
        fewest = min(self._data.budgets["segments"], COLUMNS)
        rows = self._rows[self._config.model.backbone]
        columns = AnswerColumns.from_prompts(
            prompts.slots, rows, self._decoding.columns_unit, limits, fewest
        )
        return self._decoding.write_answers(
            prepared, prompts.batch, columns, self._most_tokens, TokenSampling()
        ).answers

    @property
    def _most_tokens(self) -> int:
        return self._config.evaluate.max_new_tokens

    def _sum_loss(self, params: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
        """Sum of the losses of one batch, of the measured objective, and of its weights."""
        rows, routes, encoded = first_microbatch(batch)
        view = self._modules.backbone.view
        losses, _ = self._modules.loss(params, rows, routes, encoded)
        name, backbone = self._modules.graph.measured, self._modules.config.backbone
        assert name is not None  # else `evaluate.loss` is refused
        weights = jnp.sum(rows[backbone].targets[name].weights)
        return losses[name], psum(weights, view.batch_axes)


def _join_reasons(faults: Iterable[SampleFault]) -> str:
    """The reasons of faults, each listed once."""
    return "; ".join(dict.fromkeys(map(str, faults)))


def check_measured(config: ExperimentConfig) -> None:
    """Check that the model learns what an evaluation measures.

    Raises:
        ConfigError: it does not.
    """
    graph, section = config.model.graph, config.evaluate
    learnt = ", ".join(graph.objectives)
    problems = []
    if section.exact_match and not graph.writes:
        problems.append(
            f"evaluate.exact_match: true needs answers, and a model that learns {learnt} writes "
            "none; valid: false"
        )
    if section.loss and graph.measured is None:
        problems.append(
            f"evaluate.loss: true is refused, as {learnt} has a loss of steps, not of "
            "microbatches; valid: false"
        )
    if problems:
        raise ConfigError(config.run.name, problems)


def evaluate_run(config: ExperimentConfig) -> dict[str, Any]:
    """Evaluate the newest checkpoint of the run, which is fetched if its folder has none.

    Raises:
        ConfigError: the model does not learn what is measured.
        RunError: the run has no checkpoint.
        CheckpointError: the checkpoint cannot be read.
        DataError: the run had another tokenizer or processor; `data.accept_changes` is not set.
        DataError, SampleError, AgreementError: as `check_heldout_data`.
    """
    check_measured(config)
    fetch_newest(config)
    folder = config.run.path / "checkpoints"
    if not folder.is_dir():
        raise RunError(f"run {config.run.path} has no checkpoint; train it first")
    current_peers().note_activity("looking at the held-out samples", limited=False, key=SOURCE)
    processor = run_on_all(lambda: configured_processor(config))
    check_heldout_data(config, processor)
    current_peers().note_activity("restoring the state", limited=False)
    experiment = Experiment.build(config)
    regrouping = experiment.step.form.regrouping
    checkpoints = CheckpointManager(folder, config.checkpoint, regrouping, read_only=True)
    try:
        restored = checkpoints.restore_state(
            experiment.step.abstract_state,
            accept=lambda candidate: check_tokenizer(config, candidate.progress),
        )
    finally:
        checkpoints.close()
    if restored is None:
        raise RunError(f"run {config.run.path} has no checkpoint; train it first")
    current_peers().note_activity(f"evaluating step {restored.step}", limited=False, key=SOURCE)
    return {"step": restored.step, **LossEvaluator(experiment)(restored.state["params"])}
