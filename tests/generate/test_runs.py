"""A run answers under its plans, stages included, as it does on one device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

from data.planning.stream import LoaderState
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from mllm_jax.generate.opened import open_model
from mllm_jax.train.decoding.sampling import TokenSampling
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.saved import CheckpointError, SavedParameters
from tests.train.runs import initial_state, save

#: A run takes seconds to make.
pytestmark = pytest.mark.slow
PROMPTS = ["which digits do you see ?", "read the number", "0 1 2 3 4 5 6 7 8 9"]
STAGES = {
    "devices": 4,
    "decoder": {"stage": 2, "tensor": 2},
    "encoders": {"vision": {"data": 4}, "audio": {"data": 2, "tensor": 2}},
}


ADAPTERS = {"train__lora": {"targets": ["decoder.layers.*", "vision.*"], "rank": 2}}


@pytest.fixture(scope="module", params=[{}, ADAPTERS], ids=["whole", "adapters"])
def run(
    request: pytest.FixtureRequest,
    small_config: Callable[..., ExperimentConfig],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of a run of two stages, with a checkpoint of its initial state."""
    folder = tmp_path_factory.mktemp("run")
    config = small_config(
        parallel=STAGES,
        model__decoder__layers=2,
        model__decoder__vocab=129,
        **{"train__accumulate": 2, **request.param},
    )
    experiment = Experiment.build(config)
    state = initial_state(experiment.step)
    # Larger weights than at the start of training, so that answers depend on their prompts.
    state["params"] = jax.tree.map(lambda leaf: leaf * 2 + leaf.dtype.type(0.02), state["params"])
    saved = CheckpointManager(
        folder / "checkpoints", config.checkpoint, experiment.step.form.regrouping
    )
    save(saved, experiment, state, Progress(3, LoaderState(0)))
    saved.close()
    return folder


@pytest.mark.parametrize("sampling", [TokenSampling(), TokenSampling(1.0, 40, 0.95, 7)], ids=str)
def test_stages_answer_as_one_device_does(run: Path, sampling: TokenSampling) -> None:
    wanted = AnswerOptions(sampling, new_tokens=6)
    staged = AnswerGenerator(open_model(run, None), "layer")(PROMPTS, wanted)
    alone = AnswerGenerator(open_model(run, None, one_device=True), "step")(PROMPTS, wanted)
    assert [own.tokens for own in staged.replies] == [own.tokens for own in alone.replies]
    assert len({own.tokens for own in alone.replies}) > 1
    assert staged.timing.prompt_tokens == alone.timing.prompt_tokens > 0


def test_a_run_is_opened_with_its_configuration(run: Path) -> None:
    opened = open_model(run, None)
    assert opened.stages == 2
    assert opened.named == f"step 3 of {run}"
    alone = open_model(run, None, ["data.on_error=raise"], one_device=True)
    assert (alone.config.parallel.devices, alone.stages) == (1, 1)
    assert alone.config.data.on_error == "raise"


def test_parameters_of_another_model_are_refused(run: Path) -> None:
    opened = open_model(run, None, ["model.decoder.d_ff=48"], one_device=True)
    with pytest.raises(CheckpointError, match="belongs to another model"):
        opened.load(Experiment.build(opened.config))


def test_parameters_are_read_alone_and_put_in_the_order_of_the_layers(run: Path) -> None:
    opened = open_model(run, None, one_device=True)
    experiment = Experiment.build(opened.config)
    params = opened.load(experiment)
    saved = SavedParameters(run / "checkpoints")
    kernel = saved["decoder.layers.mlp.up_proj.kernel"]
    assert kernel.shape[:2] == (1, 2)
    found = params["decoder"]["layers"]["mlp"]["up_proj"]["kernel"]
    np.testing.assert_array_equal(found, kernel.reshape(2, *kernel.shape[2:]))
    assert params["decoder"]["embed_tokens"]["embedding"].shape[0] == 129
