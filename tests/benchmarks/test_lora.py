"""A step that trains adapters computes no gradients of bases, and keeps no optimizer state of them.

Not by what it is written as, but in its compiled program.
"""

from __future__ import annotations

import jax
import pytest

from benchmarks.lora import without_adapters
from mllm_jax.compile.hlo import parse_hlo, total_flops
from mllm_jax.compile.target import training_batch
from mllm_jax.config.configured_step import build_strategy, build_workload, on_platform
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.train.step.build import build_train_step
from scheduling.costs.flops import task_flops
from tests.configs import ROOT

CONFIG = ROOT / "configs" / "bench" / "lora.yaml"


def compiled(config: ExperimentConfig) -> jax.stages.Compiled:
    step = build_train_step(config, jax.devices()[: config.parallel.devices])
    return step.update.lower(step.abstract_state, training_batch(config, step)).compile()


def decoder_flops(program: jax.stages.Compiled) -> float:
    text = program.as_text()
    assert text is not None
    return total_flops(parse_hlo(text))


def predicted_flops(config: ExperimentConfig) -> float:
    settled = on_platform(config, "cpu")
    tasks = task_flops(build_workload(settled), build_strategy(settled, "cpu"))
    return tasks.forward + tasks.backward


@pytest.mark.slow
def test_the_compiled_step_has_neither_gradients_nor_state_of_bases() -> None:
    """Bases are 2 bytes a parameter, and all of a parameter that trains is 12, with its moments."""
    config = load_config(CONFIG)
    adapters, full = configs = config, without_adapters(config)
    programs = [compiled(own) for own in configs]
    flops = [decoder_flops(own) for own in programs]
    predicted = predicted_flops(adapters) / predicted_flops(full)
    assert flops[0] / flops[1] == pytest.approx(predicted, rel=0.05)
    for part, most in {"argument_size_in_bytes": 0.25, "temp_size_in_bytes": 0.6}.items():
        small, large = (getattr(own.memory_analysis(), part) for own in programs)
        assert small < most * large, part
