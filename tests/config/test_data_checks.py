"""The demo set is refused at once for a model that takes none of its media."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import launch
from mllm_jax.config.checks.data_checks import check_demo_media
from mllm_jax.config.load import ConfigError
from mllm_jax.runtime.exits import ExitCode
from tests.configs import ONE_DEVICE, VALUES, config, values

#: Without one encoder, and without both.
ENCODERS = VALUES["model"]["encoders"]
BUDGETS = {"tokens": 64, "segments": 8}
TEXT_ALONE: dict[str, Any] = {
    "model__encoders": {},
    "data__budgets": BUDGETS,
    "parallel": ONE_DEVICE | {"encoders": {}},
}
IMAGES_ALONE: dict[str, Any] = {
    "model__encoders": {"vision": ENCODERS["vision"]},
    "data__budgets": BUDGETS | {"vision": 64},
    "parallel": ONE_DEVICE | {"encoders": {"vision": {}}},
}
MIXTURE = {"kind": "mixture", "members": {"digits": {"source": {"kind": "demo"}}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            TEXT_ALONE,
            "data.source.kind: demo has images and audio, but no encoder takes image or audio; "
            "valid: a model with an encoder of image or audio, or another kind of source$",
        ),
        (
            IMAGES_ALONE | {"data__on_error": "raise"},
            "but no encoder takes audio; valid: a model with an encoder of audio, or another kind "
            "of source, or data.on_error skip",
        ),
        (
            TEXT_ALONE | {"data__source": MIXTURE},
            "data.source.members.digits.source.kind: demo has images",
        ),
    ],
)
def test_a_demo_set_without_its_encoders_is_refused(changes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_demo_media(config(**changes))


@pytest.mark.parametrize(
    "changes",
    [{}, IMAGES_ALONE, TEXT_ALONE | {"data__source": {"kind": "synthetic"}}],
    ids=["both", "half of the samples", "another source"],
)
def test_a_source_with_usable_samples_is_taken(changes: Any) -> None:
    check_demo_media(config(**changes))


@pytest.mark.parametrize("command", ["train", "budgets"])
def test_commands_refuse_the_demo_set_before_they_measure(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("data.sources.demo.DemoSet.__init__", None)
    file = tmp_path / "text.yaml"
    file.write_text(yaml.safe_dump(values(**TEXT_ALONE)))
    assert launch.main([command, "--config", str(file)]) == ExitCode.BAD_INPUT
    assert "data.source.kind: demo has images and audio" in capsys.readouterr().err
