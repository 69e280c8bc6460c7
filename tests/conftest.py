"""Eight emulated CPU devices and no leniency: settled before any test asks JAX for a device."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import jax
import pytest
from hypothesis import settings

from mllm_jax.console import OWN_PACKAGES


def pytest_configure(config: pytest.Config) -> None:
    """Choose the devices: the CPU's, unless the tests for GPUs are asked for (`-m gpu`)."""
    if config.getoption("markexpr") != "gpu":
        # Programs run a few times at most, so that compiling them fast counts for more, here and in
        # the processes that tests start.
        flags = os.environ.get("XLA_FLAGS", ""), "--xla_backend_optimization_level=0"
        os.environ["XLA_FLAGS"] = " ".join(flags).strip()
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", 8)


jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling makes the first example slow, which is no flakiness; the same examples on every run.
settings.register_profile("mllm_jax", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("mllm_jax")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands set up logging, which goes on in the process that runs the next test."""
    loggers = [logging.getLogger(name) for name in ("", *OWN_PACKAGES)]
    levels, handlers = [each.level for each in loggers], loggers[0].handlers[:]
    yield
    loggers[0].handlers[:] = handlers
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)
