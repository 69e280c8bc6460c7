"""Adapters on their way out: peft loads them, and computes with them what is computed here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.models.pretrained.stored import close
from tests.release.adapted import STORED, exported
from tests.release.test_adapters import check_computed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of adapters."""
    return exported(tmp_path_factory.mktemp("adapted"))


def test_what_is_exported_is_what_peft_loaded(folder: Path) -> None:
    """Bit by bit: the adapters, and the connector that trained beside them."""
    given, found = (load_file(own / "adapter_model.safetensors") for own in (STORED, folder))
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        assert tensor.dtype == found[name].dtype
        np.testing.assert_array_equal(found[name], tensor, err_msg=name)
    configs = [json.loads((own / "adapter_config.json").read_text()) for own in (STORED, folder)]
    assert (
        configs[0] | {"base_model_name_or_path": configs[1]["base_model_name_or_path"]}
        == (configs[1])
    )


def test_peft_loads_what_is_exported(folder: Path) -> None:
    """Where peft is installed; what it computed is stored for everywhere else."""
    pytest.importorskip("peft")
    from tests.release.by_peft import computed

    found, expected = computed(folder), np.load(STORED / "expected.npz")
    for name, values in found.items():
        close(values, expected[name], name)
    check_computed(folder, found)
