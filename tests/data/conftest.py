"""Small sources and configurations for the tests of data/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data.config import DataConfig
from data.processing.processor import Processor, make_processor
from data.sources.make import make_source
from data.sources.source import Source
from tests.data.samples import AUDIO, BUDGETS, TEXT, VISION, MakeConfig


@pytest.fixture(scope="session")
def make_config(tmp_path_factory: pytest.TempPathFactory) -> MakeConfig:
    """A factory of small demo configurations; keyword arguments replace keys of `data:`."""
    cache = tmp_path_factory.mktemp("cache")

    def make(**changes: Any) -> DataConfig:
        base: dict[str, Any] = {
            "source": {"kind": "demo", "train": 120, "heldout": 30, "clips": 40, "variants": 2},
            "budgets": BUDGETS,
            "rows": 4,
            "lookahead": 48,
            "balance": "none",
            "image": {"height": 16},
            "audio": {"sample_rate": 8000, "hop": 80, "window": 200},
            "cache": cache,
        }
        return DataConfig.model_validate(base | changes)

    return make


@pytest.fixture(scope="session")
def config(make_config: MakeConfig) -> DataConfig:
    """The small demo configuration."""
    return make_config()


@pytest.fixture(scope="session")
def processor(config: DataConfig) -> Processor:
    """The processor of the demo set."""
    return make_processor(config, [TEXT, VISION, AUDIO])


@pytest.fixture(scope="session")
def demo(config: DataConfig) -> Source:
    """The training split of the demo set."""
    return make_source(config)


@pytest.fixture(scope="session")
def heldout(config: DataConfig) -> Source:
    """The held-out split of the demo set."""
    return make_source(config, "heldout")


@pytest.fixture
def media(tmp_path: Path) -> Path:
    """An empty media folder."""
    folder = tmp_path / "media"
    folder.mkdir()
    return folder
