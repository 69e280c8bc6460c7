"""Synthetic samples: as long as drawn, the same in every process, read as measured."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from data.loading.loader import DataLoader
from data.planning.stream import TrainingDemand
from data.processing.processor import make_processor
from data.sample import DataError
from data.sources.distributions import REDUCTION, draw_lengths
from data.sources.make import make_source
from tests.data.samples import AUDIO, TEXT, VISION, WORK, MakeConfig, all_rows

SOURCE = {"kind": "synthetic", "samples": 200, "scale": 0.05, "patch": 16}
CHANGES = {
    "source": SOURCE,
    "tokenizer": "bytes",
    "image": {"max_patches": 4096},
    "budgets": {"tokens": 4096, "vision": 4096, "audio": 640, "segments": 24},
}


def test_samples_are_about_as_long_as_drawn(make_config: MakeConfig) -> None:
    config = make_config(**CHANGES)
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    source, drawn = make_source(config), draw_lengths("web", 200, seed=0)
    for index, expected in enumerate(drawn):
        result = processor.measure(source[index, 0])
        assert result == processor.process(source[index, 0]).lengths
        for name, counts in expected.media.items():
            got = result.counts(name)
            assert len(got) == len(counts)
            # Patches of VISION are half as wide; sides are whole patches.
            wide = 2 if name == "vision" else 1
            for n, m in zip(got, counts, strict=True):
                assert n == pytest.approx(wide * 0.05 * m, rel=0.35, abs=4)
        specs = processor.media.items()
        outputs = sum(spec.outputs(n) for k, spec in specs for n in result.counts(k))
        merged = sum(-(-n // REDUCTION[k]) for k, ns in expected.media.items() for n in ns)
        # The chat template is some tokens more, and so are spaces.
        text = 0.05 * (expected.tokens - merged)
        assert result.total("decoder") - outputs == pytest.approx(text, abs=14)


def test_a_sample_is_the_same_in_every_process(make_config: MakeConfig) -> None:
    config = make_config(**CHANGES)
    source = make_source(config)
    again = pickle.loads(pickle.dumps(source))
    assert again.fingerprint == source.fingerprint != make_source(config, "heldout").fingerprint
    for index in range(5):
        assert again[index, 0] == source[index, 0]
        pairs = zip(again[index, 0].of("image"), source[index, 0].of("image"), strict=True)
        for one, other in pairs:
            np.testing.assert_array_equal(one.load(1), other.load(1))


def test_a_loader_serves_them(make_config: MakeConfig) -> None:
    config = make_config(balance="per_phase", on_error="raise", **CHANGES)
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    consumer = TrainingDemand(WORK)
    with DataLoader(
        make_source(config), processor, config, 0, all_rows(4), None, consumer
    ) as loader:
        microbatch = next(loader)
    assert microbatch.stats.samples > 4
    assert min(microbatch.stats.used.values()) > 0


def test_media_that_cannot_be_made_are_refused(make_config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "lengths.jsonl"
    path.write_text(json.dumps({"tokens": 3, "smell": [4]}))
    config = make_config(source=SOURCE | {"distribution": str(path)})
    with pytest.raises(DataError, match="'smell' are no media that can be made; valid: vision"):
        make_source(config)
