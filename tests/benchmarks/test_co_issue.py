"""Tensor-parallel communication hidden by co-issue, compiled for accelerators that are not here."""

from __future__ import annotations

import pytest

from benchmarks.co_issue import TARGETS, measure_target, within_tensor
from mllm_jax.compile.hlo import HloInstruction
from mllm_jax.compile.overlap import loop_share
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import load_config
from mllm_jax.runtime.devices import DeviceError
from scheduling.lowering.bounds import PHASES, ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import IDLE
from scheduling.schedules.task_kinds import B, F, TaskKind
from sharding.grid import JointGrid
from tests.configs import ROOT

CONFIG = ROOT / "configs" / "bench" / "co_issue.yaml"
#: Fewer kinds of fused tasks, narrow and short.
SMALL = (
    "model.decoder.d_model=1024",
    "model.decoder.heads=8",
    "model.decoder.d_ff=4096",
    "model.encoders={}",
    "parallel.encoders={}",
    "schedule.chunks={}",
    "data.budgets={tokens: 2048, segments: 8}",
)


def test_a_step_without_stages_is_refused():
    plans = [
        "parallel.devices=32",
        "parallel.decoder={data: 4, tensor: 8}",
        "data.rows=4",
        "schedule.chunks={}",
    ]
    config = load_config(CONFIG, [*plans, "parallel.encoders.vision={data: 4, tensor: 8}"])
    with pytest.raises(DeviceError, match=r"parallel\.decoder\.stage: 1 has no pipeline"):
        measure_target(config, TARGETS[0], co_issue=True)


def test_groups_within_a_stage_count():
    grid = JointGrid.build(load_config(CONFIG).parallel.plans)
    assert within_tensor(grid, (tuple(range(8)), tuple(range(8, 16))))
    assert within_tensor(grid, ((0, 1, 2, 3),))
    assert not within_tensor(grid, ((0, 8, 16, 24),))
    assert not within_tensor(grid, (tuple(range(32)),))


def test_loops_count_as_often_as_the_schedule_has_them():
    schedule = configure_step(load_config(CONFIG)).schedule
    program = lower_schedule(schedule, "layer")
    frame = ScheduleBounds.of_schedule(program)
    share = loop_share(program, frame)

    def runs(scopes: str) -> float:
        metadata = f', metadata={{op_name="jit(run)/{scopes}"}}'
        return share(HloInstruction("w", "()", "while", "", metadata, False))

    span = schedule.phases[1]
    assert runs("middle_ticks/while") == len(span)
    scan = "middle_ticks/while/body/"
    kinds = {kind: runs(f"{scan}{kind}/while") for kind in frame.kinds[1]}
    ticks = schedule.ticks[span.start : span.stop]
    all_fused = [[(task.kind, task.module) for task in fused] for tick in ticks for fused in tick]
    assert kinds[IDLE] == pytest.approx(all_fused.count([]) / len(all_fused))
    # However fused tasks are cut into parts, each of their tasks runs once.
    for task in {task for fused in all_fused for task in fused}:
        found = sum(share for kind, share in kinds.items() if task in kind.tasks)
        assert found == pytest.approx(sum(task in fused for fused in all_fused) / len(all_fused))
    assert runs(f"{scan}decoder_F+decoder_B/while/body/while") == 1
    assert runs("while") == 1

    syncs = runs(f"{scan}stage_sync/while") * len(ticks)
    assert syncs == pytest.approx(schedule.stage_syncs[span.start : span.stop].sum())
    assert syncs < len(ticks), "all ticks meet: the test shows nothing"
    count = schedule.microbatches
    for scope, times in (("head", count), ("return", count), ("embed", count - 1)):  # one before
        inside = runs(f"{scan}stage_sync/while/body/{scope}/while")
        assert inside * syncs == pytest.approx(times)

    def ends(task: TaskKind, scope: str) -> float:
        """Runs of a loop in fused tasks with an encoder task, over all phases and stages."""
        total = 0.0
        for phase, kinds in zip(PHASES, frame.kinds, strict=True):
            scan = f"{phase}_ticks/while/body/"
            ticks = runs(f"{phase}_ticks/while")
            for kind in kinds:
                if (task, "vision") in kind.tasks:
                    inside = runs(f"{scan}{kind}/while/body/{scope}/while")
                    total += runs(f"{scan}{kind}/while") * inside * ticks * schedule.stages
        return total

    for scope in ("F_first", "F_last"):
        assert ends(F, scope) == pytest.approx(count)
    for scope in ("B_first", "B_last"):
        assert ends(B, scope) == pytest.approx(count)


@pytest.mark.slow
@pytest.mark.tpu_compile
@pytest.mark.timeout(600)
def test_co_issue_hides_more_on_a_tpu():
    pytest.importorskip("libtpu")
    config = load_config(CONFIG, SMALL)
    without, with_it = (measure_target(config, TARGETS[0], co_issue) for co_issue in (False, True))
    assert without["collective_seconds"] == pytest.approx(with_it["collective_seconds"])
    assert with_it["hidden_share"] > 2 * without["hidden_share"]
