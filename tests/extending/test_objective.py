"""docs/extending/objective.md, followed to the letter."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from data.sample import ConversationError, Sample, Turn
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import initial_parameters, loss_and_gradients
from mllm_jax.config.inputs import target_specs
from mllm_jax.config.load import ConfigError, load_config
from mllm_jax.config.strict_yaml import parse_yaml
from mllm_jax.models.model_config import ModelConfig
from sharding.plan import ParallelPlan
from tests.train.models import small_model

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "docs" / "extending" / "objective.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.S)
(YAML,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
FILES = ("tags.py", "tags_loss.py")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the page's modules, from which modules are imported."""
    for name, code in zip(FILES, CODE, strict=True):
        (tmp_path / name).write_text(code)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def model() -> ModelConfig:
    values = small_model().model_dump(mode="json") | parse_yaml(YAML)["model"]
    return ModelConfig.model_validate(values | {"encoders": {}})


def test_the_page_shows_the_code() -> None:
    assert [(HERE / "tags" / name).read_text() for name in FILES] == CODE


def test_the_configuration_of_the_page_is_taken() -> None:
    values = parse_yaml(YAML)
    changes = [f"model.{key}={own}" for key, own in values["model"].items()]
    config = load_config(
        ROOT / "configs" / "demo.yaml",
        [*[text.replace("'", '"') for text in changes], "evaluate.exact_match=false"],
    )
    assert config.model.objectives["mood"].width == 5
    with pytest.raises(ConfigError, match=r"kind tags:NONE: .* valid: next_token, .* module:NAME"):
        load_config(
            ROOT / "configs" / "demo.yaml", ['model.objectives={mood: {kind: "tags:NONE"}}']
        )


def test_a_sample_without_tags_is_refused() -> None:
    spec = target_specs(model())["mood"]
    sample = Sample("s", (Turn("user", "hi"),), labels={"mood": [0, 3]})
    spec.check(sample)
    value = spec.make(sample)
    assert value is not None
    assert value.tolist() == [1, 0, 0, 1, 0]
    with pytest.raises(ConversationError, match=r"labels.mood: \[5\] is refused; valid: a list of"):
        spec.check(Sample("s", sample.turns, labels={"mood": [5]}))


def test_it_is_learnt_beside_the_next_token() -> None:
    config = model()
    params = initial_parameters(config, seed=0)
    batch = synthetic_batch(config, rows=2, tokens=16, budgets={}, seed=1)
    loss, gradients = loss_and_gradients(config, {"decoder": ParallelPlan()}, params, [batch])
    head = gradients["decoder"]["head_mood"]["linear"]
    assert np.abs(head["kernel"]).max() > 0
    assert head["bias"].shape == (5,)
    assert np.isfinite(loss)
