"""Products by groups on a GPU, against the reference in bfloat16: `pytest -m gpu`."""

from __future__ import annotations

import jax
import pytest

from mllm_jax.check.grouped import LIMIT, GroupedCase


@pytest.fixture(autouse=True)
def gpu() -> None:
    """Skip where JAX has no NVIDIA GPU; it raises RuntimeError for a platform that is not there."""
    try:
        devices = jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"no NVIDIA GPU: {error}")
    jax.config.update("jax_default_device", devices[0])


pytestmark = pytest.mark.gpu

#: Few rows and many, for a group; widths that fill blocks, and that do not.
CASES = {
    "small": GroupedCase(),
    "many groups": GroupedCase(rows=4096, groups=64, inputs=256, outputs=256),
    "wide": GroupedCase(rows=4096, groups=8, inputs=2048, outputs=768),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_products_and_gradients_are_those_of_the_reference(case: GroupedCase) -> None:
    found, expected = (case.program(way)(case.inputs_of(way)) for way in ("grouped", "reference"))
    assert max(case.errors(found, expected)) < LIMIT
