"""Weights that a type cannot hold are refused where they are written, and tiny ones are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from data.folders import put_folder
from mllm_jax.hf_format.dtype_ranges import (
    RangeError,
    convert_values,
    count_underflows,
    find_overflow,
    report_underflows,
)
from mllm_jax.hf_format.files import SINGLE, STORED
from mllm_jax.models.pretrained.write import TensorDraft

TYPES = {name: STORED[name] for name in ("F16", "BF16", "F32")}


@pytest.mark.parametrize(
    ("value", "dtype", "told"),
    [
        (
            1e5,
            "F16",
            r"b holds 100000, which float16 \(at most 65504\) cannot hold; valid: bf",
        ),
        (-65536.0, "F16", "b holds -65536, which float16"),
        (3.4e38, "BF16", r"which bfloat16 \(at most 3.38953e\+38\) cannot hold; valid: float32$"),
        (np.inf, "F32", "b holds inf, which is no finite number$"),
        (np.nan, "BF16", "b holds nan, which is no finite number$"),
        (1e39, "F32", r"b holds 1e\+39, which float32 .* cannot hold$"),
    ],
)
def test_nothing_is_left_of_a_release_with_a_number_that_its_type_cannot_hold(
    value: float, dtype: str, told: str, tmp_path: Path
) -> None:
    bad = np.ones((2, 3))
    bad[1, 1] = value

    def write(folder: Path) -> None:
        draft = TensorDraft.create_files(folder, {"a": ((2,), dtype), "b": (bad.shape, dtype)})
        draft.write_tensor("a", np.zeros(2))
        draft.write_tensor("b", bad)

    with pytest.raises(RangeError, match=told):
        put_folder(tmp_path / "out", write)
    assert not [*tmp_path.iterdir()]


@given(st.floats(width=32), st.sampled_from(sorted(TYPES)))
def test_a_number_is_refused_exactly_if_it_becomes_infinite(value: float, dtype: str) -> None:
    values = np.array([1.0, value, -2.0], np.float32)
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(values.astype(TYPES[dtype]).astype(np.float32)).all())
    assert (find_overflow(values, TYPES[dtype]) is None) == finite


def test_numbers_that_become_zero_are_counted(tmp_path: Path) -> None:
    values = np.array([0.0, 1e-9, -1e-8, 1.0, -0.0, 1e-4], np.float32)
    draft = TensorDraft.create_files(tmp_path, {name: ((6,), name) for name in TYPES})
    zeros = {name: draft.write_tensor(name, values) for name in TYPES}
    assert zeros == {"F16": 2, "BF16": 0, "F32": 0}
    assert load_file(tmp_path / SINGLE)["F16"].tolist()[1:3] == [0, 0]
    (line,) = report_underflows(zeros | {"x": 1}, "float16")
    assert line.startswith("3 weights of 2 tensors are too small for float16 and become zero, most")
    assert line.endswith("in F16 (2)")
    assert not [*report_underflows({"x": 0}, "float16")]


def test_halves_are_looked_at_as_numbers() -> None:
    own: Any = np.array([1e30, 2.0], ml_dtypes.bfloat16)
    assert convert_values("a", own, TYPES["F32"]).dtype == np.float32
    assert count_underflows(own, convert_values("a", own, TYPES["BF16"])) == 0
    with pytest.raises(RangeError, match=r"a holds 1.00026e\+30, which float16"):
        convert_values("a", own, TYPES["F16"])
    assert convert_values("a", np.zeros((0, 4)), TYPES["F16"]).shape == (0, 4)
