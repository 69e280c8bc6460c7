"""Products by groups on a GPU, against the reference in bfloat16: `pytest -m gpu`."""

from __future__ import annotations

import pytest

from benchmarks.cases.grouped import LIMIT, GroupedCase

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("gpu"),
    # JAX 0.12 says so of every Triton kernel.
    pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated"),
]

#: Few rows and many, for a group; widths that fill blocks, and that do not.
CASES = {
    "small": GroupedCase(),
    "many groups": GroupedCase(rows=4096, groups=64, inputs=256, outputs=256),
    "wide": GroupedCase(rows=4096, groups=8, inputs=2048, outputs=768),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_products_and_gradients_are_those_of_the_reference(case: GroupedCase) -> None:
    found, expected = (
        case.make_program(way)(case.inputs_of(way)) for way in ("grouped", "reference")
    )
    assert max(case.relative_errors(found, expected)) < LIMIT
