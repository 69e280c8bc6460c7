"""The form in which a train step stores a model's parameters."""

from __future__ import annotations

import jax

from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.models.module import abstract_parameters
from mllm_jax.train.state.parameter_layout import ParameterLayout
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan
from tests.train.models import small_model

PLANS = {
    "decoder": ParallelPlan(stage=2, fsdp=2, tensor=2),
    "vision": ParallelPlan(data=8),
    "audio": ParallelPlan(data=8),
}


def test_layers_of_chunks_are_split_as_those_of_the_model_and_over_stages() -> None:
    """One more dimension comes first, whatever else a parameter has."""
    own = small_model()
    model = own.model_copy(update={"decoder": own.decoder.model_copy(update={"layers": 4})})
    grid, shapes = JointGrid.build(PLANS), abstract_parameters(model)[0]
    whole, chunked = (
        ParameterLayout(model, grid),
        ParameterLayout(model, grid, StageLayers(4, 2, 2)),
    )
    stored = jax.eval_shape(chunked.to_stored, shapes)
    pairs = zip(jax.tree.leaves(whole.shardings), jax.tree.leaves(chunked.shardings), strict=True)
    for (path, leaf), (one, own) in zip(
        jax.tree_util.tree_leaves_with_path(stored), pairs, strict=True
    ):
        grouped = "layers" in jax.tree_util.keystr(path[:2]) and "decoder" in str(path[0])
        assert tuple(own.axes) == (("chunks",) * grouped + tuple(one.axes))
        assert len(own.spec) == leaf.ndim
        assert leaf.shape[:2] == (2, 2) or not grouped
