"""Checks that what `parallel.overlap` and `parallel.reduce_dtype` ask for does something."""

from __future__ import annotations

from collections.abc import Iterator

from mllm_jax.config.checks.problems import ConfigProblem, ProblemChoice
from mllm_jax.config.overlap import OPTIONS, has_tensor_ranks, why_useless
from mllm_jax.config.run import Asked
from mllm_jax.config.sections import ExperimentConfig


def overlap_checks(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Pieces that are asked for do something, and so does the type of sums."""
    chosen, key = config.parallel.overlap, "parallel.overlap"
    if config.parallel.reduce_dtype != "float32" and not has_tensor_ranks(config):
        reason = f"{config.parallel.reduce_dtype} needs a plan with tensor above 1"
        yield ConfigProblem(
            "parallel.reduce_dtype",
            reason,
            lambda: [[ProblemChoice.of_key("parallel.reduce_dtype", "float32")]],
        )
    if isinstance(chosen, str):
        return
    reasons = {name: reason for name in chosen if (reason := _idle_reason(config, name))}
    if reasons:
        remaining = [name for name in chosen if name not in reasons]
        choices = [ProblemChoice.of_key(key, "auto"), ProblemChoice.of_key(key, remaining or "off")]
        text = "; ".join(f"{name} {reason}" for name, reason in reasons.items())
        yield ConfigProblem(key, text, lambda: [choices])


def _idle_reason(config: ExperimentConfig, name: Asked) -> str:
    """The reason why one of the entries has no effect; empty if it has one."""
    if name != "flags":
        return why_useless(config, name)
    platform = config.parallel.platform
    return "" if platform in OPTIONS else f"are none for platform {platform}"
