"""The way of tokens through a layer with experts, as it is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.check.expert_routes import TOKENS, ExpertRoutes, draw_picture, draw_routes
from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.runtime.folder import RunError
from tests.configs import config


@given(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_every_copy_comes_to_the_rank_of_its_expert_once(
    log_ranks: int, each: int, top_k: int, seed: int
) -> None:
    ranks = 2**log_ranks
    count = ranks * each
    rng, taken = np.random.default_rng(seed), min(top_k, count)
    orders = rng.permuted(np.tile(np.arange(count), (ranks, TOKENS, 1)), axis=-1)
    drawn = ExpertRoutes(count, orders[..., :taken], rng.random((ranks, TOKENS, taken)))
    arrived = [drawn.arrived_copies(rank) for rank in range(ranks)]
    sent = sorted(copy for rank in range(ranks) for copy in drawn.copies_sent(rank))
    assert sorted(copy for one in arrived for copy in one) == sent
    assert len(set(sent)) == ranks * TOKENS * taken
    for rank, copies in enumerate(arrived):
        experts = [copy.expert for copy in copies]
        assert experts == sorted(experts)
        assert all(each * rank <= expert < each * (rank + 1) for expert in experts)


def test_the_picture_is_of_the_configured_router() -> None:
    """By hand: sigmoids, the best two of two groups, times the scale and not normalised."""
    own = ExpertsConfig(
        count=8,
        top_k=3,
        d_ff=8,
        router="sigmoid",
        normalise=False,
        scale=2.5,
        groups=4,
        top_groups=2,
    )
    drawn = ExpertRoutes.draw_random(own, ranks=2, seed=3)
    logits = np.random.default_rng(3).normal(size=(2, TOKENS, 8))
    scores = 1 / (1 + np.exp(-logits))
    grouped = scores.reshape(2, TOKENS, 4, 2).sum(-1)
    kept = np.repeat(grouped >= np.sort(grouped)[..., -2:-1], 2, axis=-1)
    choice = np.argsort(-np.where(kept, scores, -1))[..., :3]
    np.testing.assert_array_equal(drawn.choice, choice)
    weights = 2.5 * np.take_along_axis(scores, choice, -1)
    np.testing.assert_allclose(drawn.weights, weights, rtol=1e-6)


def test_the_picture_is_of_the_configured_layer(tmp_path: Path) -> None:
    changes = {
        "model__decoder__family": "mixtral",
        "model__decoder__experts": {"count": 4, "top_k": 2, "d_ff": 8},
        "parallel__decoder": {"expert": 2, "tensor": 2},
    }
    found = draw_routes(config(**changes))
    assert (found.ranks, found.experts, found.choice.shape) == (2, 4, (2, TOKENS, 2))
    with PIL.Image.open(draw_picture(found, tmp_path)) as image:
        assert min(image.size) > 300
    changes["parallel__decoder"] = {"expert": 4}
    changes["model__decoder__experts"] = {"count": 64, "top_k": 32, "d_ff": 8}
    with pytest.raises(RunError, match=r"expert: 4 ranks, each with 32 copies .* valid: at most 2"):
        draw_routes(config(**changes))
    with pytest.raises(RunError, match=r"family: llama has no experts to draw; valid: a family"):
        draw_routes(config())
