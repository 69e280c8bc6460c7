"""Programs of training that hold collectives begin when all processes have compiled them."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.config.sections import GuardConfig
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.run_peers import set_peers, waiting_for_peers
from mllm_jax.train.components import guard
from mllm_jax.train.components.guard import StepGuard, not_finite
from mllm_jax.train.events import ignore_event
from mllm_jax.train.state.regroup import LayerRegrouping
from mllm_jax.train.state.stored_names import StoredNames
from mllm_jax.train.step.step import TrainStep
from mllm_jax.train.trainer import Trainer
from sharding.hosts import ProcessGroup
from tests.runtime.test_synchronized import Two, events

__all__ = ["events"]

LAYOUT = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("stage",)), PartitionSpec())


def look(program: str) -> object:
    """Runs a program, whose result is asked for, as a process does that has not run it before."""
    guard._finite_program.cache_clear()
    if program == "the look at a state":
        return not_finite({"params": {"a": jax.device_put(jnp.full(3, jnp.nan), LAYOUT)}})
    if program == "the change of the checkpoint's plan":
        name = {"params": {"decoder": {"layers": {"q": jax.device_put(jnp.arange(3.0), LAYOUT)}}}}
        wanted = jax.tree.map(
            lambda _: jax.ShapeDtypeStruct((2, 2), jnp.float32, sharding=LAYOUT), name
        )
        stack = StageLayers(layers=3, stages=2, chunks=2)
        found = LayerRegrouping(1, stack, names=StoredNames("decoder")).convert_state(name, wanted)
        return found["params"]["decoder"]["layers"]["q"].tolist()
    if program == "the initial state":
        step: Any = TrainStep.__new__(TrainStep)
        step.program = SimpleNamespace(model=SimpleNamespace(backbone="decoder"))
        step.mesh, step.state_specs = LAYOUT.mesh, PartitionSpec()
        step._init_parameters = lambda key, **_: jax.random.key_data(key)
        return step.init(jax.random.key(5)).tolist()
    cluster = ProcessGroup(synchronize_program, wait=waiting_for_peers)
    words = np.arange(3, dtype=np.int32)
    if program == "numbers to all":
        return [own.tolist() for own in cluster.gather(words)()]
    return [own.tolist() for own in cluster.exchange([words], np.array([[3]]))()]


@pytest.mark.parametrize(
    ("program", "result", "waits"),
    [
        ("the look at a state", ["params.a"], ["the look at a state"]),
        ("the change of the checkpoint's plan", [[0, 1], [2, 0]], []),
        ("the initial state", [0, 5], []),
        ("numbers to all", [[0, 1, 2]], ["numbers of all"]),
        ("samples to their hosts", [[0, 1, 2]], ["samples from other hosts"]),
    ],
)
def test_all_meet_between_compiling_and_running(program, result, waits, events):
    alone = look(program)
    set_peers(Two(events))
    assert look(program) == alone == result
    assert f"{program} is compiled" in events
    # The host waits for the results in a context that ends the process if others never come.
    assert [own for own in events if own.startswith("wait")] == [f"wait: {own}" for own in waits]


def test_steps_and_their_figures_are_waited_for_by_their_numbers(events):
    set_peers(Two(events))
    trainer: Any = Trainer.__new__(Trainer)
    trainer.in_flight, trainer.notify = deque([(7, jnp.ones(()))]), ignore_event
    trainer.wait_for_steps()
    progress: Any = SimpleNamespace(usual_loss=None)
    own = StepGuard(GuardConfig(), progress, str)
    own.watch_step(SimpleNamespace(step=6, loss=1.0, gradient_norm=1.0, expert_loads=None))
    own.check_all()
    assert events[-2:] == ["wait: step 7", "wait: step 6"]
