"""What a run reports and saves is of all groups of processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from data.planning.groups.group import HostGroupSpec
from data.planning.stream import LoaderState
from mllm_jax.runtime.run_peers import RunPeers, current_peers, set_peers
from mllm_jax.train.loading.groups import exchange_with_groups, records_of_all, state_of_all
from mllm_jax.train.records.metrics import FigureMeter
from mllm_jax.train.records.step_record import PhaseLoad, StepRecord

#: The group of this process.
OWN = HostGroupSpec(0, 2, (0, 1))


class Told(RunPeers):
    """Four processes in two groups, which say what they are given in turn."""

    def __init__(self, *values: Any) -> None:
        super().__init__()
        self.values, self.asked, self.said = list(values), list[str](), list[Any]()

    def gather_values(self, name: str, value: Any) -> list[Any]:
        self.asked.append(name)
        self.said.append(value)
        other = self.values.pop(0)
        return [value, value, [1, other], [1, other]]


@pytest.fixture
def others() -> Iterator[Any]:
    """Gives this process, which is in group 0, peers that say these values."""
    alone = current_peers()

    def say(*values: Any) -> Told:
        told = Told(*values)
        set_peers(told)
        return told

    yield say
    set_peers(alone)


def record(step: int) -> StepRecord:
    parts = tuple({"decoder": PhaseLoad(2.0, 4.0, own)} for own in (3.0, 2.0))
    return StepRecord(
        step=step,
        loss=1.0,
        learning_rate=0.1,
        gradient_norm=1.0,
        seconds=2.0,
        wait_seconds=0.0,
        used={"tokens": 10},
        capacity={"tokens": 20},
        flops=100.0,
        loads={"decoder": sum((p["decoder"] for p in parts), PhaseLoad())},
        moved_bytes=5.0,
        planning_seconds=0.1,
        microbatch_loads=parts,
        group=OWN,
    )


#: The figures of the other group.
OTHER = {
    "used": {"tokens": 14},
    "capacity": {"tokens": 20},
    "flops": 60.0,
    "moved_bytes": 7.0,
    "planning_seconds": 0.3,
    "microbatch_loads": [
        {"decoder": {"mean": 4.0, "packed": 5.0, "balanced": own}} for own in (1.0, 6.0)
    ],
}


def test_figures_are_of_all_groups(others):
    others([OTHER])
    (joined,) = records_of_all([record(1)])
    assert joined.used == {"tokens": 24}
    assert joined.capacity == {"tokens": 40}
    assert (joined.flops, joined.moved_bytes, joined.planning_seconds) == (160.0, 12.0, 0.3)
    # The heaviest rank of every microbatch, which may be another group's in each.
    assert joined.loads == {"decoder": PhaseLoad(6.0, 10.0, 9.0)}
    assert records_of_all([joined]) == [joined]


def test_processes_ask_each_other_once_for_a_step_and_only_when_it_is_reported(others):
    told = others([OTHER, OTHER], [OTHER])
    meter = FigureMeter(steps=4, every=4, merge_hosts=records_of_all)
    meter.add_step(record(1))
    meter.add_step(record(2))
    assert not told.asked
    assert meter.sums.timed.used == {"tokens": 24}  # of all but the first step
    assert meter.sums.every.used == {"tokens": 48}
    assert len(told.asked) == 1
    meter.add_step(record(3))
    report = meter.take_report()
    assert len(told.asked) == 2
    assert report is not None
    assert report.padding == {"tokens": 1 - 72 / 120}
    assert report.tokens_per_second == 48 / 4


def test_what_is_saved_counts_the_samples_of_all_groups(others):
    other = LoaderState(3, 7, 13, (3,))
    others(other.to_json())
    own = LoaderState(3, 7, 9, (2, 6))
    assert state_of_all(own, HostGroupSpec(0, 2)) == LoaderState(3, 7, 13, (2, 3, 6, 10, 12))
    assert state_of_all(own, HostGroupSpec()) == own


def test_groups_tell_what_their_encoder_microbatches_feed(others):
    told = others({"vision": [[1, 2]], "audio": []})
    found = exchange_with_groups(OWN).gather_consumers({"vision": ((0, 0), (3, 3)), "audio": ()})
    assert found == {"vision": ((0, 2), (3, 3)), "audio": ()}
    assert told.asked == ["what encoder microbatches feed"]


def test_groups_tell_how_many_outputs_are_merged(others):
    """Where one group has none and the other some, all join in the exchange."""
    told = others({"vision": [0, 3, 0]})
    assert exchange_with_groups(OWN).sum_counts({"vision": [2, 0, 0]}) == {"vision": [2, 3, 0]}
    assert told.asked == ["encoder outputs that are merged"]


def test_one_process_of_a_group_speaks_for_it(others):
    told = others({"vision": [[1, 2]]})
    told.index = 1
    exchange_with_groups(OWN).gather_consumers({"vision": ((0, 0),)})
    assert told.said == [None]


def test_one_group_of_all_asks_nobody(others):
    told = others()
    among = exchange_with_groups(HostGroupSpec())
    assert among.gather_consumers({"vision": ((0, 0),)}) == {"vision": ((0, 0),)}
    assert among.sum_counts({"vision": [1]}) == {"vision": [1]}
    assert not told.asked
