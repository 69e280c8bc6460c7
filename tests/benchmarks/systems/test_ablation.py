"""MegaScale's techniques, one after the other."""

from __future__ import annotations

import pytest

from benchmarks.systems.ablation import TECHNIQUES, AblationTable, ablate_techniques
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ConfigError, load_config
from tests.configs import ROOT

CONFIG = ROOT / "configs" / "megascale" / "gpt175b_256.yaml"
#: Fewer layers and microbatches, so that it takes little time.
FEW = ("model.decoder.layers=16", "schedule.chunks.decoder=2", "train.accumulate=16")


@pytest.fixture(scope="module")
def table() -> AblationTable:
    return ablate_techniques(load_config(CONFIG, FEW), load_hardware("a100"))


def test_every_technique_has_a_row_and_none_makes_the_step_slower(table: AblationTable) -> None:
    first, *rows = table.rows
    own = rows[: len(TECHNIQUES)]
    assert [row.name for row in own] == [each.name for each in TECHNIQUES]
    assert sum(row.published or 0 for row in own) == pytest.approx(65.3 - 47.7)
    mfu = first.mfu
    for row, technique in zip(own, TECHNIQUES, strict=True):
        assert row.gain is not None
        assert row.mfu == pytest.approx(mfu + row.gain)
        assert row.gain >= 0 if technique.change else row.gain == 0
        assert row.why
        mfu = row.mfu
    assert 0 < first.mfu < mfu < 100


def test_overlap_and_parallel_blocks_gain(table: AblationTable) -> None:
    gains = {row.name: row.gain or 0.0 for row in table.rows}
    overlaps = [name for name in gains if name.endswith("overlap")]
    assert len(overlaps) == 3
    for name in ("parallel block", *overlaps):
        assert gains[name] > 0.1
    assert gains["without balance"] < 0


def test_techniques_that_are_there_already_are_refused() -> None:
    there = ["model.decoder.parallel_block=true", "model.decoder.window=64"]
    there.append("train.optimizer={kind: lamb}")
    with pytest.raises(ConfigError) as error:
        ablate_techniques(load_config(CONFIG, [*FEW, *there]), load_hardware("a100"))
    assert len(error.value.problems) == 3


def test_the_published_setting_is_near_its_published_baseline_and_on_its_page() -> None:
    rows = ablate_techniques(load_config(CONFIG), load_hardware("a100")).rows
    assert rows[0].mfu == pytest.approx(47.7, abs=1.5)
    page = (ROOT / "docs" / "how-to" / "simulate.md").read_text().splitlines()
    for row in rows:
        assert any(line.startswith("| " + " | ".join(row.cells[:3])) for line in page), row.cells
