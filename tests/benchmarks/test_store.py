"""The cost of copies in an object store: measured beside steps, and nothing is left there."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import fsspec
import pytest

from benchmarks import store
from mllm_jax.config.load import ConfigError, ExperimentConfig


def test_a_configuration_without_a_store_is_refused(
    small_config: Callable[..., ExperimentConfig],
) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint\.copy_to null: there is no store; valid:"):
        store.bench_store(small_config())


@pytest.mark.slow
def test_steps_beside_copies_are_timed(
    small_config: Callable[..., ExperimentConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "TURNS", 2)
    place = f"memory://{uuid4()}"
    own = {"copy_to": place, "every": 8, "local_every": None}
    found = store.bench_store(small_config(checkpoint=own))
    assert found["every"] == 8
    assert found["bytes"] > 1e5
    assert min(found["copying"], found["step"]) > 0
    assert found["share_low"] <= found["share"] <= found["share_high"]
    assert not fsspec.filesystem("memory").find(place)
