"""What a gradient program sums and divides by, whatever class computes the shares."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from mllm_jax.layers.trainable import LOAD
from mllm_jax.models.module_rows import NEXT_TOKEN, ModuleRows, NextTokenTargets
from mllm_jax.models.objectives.config import NextTokenConfig
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.step.gradient_program import Batch, GradientProgram, Gradients, with_aux
from scheduling.executor.step_batch import StepBatch
from sharding.layerstack.spec import Aux

#: Factor of the auxiliary loss, and what the shares of a step are.
FACTOR, LOSS, SUM, LOADS, GRADIENT = 0.25, 3.0, 8.0, (6.0, 2.0), (5.0, 7.0)


class Fixed(GradientProgram):
    """A program of one device whose shares are given; it notes what they are asked with."""

    def __init__(self, ahead: int = 0) -> None:
        self._ahead = ahead
        alone: Any = SimpleNamespace(backbone=SimpleNamespace(batch_axes=()))
        self.grid = alone
        graph = SimpleNamespace(objectives={NEXT_TOKEN: NextTokenConfig()})
        model: Any = SimpleNamespace(
            backbone_config=SimpleNamespace(aux={"balance": FACTOR}), graph=graph, backbone=BACKBONE
        )
        self.model = model
        whole = SimpleNamespace(replicated=())
        self.__dict__["trained_shardings"] = {"router": {LOAD: whole}, "q": whole}
        self.asked: list[tuple[float, float]] = []

    @property
    def prefetched_microbatches(self) -> int:
        return self._ahead

    def accumulate_gradients(
        self, params: Any, batch: Batch, weights: Mapping[str, jax.Array], aux: Aux
    ) -> Gradients:
        self.asked.append((float(weights[NEXT_TOKEN]), float(aux["balance"])))
        gradients = {"router": {LOAD: jnp.array(LOADS)}, "q": jnp.array(GRADIENT)}
        return Gradients(jnp.float32(LOSS), gradients, {}, {"balance": jnp.float32(SUM)})


def batch(ids: list[NDArray[np.int32]], weights: list[NDArray[np.float32]]) -> Batch:
    """A batch of microbatches of one row."""
    targets = NextTokenTargets(None, jnp.array(weights)[:, None])
    decoder = ModuleRows(None, jnp.array(ids)[:, None], None, targets={NEXT_TOKEN: targets})
    return StepBatch({BACKBONE: decoder})


IDS = np.array([[1, 1, 2, 0], [1, 0, 0, 0], [1, 2, 3, 4]], np.int32)
WEIGHTS = np.array([[0, 0.5, 1, 0], [0.25, 0, 0, 0], [0, 1, 1, 1]], np.float32)


@pytest.mark.parametrize(
    ("ahead", "weight", "tokens", "targets"), [(0, 4.75, 8, 6), (1, 1.75, 4, 3), (2, 1.5, 3, 2)]
)
def test_losses_are_divided_by_weights_and_loads_and_auxiliary_losses_by_tokens(
    ahead: int, weight: float, tokens: int, targets: int
) -> None:
    """Microbatches that are worked ahead for belong to the next step."""
    program, given = Fixed(ahead), batch([*IDS], [*WEIGHTS])
    made = program({}, given)
    assert program.asked == [pytest.approx((weight, FACTOR / tokens))]
    assert float(made.loss) == LOSS
    np.testing.assert_allclose(made.gradients["router"][LOAD], np.array(LOADS) / tokens)
    np.testing.assert_array_equal(made.gradients["q"], GRADIENT)
    np.testing.assert_allclose(made.aux["balance"], SUM / tokens)
    assert int(program.count_targets(given)) == targets


def test_shares_are_told_as_they_are() -> None:
    program = Fixed()
    own = program.local_gradients({}, batch([*IDS], [*WEIGHTS]))
    assert program.asked == [(4.75, FACTOR / 8)]
    np.testing.assert_array_equal(own.gradients["router"][LOAD], LOADS)
    assert float(own.aux["balance"]) == SUM


@pytest.mark.parametrize(("ids", "tokens"), [(IDS, 8), (0 * IDS, 1)])
def test_a_step_without_a_loss_or_a_token_divides_by_one(
    ids: NDArray[np.int32], tokens: int
) -> None:
    program = Fixed()
    made = program({}, batch([*ids], [*(0 * WEIGHTS)]))
    assert program.asked == [(1.0, FACTOR / tokens)]
    np.testing.assert_allclose(made.aux["balance"], SUM / tokens)


def test_a_weight_below_one_is_the_divisor() -> None:
    program = Fixed()
    program({}, batch([*IDS], [*(WEIGHTS / 16)]))
    assert program.asked[0][0] == 4.75 / 16


def test_what_is_carried_must_be_what_the_program_carries() -> None:
    given = batch([*IDS], [*WEIGHTS]).with_carried({"vision": 0})
    with pytest.raises(ValueError, match=r"carried: \['vision'\] is refused; valid: \[\]"):
        Fixed()({}, given)


def test_auxiliary_losses_are_added_by_their_factors() -> None:
    sums = {"balance": jnp.float32(3), "z": jnp.float32(5)}
    factors = {"balance": jnp.float32(2), "z": jnp.float32(0.5)}
    assert float(with_aux(jnp.float32(1), sums, factors)) == 1 + 6 + 2.5
    assert float(with_aux(jnp.float32(1), {}, {})) == 1
