"""Groups of hosts are measured as training distributes them, and predicted by the cost model."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import groups
from mllm_jax.config.load import load_config
from tests.configs import ROOT


def test_groups_are_less_even_and_exchange_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "RANKS", (32,))
    picture = tmp_path / "groups.png"
    config = load_config(ROOT / "configs" / "bench" / "balance.yaml")
    alone, pairs, whole = groups.bench_groups(config, picture=str(picture))
    assert [row["hosts"] for row in (alone, pairs, whole)] == [1, 2, 4]
    assert alone["decoder"] > pairs["decoder"] > whole["decoder"] >= 1
    assert alone["lengths"] == alone["samples"] == alone["outputs"] == 0
    # All hosts of a group are told the same, but their own.
    assert whole["lengths"] == pytest.approx(3 * pairs["lengths"], rel=1e-3)
    assert min(pairs["samples"], whole["samples"], pairs["outputs"], whole["outputs"]) > 0
    for row in (alone, pairs, whole):
        assert row["predicted"] == pytest.approx(row["step"], rel=0.15)
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("hosts", "sizes"),
    [(1, [1]), (4, [1, 2, 4]), (6, [1, 2, 6]), (40, [1, 2, 4, 8, 20, 40])],
)
def test_sizes_divide_the_hosts_and_double(hosts: int, sizes: list[int]) -> None:
    assert groups.group_sizes(hosts) == sizes
