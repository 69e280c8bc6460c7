"""The released model of docs/extending/decoder.md: a folder is all that it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from mllm_jax.families import registry
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.pretrained.forms import form_of
from mllm_jax.models.pretrained.release import Release, compose_model
from tests.extending.duo import FAMILY
from tests.models.pretrained.stored import by_name, imported_from, written

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "extending" / "decoder.md").read_text()
WIDTHS = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 24}
MODEL = {
    "decoder": {**WIDTHS, "family": "qwen3", "vocab": 32},
    "encoders": {
        "vision": {
            **WIDTHS,
            "family": "siglip",
            "patch": [2, 2],
            "grid": [3, 3],
            "connector": {"kind": "linear"},
        }
    },
}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """The family among the others."""
    registry.register(FAMILY)
    yield
    registry.unregister(FAMILY.name)


@pytest.mark.parametrize("name", ["__init__", "release"])
def test_the_page_shows_the_code(name: str) -> None:
    code = (HERE / "duo" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in PAGE, f"{name}.py is not as in the page"


def test_a_model_is_written_checked_and_read_again(tmp_path: Path) -> None:
    config = ModelConfig.model_validate(MODEL)
    model = ReleasedModel(config.decoder, dict(config.encoders), {"vision": 31})
    duo = form_of(model)
    assert duo.name == "duo"
    (tmp_path / "config.json").write_text(json.dumps(duo.write_config(model)))
    params = multimodal.init_parameters(config, jax.random.key(0))
    leaves = {name: {k: np.asarray(x) for k, x in by_name(params[name]).items()} for name in params}
    tensors = {
        name: tensor
        for module, rules in duo.rules(model).items()
        for name, tensor in written(rules, leaves[module]).items()
    }
    save_file(tensors, tmp_path / "model.safetensors")
    release = Release.open(tmp_path)
    release.check_contents()
    assert release.released_model == model
    assert (
        ModelConfig.model_validate({**compose_model(str(tmp_path)), "pretrained": None}) == config
    )
    _, loaded, _ = imported_from(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, loaded, jax.device_get(params))


def test_other_connectors_are_refused() -> None:
    values = json.loads(json.dumps(MODEL))
    values["encoders"]["vision"]["connector"] = {"kind": "mlp"}
    config = ModelConfig.model_validate(values)
    model = ReleasedModel(config.decoder, dict(config.encoders), {"vision": 31})
    with pytest.raises(PretrainedError, match=r"duo: connector .*mlp.* valid: linear"):
        form_of(model)
