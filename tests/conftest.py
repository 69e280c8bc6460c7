"""Eight emulated CPU devices and no leniency: settled before any test asks JAX for a device."""

from __future__ import annotations

from tests.session import caches

# isort: split
import gc
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from hypothesis import HealthCheck, settings

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.console import OWN_PACKAGES
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.progress import Progress
from tests.configs import CHANGES, config
from tests.train.runs import first_states

pytest_plugins = ["tests.session.order", "tests.session.rooms"]

#: Programs of tests run a few times at most, so that compiling them fast counts for more than their
#: speed, here and in the processes that tests start.
COMPILE_FAST = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    # Newer compilers have one kind of emitters only, and do not know the flag.
    *(["--xla_cpu_use_fusion_emitters=false"] if jax.__version_info__ < (0, 11) else []),
)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the devices: the CPU's, unless the tests for GPUs are asked for (`-m gpu`)."""
    config.add_cleanup(caches.remove)
    gc.set_threshold(50_000, 20, 50)  # seldom: collecting tests and tracing set off many
    if "not slow" in config.getoption("markexpr"):
        settings.load_profile("mllm_jax quick")
    if config.getoption("markexpr") != "gpu":
        os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *COMPILE_FAST)).strip()
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", 8)


def pytest_collection_finish() -> None:
    """Leave what was imported out of the collections of garbage that tracing sets off."""
    gc.collect()
    gc.freeze()


jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling makes the first example slow, and other work on the machine any, which is no flakiness;
# the same examples on every run.
settings.register_profile(
    "mllm_jax",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
#: Fewer examples for tests that state no number, where slow tests are left out.
settings.register_profile(
    "mllm_jax quick", parent=settings.get_profile("mllm_jax"), max_examples=40
)
settings.load_profile("mllm_jax")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test starts; none survives the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands set up logging, which goes on in the process that runs the next test."""
    loggers = [logging.getLogger(name) for name in ("", *OWN_PACKAGES)]
    levels, handlers = [each.level for each in loggers], loggers[0].handlers[:]
    yield
    loggers[0].handlers[:] = handlers
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


@pytest.fixture(scope="session")
def small_config(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ExperimentConfig]:
    cache = tmp_path_factory.mktemp("cache")

    def make(**changes: Any) -> ExperimentConfig:
        return config(**(CHANGES | {"data__cache": str(cache)} | changes))

    return make


@pytest.fixture(scope="session")
def experiment(small_config: Callable[..., ExperimentConfig]) -> Experiment:
    return Experiment.build(small_config())


@pytest.fixture(scope="session")
def fresh_state(experiment: Experiment) -> Callable[[], tuple[Any, Progress]]:
    return first_states(experiment)
