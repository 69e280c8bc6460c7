"""Guards a run: against steps that are not finite, loss spikes, and saves of bad states.

The loss of a step is that of the state before it: it says whether the state that the step before
has left is any good. States are therefore looked at twice: before they are saved, for numbers that
are not finite, and by the loss of a later step, before an older checkpoint makes room for them.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol, SupportsFloat

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.config.sections import GuardConfig
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.folder import RunError
from mllm_jax.runtime.run_peers import waiting_for_peers
from mllm_jax.train.records.expert_loads import find_nonfinite_layer
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.stored_names import StoredNames
from mllm_jax.train.step.batch_placement import gather_to_host
from sharding.mesh import group_by_mesh

logger = logging.getLogger(__name__)

#: Steps that may be running while a later one is dispatched: their figures are not waited for.
_IN_FLIGHT = 2
#: A loss of more than this times the usual one makes the state before it doubtful.
DOUBTFUL = 3.0
#: Weight of the past in the usual loss: a mean over about fifty steps.
_DECAY = 0.98


class GuardFigures(Protocol):
    """Results of one step; reading the value of loss or norm waits for the step."""

    @property
    def step(self) -> int:
        """Number of the step, from 1."""

    @property
    def loss(self) -> SupportsFloat:
        """Mean loss of the step's target tokens."""

    @property
    def gradient_norm(self) -> SupportsFloat:
        """Global norm before clipping."""

    @property
    def expert_loads(self) -> Any:
        """Loads of experts `[layers, experts]`; NaN where a router's logits were not finite."""


class DivergedError(RunError):
    """A run whose loss, gradients or parameters have diverged."""


class StepGuard:
    """Checks every step for divergence, a few steps after it was dispatched.

    Args:
        config: section `train.guard`.
        progress: progress of the run, whose `usual_loss`, `skipped_updates` and `skipped_in_row`
            are updated.
        advice: text of advice for a run that has diverged, given its newest usual step.
        expert_layers: numbers of the layers that have experts.
        names: names of the modules in messages.

    Attributes:
        usual_step: newest step whose loss was finite and not doubtful; 0 before the first.
    """

    def __init__(
        self,
        config: GuardConfig,
        progress: Progress,
        advice: Callable[[int], str],
        expert_layers: Sequence[int] = (),
        names: StoredNames = StoredNames(),  # noqa: B008 - a frozen value
    ) -> None:
        self._config, self._progress, self._advice = config, progress, advice
        self._expert_layers, self._names = expert_layers, names
        self._waiting: deque[GuardFigures] = deque()
        self.usual_step = 0

    def watch_step(self, figures: GuardFigures) -> None:
        """Add a step, and check those that have ended.

        Raises:
            DivergedError: the run is not to go on.
        """
        self._waiting.append(figures)
        while len(self._waiting) > _IN_FLIGHT:
            self._check_step(self._waiting.popleft())

    def check_all(self) -> None:
        """Check all steps, the last one included.

        Raises:
            DivergedError: as of `watch_step`.
        """
        while self._waiting:
            self._check_step(self._waiting.popleft())

    def check_state(self, step: int, state: Any) -> None:
        """Check that a state may be saved.

        Raises:
            DivergedError: the state holds numbers that are not finite.
        """
        bad = not_finite(self._names.to_stored(state))
        if bad:
            more = f" and {len(bad) - 1} more" * (len(bad) > 1)
            what = f"after step {step}, {bad[0]}{more} is not finite; it is not saved"
            raise DivergedError(f"{what}. {self._advice(self.usual_step)}")

    def _check_step(self, figures: GuardFigures) -> None:
        step = figures.step
        with waiting_for_peers(f"step {step}"):
            loss, norm = float(figures.loss), float(figures.gradient_norm)
            layer = find_nonfinite_layer(self._expert_layers, figures.expert_loads)
        if problem := _describe_not_finite(step, loss, norm, layer):
            self._skip_update(problem)
        else:
            self._progress.skipped_in_row = 0
            self._compare_loss(step, loss)

    def _skip_update(self, problem: str) -> None:
        """Count an update that was skipped, and raise if there were too many."""
        row = self._progress.skipped_in_row + 1
        if row > self._config.skip:
            after = f", after {row - 1} updates left out" * (row > 1)
            raise DivergedError(f"{problem}{after}. {self._advice(self.usual_step)}")
        self._progress.skipped_updates += 1
        self._progress.skipped_in_row = row
        logger.warning(
            "%s: its update is left out (%d of %d in a row)", problem, row, self._config.skip
        )

    def _compare_loss(self, step: int, loss: float) -> None:
        """Compare a loss with the usual one, which a spike does not change."""
        usual = self._progress.usual_loss
        limit, spike = (math.inf if usual is None else usual), self._config.spike
        if spike is not None and loss > spike * limit:
            raise DivergedError(
                f"the loss is {loss:.4g} at step {step}, {loss / limit:.1f} times its usual "
                f"{usual:.4g} (train.guard.spike allows {spike:g}). {self._advice(self.usual_step)}"
            )
        if loss > DOUBTFUL * limit:
            return
        self.usual_step = step
        before = loss if usual is None else usual
        self._progress.usual_loss = _DECAY * before + (1 - _DECAY) * loss


def _describe_not_finite(step: int, loss: float, norm: float, layer: int | None) -> str:
    """The values of a step that are not finite, for messages; empty if all are finite.

    Args:
        norm: norm of the gradient.
        layer: layer whose router had logits that are not finite.
    """
    router = "" if layer is None else f"logits of the router of layer {layer} are not finite"
    for name, value in ("loss", loss), ("gradient norm", norm):
        if not math.isfinite(value):
            also = f", {router}" if router else ""
            return f"the {name} is {value} at step {step}{also}"
    return f"{router} at step {step}" if router else ""


def not_finite(state: Any) -> list[str]:
    """Names of the leaves that hold infinite numbers or none; waits for the state."""
    leaves = {
        leaf_name(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if leaf.size and jnp.issubdtype(leaf.dtype, jnp.inexact)
    }
    bad = list[str]()
    for names in group_by_mesh(leaves):
        flags = _are_finite([leaves[name] for name in names])
        bad += [name for name, finite in zip(names, flags, strict=True) if not finite]
    return bad


def _are_finite(leaves: Sequence[jax.Array]) -> np.ndarray:
    """`[leaves]`, of arrays on one mesh, the same on every process."""
    sharding = leaves[0].sharding
    assert isinstance(sharding, NamedSharding)  # as all of a run's state
    everywhere = NamedSharding(sharding.mesh, PartitionSpec())
    flags = _finite_program(everywhere)(list(leaves))
    with waiting_for_peers("the look at a state"):
        return gather_to_host(flags)


@cache
def _finite_program(sharding: NamedSharding) -> Any:
    program = jax.jit(_all_finite, out_shardings=sharding)
    return synchronize_program("the look at a state", program)


def _all_finite(leaves: list[jax.Array]) -> jax.Array:
    # By the largest and the smallest number, which are NaN where any is: less work for a CPU.
    ends = [(jnp.max(leaf), jnp.min(leaf)) for leaf in leaves]
    return jnp.stack([jnp.isfinite(high) & jnp.isfinite(low) for high, low in ends])
