"""Comparisons between the processes of a run, and which of them may take long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mllm_jax.cli import devices as devices_of_commands
from mllm_jax.cli.options import parse_arguments
from mllm_jax.cli.table import COMMANDS
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime import devices
from mllm_jax.runtime.agreement import AgreementError
from mllm_jax.runtime.run_peers import current_peers, set_peers
from mllm_jax.train.components import evaluator as evaluate
from mllm_jax.train.components.evaluator import evaluate_run
from mllm_jax.train.loading.loader import check_sources
from tests.runtime.beside import Beside


@pytest.fixture
def beside() -> Iterator[Callable[..., Beside]]:
    """Takes part beside another process."""
    alone = current_peers()

    def make(**differs: dict[str, Any]) -> Beside:
        part = Beside(**differs)
        set_peers(part)
        return part

    yield make
    set_peers(alone)


@pytest.fixture
def own(small_config, tmp_path) -> ExperimentConfig:
    """A configuration of a run that has a folder of checkpoints."""
    made: ExperimentConfig = small_config(run={"name": "run", "directory": str(tmp_path)})
    (made.run.path / "checkpoints").mkdir(parents=True)
    return made


@pytest.mark.parametrize("key", ["data.source.samples", "data.tokenizer.digest"])
def test_processes_with_other_data_or_another_tokenizer_end(key, own, beside):
    told = rf'process 1 has {key} "other", process 0 [^(]'
    for name in ("training data", "held-out data"):
        beside(**{name: {key: "other"}})
        with pytest.raises(AgreementError, match=told):
            check_sources(own)
    beside(**{"held-out data": {key: "other"}})
    with pytest.raises(AgreementError, match=told):
        evaluate_run(own)


def test_looking_at_data_and_evaluating_may_take_long(own, beside, monkeypatch):
    part = beside()
    check_sources(own)
    names = {"held-out data", "training data", "data can be read"}
    assert {name for name, *_ in part.did} == names
    assert {tuple(rest) for _, *rest in part.did} == {("indexing and measuring the data", False)}

    def evaluated(params: Any) -> dict[str, Any]:
        return {"while": part.doing_now}

    step = SimpleNamespace(form=SimpleNamespace(regrouping=None), abstract_state=None)
    checkpoints = SimpleNamespace(
        restore_state=lambda *_, **__: SimpleNamespace(step=4, state={"params": None}),
        close=lambda: None,
    )
    monkeypatch.setattr(evaluate.Experiment, "build", lambda _: SimpleNamespace(step=step))
    monkeypatch.setattr(evaluate, "CheckpointManager", lambda *_, **__: checkpoints)
    monkeypatch.setattr(evaluate, "LossEvaluator", lambda _: evaluated)
    part = beside()
    assert evaluate_run(own)["while"] == ("evaluating step 4", False)
    assert {name for name, *_ in part.did} == names - {"training data"}
    assert {tuple(rest) for _, *rest in part.did} == {("looking at the held-out samples", False)}


def test_processes_compare_their_code_with_their_configuration(own, beside, monkeypatch):
    def met(parallel: Any, processes: Any, limits: Any, check: Any, **_: Any) -> None:
        check()

    monkeypatch.setattr(devices, "start_devices", met)
    args = parse_arguments(["train", "--config", "any"], COMMANDS)
    beside()
    devices_of_commands.start_configured(args, own)
    for key in ("source launch.py", "source data/sample.py", "version of jax", "train.seed"):
        beside(**{"configuration and code": {key: "other"}})
        with pytest.raises(AgreementError, match=f'process 1 has {key} "other", process 0 [^(]'):
            devices_of_commands.start_configured(args, own)
