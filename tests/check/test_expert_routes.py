"""The way of tokens through a layer with experts, as it is drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.check.expert_routes import TOKENS, Routes, draw, routes
from mllm_jax.models.config.experts import ExpertsConfig
from mllm_jax.runtime.folder import RunError
from tests.configs import config


@given(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_every_copy_comes_to_the_rank_of_its_expert_once(
    log_ranks: int, each: int, top_k: int, seed: int
) -> None:
    ranks = 2**log_ranks
    count = ranks * each
    own = ExpertsConfig(count=count, top_k=min(top_k, count), d_ff=8)
    drawn = Routes.drawn(own, ranks, seed)
    arrived = [drawn.arrived(rank) for rank in range(ranks)]
    sent = sorted(copy for rank in range(ranks) for copy in drawn.sent(rank))
    assert sorted(copy for one in arrived for copy in one) == sent
    assert len(set(sent)) == ranks * TOKENS * own.top_k
    for rank, copies in enumerate(arrived):
        experts = [copy.expert for copy in copies]
        assert experts == sorted(experts)
        assert all(each * rank <= expert < each * (rank + 1) for expert in experts)
    np.testing.assert_allclose(drawn.weights.sum(-1), 1)


def test_the_picture_is_of_the_configured_layer(tmp_path: Path) -> None:
    changes = {
        "model__decoder__family": "mixtral",
        "model__decoder__experts": {"count": 4, "top_k": 2, "d_ff": 8},
        "parallel__decoder": {"expert": 2, "tensor": 2},
    }
    found = routes(config(**changes))
    assert (found.ranks, found.experts, found.choice.shape) == (2, 4, (2, TOKENS, 2))
    with PIL.Image.open(draw(found, tmp_path)) as image:
        assert min(image.size) > 300
    with pytest.raises(RunError, match=r"family: llama has no experts to draw; valid: a family"):
        routes(config())
