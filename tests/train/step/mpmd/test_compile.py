"""Programs of groups that were compiled ahead of time run in place of those of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mllm_jax.compile.save import save_step
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.experiment import Experiment
from tests.configs import HALVED
from tests.train.runs import first_states, run


@pytest.mark.slow
def test_a_run_takes_programs_that_were_compiled_ahead(
    small_config: Callable[..., ExperimentConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = small_config(parallel=HALVED, train__steps=1)
    assert save_step(settings, tmp_path).file == tmp_path
    files = [*tmp_path.iterdir()]
    assert len(files) > 3
    caplog.set_level("INFO")
    changes = {"parallel": HALVED, "train__steps": 1, "run__compiled_steps": str(tmp_path)}
    ahead = Experiment.build(small_config(**changes))
    losses, _ = run(ahead, *first_states(ahead)())
    messages = [record.getMessage() for record in caplog.records]
    assert sum("is not compiled: loaded from" in text for text in messages) == len(files)
    assert not [text for text in messages if "is compiled anew" in text]
    assert 1 < losses[0] < 10
