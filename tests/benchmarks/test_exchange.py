"""The benchmark of the exchanges gives what a lookup gives, beside its predictions."""

from typing import Any

import pytest

from benchmarks import exchange
from benchmarks.exchange import bench_exchange
from sharding.exchange_kinds import EXCHANGES
from tests.scheduling.workloads import hardware


def test_every_exchange_is_measured_beside_its_prediction(
    small_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_measure_links", lambda *_: hardware(platform="cpu"))
    sizes = {"sparse": (8, 32), "dense": (32, 16)}
    rows = bench_exchange(small_config(), lambda line: None, sizes, 8, repetitions=1)
    assert [(row["workload"], row["exchange"]) for row in rows] == [
        (what, name) for what in sizes for name in EXCHANGES
    ]
    assert [row["exchange"] for row in rows if row["chosen"]] == ["gather", "reduce_scatter"]
    assert all(row["difference"] == 0 for row in rows)
    assert all(min(row["predicted"], row["measured"], row["ratio"]) > 0 for row in rows)
