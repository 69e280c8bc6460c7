"""Adapters that training begins with are those of its targets."""

from __future__ import annotations

import re

import pytest

from mllm_jax.families.releases import format_named
from mllm_jax.hf_format.configs import read_config
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.pretrained import FirstAdapters
from tests.release.test_adapters import FOLDER, LORA, SCALE
from tests.release.test_import import PARITY

TARGETS: list[str] = LORA["targets"]
LACKS = "has no adapters of decoder.layers.mlp.gate_proj, decoder.layers.mlp.up_proj, "
MORE = "has adapters of vision.connector.fc1, which no target names"


def adapted(targets: list[str]) -> ModelConfig:
    """The model of the adapters' release, with adapters of some layers."""
    values = read_config(PARITY / "llava")
    found = format_named(values["model_type"]).read(values)
    own = {"decoder": found.decoder, "encoders": dict(found.encoders), "dtype": "float32"}
    return ModelConfig(**own, pretrained=str(PARITY / "llava")).with_adapters(targets, 3, SCALE)


@pytest.mark.parametrize(
    ("targets", "lacks", "more"),
    [
        (TARGETS, False, False),
        (TARGETS[:-1], False, True),
        (["decoder.layers.*", *TARGETS], True, False),
        (["decoder.layers.*", *TARGETS[:-1]], True, True),
    ],
)
def test_adapters_of_other_layers_than_the_targets_are_refused(
    targets: list[str], lacks: bool, more: bool
) -> None:
    """Told is what is lacking, what is too much, and both where it is both."""
    model = adapted(targets)
    if not (lacks or more):
        assert FirstAdapters.open(model, FOLDER).rules
        return
    with pytest.raises(PretrainedError) as refused:
        FirstAdapters.open(model, FOLDER)
    told = str(refused.value)
    assert (LACKS in told, MORE in told, " and has" in told) == (lacks, more, lacks and more)
    assert re.search(rf"{re.escape(str(FOLDER))} has .*; valid: train\.lora\.targets \[", told)
