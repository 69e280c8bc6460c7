"""Multimodal LLM training on JAX: configuration, models, train loop.

    import mllm_jax

    config = mllm_jax.load("configs/demo.yaml", "train.steps=5")
    experiment = mllm_jax.build(config)
    for result in mllm_jax.steps(experiment):
        print(result.step, result.loss)

The functions are those of `mllm_jax.api`; docs/how-to/python.md shows them all. Their results,
and the errors that they raise, are loaded when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mllm_jax.api import build, evaluate, find_plans, generator, load, steps, verify

if TYPE_CHECKING:  # which `import mllm_jax` does not need
    from mllm_jax.check.verify import VerificationResult
    from mllm_jax.config.sections import ConfigError, ExperimentConfig
    from mllm_jax.evaluation.evaluate import EvaluationResult
    from mllm_jax.generate.answers import AnswerSet
    from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
    from mllm_jax.plan.report import PlannedRun
    from mllm_jax.train.decoding.sampling import TokenSampling
    from mllm_jax.train.experiment import Experiment
    from mllm_jax.train.results import StepResult

__all__ = [
    "AnswerGenerator",
    "AnswerOptions",
    "AnswerSet",
    "ConfigError",
    "EvaluationResult",
    "Experiment",
    "ExperimentConfig",
    "PlannedRun",
    "StepResult",
    "TokenSampling",
    "VerificationResult",
    "build",
    "evaluate",
    "find_plans",
    "generator",
    "load",
    "steps",
    "verify",
]

#: Where the classes are.
_HOMES = {
    "AnswerSet": "mllm_jax.generate.answers",
    "ConfigError": "mllm_jax.config.sections",
    "EvaluationResult": "mllm_jax.evaluation.evaluate",
    "Experiment": "mllm_jax.train.experiment",
    "ExperimentConfig": "mllm_jax.config.sections",
    "AnswerGenerator": "mllm_jax.generate.generator",
    "PlannedRun": "mllm_jax.plan.report",
    "TokenSampling": "mllm_jax.train.decoding.sampling",
    "StepResult": "mllm_jax.train.trainer",
    "VerificationResult": "mllm_jax.check.verify",
    "AnswerOptions": "mllm_jax.generate.generator",
}


def __getattr__(name: str) -> Any:
    """A class, loaded now."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
