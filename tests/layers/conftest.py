"""What tests of layers share."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture
def gpu() -> None:
    """Skip where JAX has no NVIDIA GPU; it raises RuntimeError for a platform that is not there."""
    try:
        devices = jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"no NVIDIA GPU: {error}")
    jax.config.update("jax_default_device", devices[0])
