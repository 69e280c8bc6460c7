"""Calibration of modules on slices: recorded calls, the programs of a step, the whole command."""

from __future__ import annotations

import os
from concurrent.futures import Future
from itertools import chain, permutations, product
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mllm_jax.calibrate.slices import measure, part
from mllm_jax.calibrate.slices.programs import TaskName, apart, in_two
from mllm_jax.calibrate.slices.recorded import CallRecorder, RunTimes, time_run
from mllm_jax.calibrate.timing import lower_quartile
from mllm_jax.config.hardware import read_slice_costs
from mllm_jax.config.load import ExperimentConfig
from scheduling.costs.hardware import HardwareError
from scheduling.costs.slice_fit import CountedTask, TimedTask
from scheduling.costs.slices import Phase, RunningTask
from tests.configs import ONE_DEVICE, config


class Adder:
    """Adds to a total, whose memory it takes."""

    width = 3

    def __init__(self) -> None:
        self.add = jax.jit(lambda total, x: (total + x, x.sum()), donate_argnums=0)


def test_a_recorded_call_runs_again_and_again_with_what_it_takes() -> None:
    total, x = jnp.zeros(1024), jnp.ones(1024)
    recorder = CallRecorder(uncounted=())
    watched = recorder.watch(Adder(), "adder")
    assert watched.width == 3
    first, _ = watched.add(total, x)
    watched.add(first, x)
    call = recorder.calls["adder"]["add"]
    assert call.donated == (True, False)
    for _ in range(2):
        added, of_x = call.with_own_memory()()
        assert added[0] == 1
        assert of_x == 1024
    assert call.moved_bytes == 3 * 4096 + 4
    assert call.result_bytes == 4096


def test_arrays_of_a_batch_do_not_count_as_moved() -> None:
    total, x = jnp.zeros(1024), jnp.ones(1024)
    recorder = CallRecorder(uncounted={"rows": x})
    recorder.watch(Adder(), "adder").add(total, x)
    assert recorder.calls["adder"]["add"].moved_bytes == 2 * 4096 + 4


def test_a_run_has_the_seconds_of_the_host_and_all() -> None:
    run = time_run(lambda: jnp.ones(8))
    assert 0 < run.host <= run.seconds == run.end - run.begin


def test_a_quarter_is_below_the_lower_quartile() -> None:
    assert lower_quartile([8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]) == 3.0


def one_encoder(**changes: Any) -> ExperimentConfig:
    """A decoder and an encoder of images with a layer each."""
    own = {
        "model__encoders": {
            "vision": {
                "family": "siglip",
                "layers": 1,
                "d_model": 16,
                "heads": 2,
                "d_ff": 32,
                "patch": [16, 8],
                "channels": 1,
                "grid": [1, 8],
            }
        },
        "parallel": {"devices": 1, "decoder": {}, "encoders": {"vision": {}}},
        "data__budgets": {"tokens": 64, "segments": 8, "vision": 64},
        "data__rows": 2,
    }
    return config(**{**own, **changes})


def test_every_module_has_a_device_or_all_encoders_have_one() -> None:
    model = config(parallel=ONE_DEVICE).model
    assert apart(model) == {"decoder": (0,), "vision": (1,), "audio": (2,)}
    assert in_two(model) == {"decoder": (0,), "vision": (1,), "audio": (1,)}


@pytest.mark.slow
def test_tasks_of_a_step_run_alone_and_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "REPETITIONS", 2)
    own = one_encoder()
    compiled = part._CompiledTasks.build(own, apart(own.model), 0.5)
    # Forward and backward of a decoder whose losses are those of microbatches are one program.
    phases: dict[str, tuple[Phase, ...]] = {
        "decoder": ("backward",),
        "vision": ("forward", "backward"),
    }
    tasks: set[TaskName] = {
        (module, phase) for module in phases for phase in (*phases[module], "update")
    }
    assert {rows: programs.keys() for rows, programs in compiled.programs.items()} == {
        1.0: tasks,
        0.5: tasks,
    }
    programs = compiled.programs[1.0]
    assert [name for name, program in programs.items() if program.is_fused] == [
        ("decoder", "backward")
    ]
    forward = programs["vision", "forward"].flops
    assert programs["vision", "backward"].flops == 2 * forward
    assert compiled.programs[0.5]["vision", "forward"].flops == forward / 2
    alone = compiled.time_alone()
    assert {timed.task for timed in alone.times} == {
        RunningTask(module, phase, 0.5, rows) for module, phase in tasks for rows in (0.5, 1.0)
    }
    # Outputs of two rows of images, as wide as the decoder, in float32.
    assert alone.output_bytes["vision"] == 2 * 64 * 16 * 4
    full, half = (
        {name: [RunningTask(name, each, 0.5, rows) for each in phases[name]] for name in phases}
        for rows in (1.0, 0.5)
    )
    expected = [*product(full["decoder"], full["vision"])]
    expected += chain.from_iterable(zip(full[name], half[name], strict=True) for name in phases)
    pairs = [(timed.task, timed.concurrent) for timed in compiled.time_pairs(alone)]
    assert sorted(pairs) == sorted([*expected, *((b, a) for a, b in expected)])


def test_the_least_of_every_round_counts() -> None:
    task = RunningTask("decoder", "forward", 0.5)
    rounds = [
        part.TimedPart(
            {("decoder", "forward"): CountedTask(1.0, 2.0, host)}, {}, (TimedTask(task, seconds),)
        )
        for host, seconds in ((0.2, 3.0), (0.1, 5.0))
    ]
    least = part.least_of(rounds)
    assert least.counts == {("decoder", "forward"): CountedTask(1.0, 2.0, 0.1)}
    assert least.times == (TimedTask(task, 3.0),)


@pytest.mark.parametrize(("seconds", "count"), [(0.001, 8), (0.1, 5), (9.0, 2)])
def test_long_tasks_run_less_often(seconds: float, count: int) -> None:
    assert part._repetitions(8, seconds) == count


def test_a_pair_takes_as_much_longer_as_than_just_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has become twice as slow, and a task takes 1.5 times as long beside another."""
    monkeypatch.setattr(part, "_time_again", lambda program, seconds: 2 * seconds)
    runs = [RunTimes(float(n), n + 3.0, 0.1) for n in range(4)]
    monkeypatch.setattr(part, "_run_together", lambda programs, alone: [runs, runs])
    assert part._slow_down([None, None], [1.0, 2.0]) == [1.5, 0.75]  # type: ignore[list-item]


@pytest.mark.slow
def test_the_file_has_costs_of_all_tasks(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "runs" / "slices.json"
    own = one_encoder()
    found = measure.calibrate_slices(own, path, told.append)
    costs = read_slice_costs(path)
    assert costs == found.fitted.costs
    for module in ("decoder", "vision"):
        for quota in (0.5, 0.75, 1.0):
            assert costs.seconds(RunningTask(module, "forward", quota)) > 0
    assert {(pair.module, pair.concurrent) for pair in costs.pairs} == {
        *permutations(("decoder", "vision")),
        *(("decoder", "decoder"), ("vision", "vision")),
    }
    # Half the rows of five tasks on a slice; a forward beside a backward.
    assert len(found.checks) == 5 + 2
    assert all(row["measured"] > 0 for row in found.checks)
    assert told


def test_what_cannot_be_measured_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = one_encoder()
    with pytest.raises(HardwareError, match=r"slices\.yaml: .* to a file NAME\.json"):
        measure.calibrate_slices(own, tmp_path / "slices.yaml", print)
    gpu = own.model_copy(update={"parallel": own.parallel.model_copy(update={"platform": "gpu"})})
    with pytest.raises(HardwareError, match=r"slices of gpu devices .*; valid: cpu"):
        measure.calibrate_slices(gpu, tmp_path / "slices.json", print)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(HardwareError, match=r"2 slices of a CPU need a core each, and 1 is there"):
        measure.calibrate_slices(own, tmp_path / "slices.json", print)


def test_a_process_that_fails_is_told_and_not_one_that_waited_for_it() -> None:
    with pytest.raises(HardwareError, match="that one"):
        measure._raise_first([BrokenBarrierError(), None, HardwareError("that one")])
    measure._raise_first([None, None])


def test_no_process_waits_for_one_that_has_failed() -> None:
    class Meeting:
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    meeting, done = Meeting(), Future[None]()
    done.set_result(None)
    measure._release_others(meeting, done)  # type: ignore[arg-type]
    assert not meeting.aborted
    failed = Future[None]()
    failed.set_exception(RuntimeError())
    measure._release_others(meeting, failed)  # type: ignore[arg-type]
    assert meeting.aborted
