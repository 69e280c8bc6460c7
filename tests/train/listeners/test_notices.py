"""Notices about batches: each comes once, and only where it is due."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data.planning.groups.group import WHOLE, HostGroupSpec
from data.planning.row_assignment import Loads
from data.planning.stream import LoaderState
from mllm_jax.train.events import Phase, StepEnded
from mllm_jax.train.listeners import notices
from mllm_jax.train.listeners.notices import IDLE, IdleParts, SlowData, StepNotices, UnfitSchedules
from mllm_jax.train.records.metrics import StepsReport
from mllm_jax.train.step.batch_placement import PlacedBatch
from sharding.grid import MeshView
from tests.configs import config


def experiment(samples: int | None = None, lookahead: int = 8) -> Any:
    """Four rows on two ranks."""
    view = MeshView(data=("data",), sizes=(("data", 2),))
    own = SimpleNamespace(
        data=config().data.model_copy(update={"samples": samples, "lookahead": lookahead})
    )
    step = SimpleNamespace(program=SimpleNamespace(views={"vision": view}))
    return SimpleNamespace(step=step, shapes=set(), config=own)


def microbatch(
    dearest: tuple[float, str, int] = (1.0, "a.png", 0),
    offered: int = 16,
    samples: int = 4,
    items: int = 4,
    tokens: int = 8,
    group: HostGroupSpec = WHOLE,
) -> Any:
    rows = np.array([1.0, 1.0, 9.0, 1.0])
    stats = SimpleNamespace(
        loads={"vision": Loads(rows, rows, (dearest[0], 0, dearest[2]))},
        most_expensive={"vision": dearest},
        lengths={"vision": np.ones(items)},
        capacity={"tokens": tokens},
        samples=samples,
        offered=offered,
        group=group,
    )
    return SimpleNamespace(stats=stats, state=LoaderState(0))


def messages(caplog: pytest.LogCaptureFixture, notice: StepNotices, *steps: list[Any]) -> list[str]:
    caplog.clear()
    with caplog.at_level("INFO", "mllm_jax"):
        for step in steps:
            notice(Phase("read", 1))
            notice(Phase("read", 1, 0.1, step))
    return [record.getMessage() for record in caplog.records]


def test_a_sample_that_no_balancing_helps_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    notice, giant = StepNotices(experiment()), microbatch((9.0, "big.png", 2))
    (message,) = messages(caplog, notice, [giant], [giant])
    assert "big.png alone is 1.50 times the mean work of a rank of vision; rank 1" in message
    assert not messages(caplog, notice, [microbatch((5.9, "small.png", 2))])
    view = MeshView(data=("data",), sizes=(("data", 4),))  # of which the group has half
    both, group = experiment(), HostGroupSpec(1, 2, rows={"vision": (4, 5, 6, 7)})
    both.step.program.views["vision"] = view
    (message,) = messages(caplog, StepNotices(both), [microbatch((9.0, "big.png", 2), group=group)])
    assert "big.png alone is 1.50 times the mean work of a rank of vision; rank 3" in message
    assert not messages(caplog, notice, [microbatch((9.0, "only.png", 2), items=1)])


def test_many_giants_are_not_all_named(caplog: pytest.LogCaptureFixture) -> None:
    steps = [[microbatch((9.0, f"{i}.png", 2))] for i in range(3 * notices.GIANTS)]
    assert len(messages(caplog, StepNotices(experiment()), *steps)) == notices.GIANTS


def test_other_processes_tell_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "is_primary", lambda: False)
    assert not messages(caplog, StepNotices(experiment()), [microbatch((9.0, "big.png", 2))])


def test_a_group_that_waits_for_others_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    step = [microbatch(samples=0, offered=0, items=0, group=HostGroupSpec(0, 2, (0,)))] * 2
    for samples in (None, 16):
        (message,) = messages(caplog, StepNotices(experiment(samples)), step, step)
        assert message.startswith("the rows of this group of hosts are padding in a step: it has")


def test_steps_of_too_few_samples_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    notice, step = StepNotices(experiment(samples=9)), [microbatch(), microbatch()]
    (message,) = messages(caplog, notice, step, step)
    assert "holds 8 of its 9 samples" in message
    assert not messages(caplog, StepNotices(experiment(samples=8)), step)


def test_a_short_look_ahead_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    step = [microbatch(offered=4)]
    (message,) = messages(caplog, StepNotices(experiment(lookahead=4)), step, step)
    assert "all 4 samples on offer had room in one step; raise data.lookahead" in message
    assert not messages(caplog, StepNotices(experiment(samples=4)), step)


def test_a_step_that_is_not_full_at_the_end_of_an_epoch_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    step = [microbatch(samples=4, offered=7), microbatch(samples=3, offered=7)]
    for samples in (None, 9):
        (message,) = messages(caplog, StepNotices(experiment(samples)), step, step)
        assert message.startswith("a step holds 7 samples, the last of an epoch, and its rows have")
    assert not messages(caplog, StepNotices(experiment()), [microbatch(samples=3, offered=7)])


def test_new_shapes_are_told_but_the_first(caplog: pytest.LogCaptureFixture) -> None:
    notice, steps = StepNotices(experiment()), [[microbatch(tokens=n)] for n in (8, 16, 8, 16, 24)]
    told = messages(caplog, notice, *steps)
    assert told == [
        f"compiling the step for positions of a microbatch: tokens {n}" for n in (16, 24)
    ]


def report(wait: float | None, planning: float = 0.0) -> StepsReport:
    figures: dict[str, Any] = {"planning_seconds": planning, "step_seconds": 1.0}
    return StepsReport(3, 9, 1.0, 0.1, 1.0, None, None, {}, wait, 1.0, **figures)


@pytest.mark.parametrize(
    ("workers", "planning", "advice"),
    [
        (0, 0.9, "data.workers is 0, so a thread of the training process makes the batches: set "),
        (1, 0.2, "data.workers is 1 on 4 cores: raise it"),
        (1, 0.8, "planning a step takes 0.8 s in each of data.workers=1, so more of them do not"),
        (4, 0.2, "there are no more cores (4): make images smaller"),
    ],
)
def test_waiting_for_data_is_told_once_with_what_helps(
    workers: int, planning: float, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    tell = SlowData(config(data__workers=workers).data, cores=4)
    with caplog.at_level("WARNING", "mllm_jax"):
        for wait in (None, 0.0, 0.09, 0.34, 0.5):
            tell(report(wait, planning))
    (record,) = caplog.records
    assert record.getMessage().startswith("34 % of a step is waiting for data; ")
    assert advice in record.getMessage()


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (9, 4), (64, 4)]
)
def test_half_of_the_cores_are_advised_and_four_at_most(
    cores: int, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    SlowData(config(data__workers=0).data, cores)(report(0.5))
    assert caplog.messages[-1].endswith(f"set data.workers={workers}")


def test_a_share_at_the_limit_and_other_processes_are_not_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = SlowData(config(data__workers=0).data, 4)
    tell(report(notices.WAITING))
    monkeypatch.setattr(notices, "is_primary", lambda: False)
    tell(report(0.9))
    assert not caplog.messages
    monkeypatch.setattr(notices, "is_primary", lambda: True)
    tell(report(notices.WAITING + 0.01))
    assert len(caplog.messages) == 1


def placed(step: int, reason: str = "") -> Phase:
    batch: Any = None
    return Phase("place", step, 0.0, PlacedBatch(batch, {}, reason))


def test_the_first_step_that_spills_is_told_with_the_buffer_and_what_helps(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice, reason = UnfitSchedules(), "vision: slots of saved: 3 do not fit the compiled step"
    with monkeypatch.context() as other:
        other.setattr(notices, "is_primary", lambda: False)
        notice(placed(1, reason))
    for event in (Phase("place", 2), placed(2), placed(3, reason), placed(4, reason)):
        notice(event)
    (told,) = [record.getMessage() for record in caplog.records]
    for part in (
        "step 3",
        reason,
        "remat: full",
        "schedule.independent_microbatches",
        "spilled_steps",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("norms", "steps", "told"),
    [
        (
            [{"decoder": 1.0, "vision.connector": 0.0}] * 12,
            40,
            "vision.connector trains, .* to 12:",
        ),
        ([{"decoder": 1.0, "vision": 0.0, "audio": 0.0}] * 3, 3, "audio, vision trains, .* to 3:"),
        ([{"vision": 0.0}] * 8 + [{"vision": 1e-30}] + [{"vision": 0.0}] * 9, 18, None),
        ([{"vision": 0.0}] * 8, 40, None),  # too few steps to say so
        ([{"vision": float("nan")}, {"vision": 2.0}] * 8, 16, None),
    ],
)
def test_a_part_that_has_no_gradient_is_named_once(norms, steps, told, caplog):
    idle = IdleParts(0, steps)
    for step, own in enumerate(norms, 1):
        idle(
            StepEnded(step, 1.0, (), {"part_norms": own}, 0.1),
            is_reported=step % 3 == 0 or step == steps,
        )
        assert len(caplog.records) <= (step >= min(IDLE, steps))
    assert len(caplog.records) == bool(told)
    assert told is None or re.search(told, caplog.text)
