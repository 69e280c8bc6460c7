"""Which models that begin at random have a released form, and what keeps others from having one."""

from __future__ import annotations

import pytest

from mllm_jax.config.load import load_config
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.models.pretrained.forms import form_of
from tests.configs import ROOT

SIGLIP = (
    "{family: siglip, layers: 1, d_model: 32, heads: 2, d_ff: 32, grid: [4, 4], patch: [12, 12]}"
)
VIT22B = SIGLIP.replace("siglip", "vit22b")


def composition(file: str, *overrides: str) -> ReleasedModel:
    own = [f"data.processor={ROOT / 'configs/processors/llava'}"] if "llava.yaml" in file else []
    model = load_config(ROOT / file, [*own, *overrides]).model
    names = {name: own.released_name for name, own in model.encoders.items()}
    return ReleasedModel(
        model.decoder,
        {names[name]: own for name, own in model.encoders.items()},
        connectors={names[name]: model.connector(name) for name in names},
    )


def test_what_a_newcomer_trains_first_has_one() -> None:
    assert form_of(composition("configs/llava.yaml")).name == "llava"


@pytest.mark.parametrize(
    ("file", "overrides", "told"),
    [
        ("configs/demo.yaml", (), "llava_onevision has no audio where the model has whisper"),
        ("configs/demo.yaml", (), "qwen2_audio has no vision where the model has siglip"),
        ("configs/llava.yaml", (f"model.encoders.vision={VIT22B}",), "llava has vision clip where"),
        (
            "configs/llava.yaml",
            (f"model.encoders.vision={SIGLIP}",),
            "llava_onevision: .*tiles null.* are not LLaVA-OneVision's; valid: tiles, false, 1",
        ),
        (
            "configs/llava.yaml",
            ("model.encoders.vision.connector.hidden=32",),
            "llava: .*hidden 32 is not LLaVA's; valid: mlp, 1, 96",
        ),
    ],
)
def test_what_differs_from_the_nearest_is_told(
    file: str, overrides: tuple[str, ...], told: str
) -> None:
    with pytest.raises(PretrainedError, match=told):
        form_of(composition(file, *overrides))
