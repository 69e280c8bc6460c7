"""Packed samples get what each gets alone: its loss, and its answer, token by token."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.config import MixtureSource
from data.faults import FaultKind, SampleFault
from data.loading.evaluation import example_batches, prompt_batches
from data.sample import Sample, SampleError
from data.sources.make import make_source
from data.sources.mixture import SourceMixture
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.components.evaluator import LossEvaluator, StoppedError
from mllm_jax.train.records.evaluation_figures import figures_of
from sharding.grid import MeshView
from tests.models import towers

#: Rows of every module.
Modules = Mapping[str, ModuleRows]


class OtherEnd:
    """A processor whose end-of-answer token is one that the untrained model does produce."""

    def __init__(self, processor: Any, end_id: int) -> None:
        self._processor, self.end_ids = processor, (end_id,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)


def decode_alone(
    experiment: Any, logits: Callable[..., jax.Array], params: Any, index: int, count: int
) -> list[int]:
    """The next `count` tokens of one held-out sample, one full forward for each."""
    config = experiment.config.data.model_copy(update={"rows": 1})
    source = make_source(config, "heldout")

    class One:
        fingerprint: str | None = None
        home = Path()

        def __len__(self) -> int:
            return 1

        def __getitem__(self, _: tuple[int, int]) -> Any:
            return source[index, 0]

        def name(self, _: int) -> str:
            return source.name(index)

    rows = {name: [0] for name in ("decoder", *experiment.config.model.encoders)}
    (prompt,) = prompt_batches(One(), experiment.processor, config, rows)
    (slot,) = prompt.slots
    decoder, end = prompt.batch.text_rows, slot.start + slot.tokens
    # Room for the answer after the prompt, which does not see it.
    merges = {n: _with_room(own, count, -1) for n, own in decoder.merges.items()}
    padded = jax.tree.map(partial(_with_room, count=count), decoder)
    padded.segment_ids[0, end : end + count] = slot.segment
    padded.index[0, end : end + count] = slot.tokens + np.arange(count)
    padded.positions[..., 0] = padded.index
    widened = dataclasses.replace(padded, merges=merges)
    modules = jax.tree.map(jnp.asarray, {**prompt.batch.rows, BACKBONE: widened})
    tokens = widened.inputs
    for position in range(end, end + count):
        tokens[0, position] = np.argmax(logits(params, modules, tokens)[position - 1])
    return tokens[0, end : end + count].tolist()


def _with_room(array: np.ndarray, count: int, blank: int = 0) -> np.ndarray:
    """An array of rows with `count` more positions after."""
    room = ((0, 0), (0, count), *[(0, 0)] * (array.ndim - 2))
    return np.pad(array, room, constant_values=blank)


def _logits(model: ModelConfig, params: Any, modules: Modules, tokens: jax.Array) -> jax.Array:
    """The whole logits after every position of one row."""
    view = MeshView()
    media = jnp.zeros((*tokens.shape, model.decoder.d_model))
    for name in model.encoders:
        out = towers.encode(params[name], name, modules[name], model, view)
        index = modules[BACKBONE].merges[name]
        media += jnp.where((index >= 0)[..., None], out[0][jnp.maximum(index, 0)], 0)
    rows = dataclasses.replace(modules[BACKBONE], inputs=tokens)
    hidden, _ = towers.decode_hidden(params["decoder"], rows, media, model, view)
    return hidden[0] @ params["decoder"]["lm_head"]["kernel"]


@pytest.fixture(scope="module")
def logits(experiment) -> Callable[..., jax.Array]:
    """`_logits` of the experiment, compiled once for each number of tokens."""
    return jax.jit(partial(_logits, experiment.config.model))


@pytest.fixture(scope="module")
def evaluator(experiment) -> LossEvaluator:
    return LossEvaluator(experiment)


@pytest.fixture(scope="module")
def of_members(experiment) -> LossEvaluator:
    """The evaluator of a mixture, of which each member has five samples."""
    return LossEvaluator(mixture(experiment, samples=10))


@pytest.fixture(scope="module")
def result(evaluator, params) -> dict[str, Any]:
    """All measurements of the experiment."""
    return evaluator(params)


@pytest.fixture(scope="module")
def params(experiment, fresh_state) -> Any:
    # Larger weights than at the start of training, so that answers depend on their prompts.
    return jax.tree.map(lambda x: x * 2, fresh_state()[0]["params"])


def test_answers_equal_those_of_each_sample_alone(experiment, evaluator, logits, params):
    count = experiment.config.evaluate.max_new_tokens
    host = jax.tree.map(np.asarray, params)
    alone = {i: decode_alone(experiment, logits, host, i, count) for i in range(4)}
    assert len({tuple(ids) for ids in alone.values()}) > 1
    found = packed(evaluator, params, range(4))
    ends = experiment.processor.end_ids
    assert found == {i: _ended(ids, ends) for i, ids in alone.items()}


def _ended(ids: list[int], ends: tuple[int, ...]) -> list[int]:
    """Tokens up to the first that ends an answer."""
    return next((ids[: n + 1] for n, own in enumerate(ids) if own in ends), ids)


def packed(evaluator: LossEvaluator, params: Any, wanted: range) -> dict[int, list[int]]:
    prepared = evaluator.prepare_params(params)
    found = {}
    for prompts in evaluator.read_prompts():
        for slot, ids in zip(
            prompts.slots, evaluator.decode_answers(prepared, prompts), strict=True
        ):
            if slot.index in wanted:
                found[slot.index] = ids
    return found


def test_decoding_stops_at_the_end_token_and_not_before(experiment, evaluator, params):
    free = packed(evaluator, params, range(8))
    end = next(iter(free.values()))[1]
    processor = OtherEnd(experiment.processor, end)
    ending = dataclasses.replace(experiment, processor=processor)
    stopped = packed(LossEvaluator(ending), params, range(8))
    ends = *experiment.processor.end_ids, end
    assert any(len(ids) > len(stopped[index]) for index, ids in free.items())
    for index, ids in free.items():
        assert _ended(stopped[index], ends) == _ended(ids, ends)


def test_an_evaluation_ends_before_the_next_batch_if_it_is_asked_to(evaluator, params):
    asked: list[int] = []

    def second() -> bool:
        asked.append(len(asked))
        return len(asked) > 1

    with pytest.raises(StoppedError):
        evaluator(params, second)
    assert asked == [0, 1]


def test_exact_match_counts_by_encoder(result):
    assert set(result["exact_match"]) == {"vision", "audio"}
    assert result["evaluated"] == {"vision": 4, "audio": 4}
    assert result["evaluate_skipped"] == {}


def loss_alone(
    experiment: Any, logits_of: Callable[..., jax.Array], params: Any, index: int
) -> tuple[float, float]:
    """Sum and number of the losses of one held-out sample in a row of its own, whole logits."""
    config = experiment.config.data.model_copy(update={"rows": 1})
    source = make_source(config, "heldout")
    rows = {name: [0] for name in ("decoder", *experiment.config.model.encoders)}
    (example,) = example_batches(source, experiment.processor, config, rows, [index])
    own = example.batch.text_rows
    logits = logits_of(params, jax.tree.map(jnp.asarray, example.batch.rows), own.inputs)
    targets = own.next_token
    each = jax.nn.logsumexp(logits, axis=-1) - logits[np.arange(len(logits)), targets.labels[0]]
    return float((each * targets.weights[0]).sum()), float(targets.weights.sum())


@pytest.fixture(scope="module")
def losses(experiment, logits, params) -> list[tuple[float, float]]:
    """Sum and number of the losses of every held-out sample by itself."""
    host = jax.tree.map(np.asarray, params)
    return [loss_alone(experiment, logits, host, index) for index in range(8)]


def test_the_loss_of_packed_samples_is_that_of_each_alone(result, losses):
    total, tokens = np.sum(losses, axis=0)
    assert result["heldout_tokens"] == tokens
    assert result["heldout_loss"] == pytest.approx(total / tokens, rel=1e-5)
    assert result["heldout_losses"] == {}
    assert figures_of(result)["heldout_loss"] == result["heldout_loss"]


def test_the_members_of_a_mixture_have_losses_of_their_own(of_members, params, losses):
    result = of_members(params)
    # Held-out samples of the members take turns, so that five are of each.
    total, tokens = np.sum(losses[:5], axis=0)
    assert result["heldout_tokens"] == 2 * tokens
    assert result["heldout_losses"] == pytest.approx(
        {"one": total / tokens, "other": total / tokens}, rel=1e-5
    )
    assert "exact_match" not in result
    figures = figures_of(result)
    assert list(figures) == ["heldout_loss", "heldout_loss/one", "heldout_loss/other"]


def test_a_member_without_a_usable_sample_is_named_and_has_no_loss(
    of_members, params, losses, caplog, monkeypatch
):
    measured = SourceMixture.__getitem__

    def broken(mixture: SourceMixture, at: tuple[int, int]) -> Sample:
        if mixture.member_name(at[0]) == "other":
            raise SampleError(mixture.name(at[0]), SampleFault(FaultKind.IMAGE, "no image"))
        return measured(mixture, at)

    monkeypatch.setattr(SourceMixture, "__getitem__", broken)
    results = [of_members(params) for _ in range(2)]
    total, tokens = np.sum(losses[:5], axis=0)
    for result in results:
        assert result["heldout_losses"] == {
            "one": pytest.approx(total / tokens, rel=1e-5),
            "other": None,
        }
        assert list(figures_of(result)) == ["heldout_loss", "heldout_loss/one"]
        assert result["evaluate_skipped"] == {"unreadable image": 5}
    told = [r.getMessage() for r in caplog.records if "heldout_loss" in r.getMessage()]
    assert told == ["data.source.members.other has no heldout_loss: no image"]


def test_a_member_that_no_sample_is_left_for_is_named(experiment, params, caplog):
    result = LossEvaluator(mixture(experiment, samples=1))(params)
    assert [*result["heldout_losses"].values()].count(None) == 1
    assert "evaluate.samples=1 leaves it no held-out sample" in caplog.text


def mixture(experiment: Any, samples: int) -> Any:
    """The experiment with its source twice, for losses of held-out samples alone."""
    source = experiment.config.data.source.model_dump()
    members = {name: {"source": source} for name in ("one", "other")}
    changes = {"source": MixtureSource(kind="mixture", members=members)}
    return changed(experiment, data=changes, evaluate={"samples": samples, "exact_match": False})


def changed(experiment: Any, **sections: dict[str, Any]) -> Any:
    """The experiment with other values in some sections of its configuration."""
    updates = {
        name: getattr(experiment.config, name).model_copy(update=values)
        for name, values in sections.items()
    }
    return dataclasses.replace(experiment, config=experiment.config.model_copy(update=updates))


def test_a_bad_sample_is_told_once_and_counted_once(experiment, params, caplog):
    # Seven tokens are too few for any answer of the demo, so that no sample has room.
    budgets = experiment.config.data.budgets | {"tokens": 8}
    short = changed(experiment, data={"budgets": budgets})
    evaluator = LossEvaluator(short)
    with pytest.raises(RunError, match="no held-out sample can be evaluated"):
        evaluator(params)
    told = [record.args[0] for record in caplog.records]
    assert len(told) == len(set(told)) == 8
