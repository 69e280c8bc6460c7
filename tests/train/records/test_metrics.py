"""Figures of a window and of a run, the log line, and the files that keep them."""

from __future__ import annotations

import io
import json
import math
import resource
import shutil
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from rich.console import Console

from data.planning.stream import LoaderState
from mllm_jax.console import print_json, print_table, replace_non_finite
from mllm_jax.runtime.records import RecordSchema, read_record, read_record_lines, write_atomically
from mllm_jax.train.records.forms import SUMMARY
from mllm_jax.train.records.forms import metrics_schema as form
from mllm_jax.train.records.metrics import FigureMeter, FigureTotals, FigureWindow, StepsReport
from mllm_jax.train.records.sinks import (
    ConsoleSink,
    JsonlSink,
    MetricSinks,
    write_summary,
)
from mllm_jax.train.records.step_record import PhaseLoad, StepRecord
from mllm_jax.train.state.progress import Progress


def record(step: int, **changes: Any) -> StepRecord:
    values: dict[str, Any] = {
        "step": step,
        "loss": 2.0,
        "learning_rate": 2.9e-3,
        "gradient_norm": 1.0,
        "seconds": 0.5,
        "wait_seconds": 0.1,
        "used": {"tokens": 90, "vision": 40},
        "capacity": {"tokens": 100, "vision": 50},
        "flops": 1e9,
    }
    return StepRecord(**values | changes)


def reports(meter: FigureMeter, records: list[StepRecord]) -> list[StepsReport]:
    return [report for r in records if (report := meter.add_step(r)) is not None]


REPORT = StepsReport(
    step=120,
    steps=1000,
    loss=0.84213,
    learning_rate=2.9e-3,
    gradient_norm=0.514,
    tokens_per_second=38123.0,
    mfu=0.2131,
    padding={"tokens": 0.041, "vision": 0.06, "audio": 0.052},
    wait_share=0.003,
    eta_seconds=102.4,
)


def test_the_log_line_reads_as_practitioners_expect() -> None:
    assert str(REPORT) == (
        "step  120/1000  loss 0.8421  lr 2.9e-03  grad 0.51  38.1k tok/s  mfu 21.3%  eta 1:42"
    )


def test_the_log_line_shows_the_worst_of_what_deviates() -> None:
    odd = {"before": 9.0, "after": 1.06}
    even = {"before": 1.3, "after": 1.05}
    padding = {"tokens": 0.10, "vision": 0.204, "audio": 0.3}
    deviating = replace(
        REPORT,
        wait_share=0.651,
        padding=padding,
        imbalance={"decoder": even, "vision": odd},
        skipped=7,
    )
    line = str(deviating)
    assert line.startswith(str(REPORT))
    assert line.endswith("eta 1:42  wait 65%  padding audio 30%  imbalance vision 1.06  skipped 7")
    usual: dict[str, Any] = {
        "wait_share": 0.05,
        "padding": {"tokens": 0.1},
        "imbalance": {"decoder": even},
    }
    assert str(replace(REPORT, **usual)) == str(REPORT)


@given(
    st.integers(1, 10**6),
    st.floats(0, 20),
    st.floats(0, 1e4),
    st.floats(0, 1e8),
    st.dictionaries(st.sampled_from(["tokens", "vision", "audio"]), st.floats(0, 0.1)),
    st.dictionaries(st.sampled_from(["decoder", "vision", "audio"]), st.floats(1, 1.05)),
)
def test_a_usual_log_line_has_at_most_120_columns(
    step: int, loss: float, norm: float, rate: float, padding: Any, imbalance: Any
) -> None:
    loads = {name: {"before": 3.0, "after": after} for name, after in imbalance.items()}
    usual: dict[str, Any] = {
        "padding": padding,
        "imbalance": loads,
        "wait_share": 0.01,
        "eta_seconds": 1e6,
    }
    figures: dict[str, Any] = {"step": step, "steps": 10**6, "loss": loss, "gradient_norm": norm}
    report = replace(REPORT, **figures, tokens_per_second=rate, **usual)
    assert len(str(report)) <= 120
    text = io.StringIO()
    ConsoleSink(Console(file=text)).write_report(report)  # a file, which rich takes for 80 columns
    assert text.getvalue() == f"{report}\n"


def test_what_is_not_known_is_left_out_of_the_line() -> None:
    line = str(StepsReport(1, 9, 1.0, 1e-3, 1.0, None, None, {}, None, None))
    assert line == "step 1/9  loss 1.0000  lr 1.0e-03  grad 1.00"


@given(st.integers(1, 40), st.integers(1, 12))
def test_reports_cover_every_step_once(steps: int, every: int) -> None:
    meter = FigureMeter(steps, every=every)
    found = reports(meter, [record(i, loss=float(i)) for i in range(1, steps + 1)])
    ends = [report.step for report in found]
    assert ends == [i for i in range(1, steps + 1) if i % every == 0 or i == steps]
    starts = [1, *[end + 1 for end in ends[:-1]]]
    for start, report in zip(starts, found, strict=True):
        assert report.loss == pytest.approx((start + report.step) / 2)
    assert meter.take_report() is None


@given(
    st.integers(2, 14), st.integers(1, 5), st.sets(st.integers(1, 13)), st.sets(st.integers(1, 14))
)
def test_a_report_does_not_depend_on_where_a_run_was_cut(
    steps: int, every: int, cuts: set[int], bad: set[int]
) -> None:
    """Means, updates left out and loads of experts are those without a cut, to the bit."""

    def step(number: int) -> StepRecord:
        loss = math.nan if number in bad else 1 / number
        loads = np.array([[0.1 * number, 0.2], [0.3, 1 / number]])
        own = {"aux": {"z": 0.1 * number}, "expert_layers": (1, 3), "expert_loads": loads}
        used = {"tokens": number, "vision": number // 2}
        return record(number, loss=loss, skips=True, used=used, **own)

    def taken(stops: set[int]) -> list[StepsReport]:
        progress, found = Progress(0, LoaderState(0)), []
        meter = FigureMeter(steps, every=every)
        for number in range(1, steps + 1):
            found += reports(meter, [step(number)])
            if number in stops:
                progress.step = number
                progress.figures, progress.window = meter.sums, meter.since_report
                saved = json.loads(json.dumps(progress.to_json()))
                progress = Progress.from_json(saved)
                meter = FigureMeter(steps, None, every, progress.figures, window=progress.window)
        return found

    timed = {"tokens_per_second", "wait_share", "eta_seconds", "step_seconds"}
    timed |= {"place_seconds", "device_wait_seconds"}
    whole, cut = (
        [{k: v for k, v in asdict(own).items() if k not in timed} for own in taken(stops)]
        for stops in (set[int](), cuts)
    )
    assert str(cut) == str(whole)  # not numbers are not equal to themselves


def test_progress_of_earlier_versions_has_no_window() -> None:
    saved = Progress(3, LoaderState(0)).to_json()
    del saved["window"], saved["skipped_in_row"]
    assert Progress.from_json(saved).window == FigureWindow()


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=20))
def test_rates_leave_the_compile_of_the_first_step_out(seconds: list[float]) -> None:
    meter = FigureMeter(len(seconds), peak_flops=1e12, every=100)
    records = [record(i + 1, seconds=s, wait_seconds=s / 4) for i, s in enumerate(seconds)]
    (report,) = reports(meter, records)
    timed = sum(seconds[1:])
    rate = 90 * (len(seconds) - 1) / timed
    assert report.tokens_per_second == pytest.approx(rate)
    assert report.mfu == pytest.approx(1e9 * (len(seconds) - 1) / timed / 1e12)
    assert report.wait_share == pytest.approx(0.25)
    assert report.padding == pytest.approx({"tokens": 0.1, "vision": 0.2})
    assert meter.summary_figures()["tokens_per_second"] == pytest.approx(rate)


def test_the_first_step_alone_has_no_rates() -> None:
    (report,) = reports(FigureMeter(10, every=1), [record(1)])
    assert report.tokens_per_second is report.eta_seconds is report.wait_share is None
    assert report.loss == 2.0


def test_a_resumed_run_counts_from_where_it_stands() -> None:
    meter = FigureMeter(10, every=2)
    found = reports(meter, [record(i) for i in range(5, 11)])
    assert [report.step for report in found] == [6, 8, 10]
    assert found[0].eta_seconds == pytest.approx(0.5 * 4)
    assert found[-1].eta_seconds == 0


def test_totals_have_the_keys_of_the_summary() -> None:
    meter = FigureMeter(3, every=1)
    reports(meter, [record(1, seconds=99.0), record(2), record(3)])
    totals = meter.summary_figures()
    assert totals["tokens_per_second"] == pytest.approx(180)
    assert totals["padding"] == pytest.approx({"tokens": 0.1, "vision": 0.2})
    assert totals["data_wait_share"] == pytest.approx(0.2)
    assert totals["mfu"] is None


#: Figures of a summary that are seconds, or over seconds.
OF_TIME = (
    *("tokens_per_second", "planning_seconds", "data_wait_share"),
    *("place_seconds", "device_wait_seconds", "mfu"),
)


@given(st.data(), st.integers(2, 12), st.integers(1, 5))
def test_totals_do_not_depend_on_where_a_run_was_cut(
    data: st.DataObject, steps: int, every: int
) -> None:
    """Nor does what is not learnt of time depend on the step that compiles."""
    amounts = st.integers(0, 50)
    records = [
        record(
            step,
            used={"tokens": data.draw(amounts), "vision": data.draw(amounts)},
            capacity={"tokens": 50, "vision": 50},
            moved_bytes=data.draw(st.floats(0, 1e6)),
            loads={"decoder": PhaseLoad(*data.draw(st.tuples(*[st.floats(0.1, 9)] * 3)))},
            independent_microbatches={"vision": data.draw(amounts)},
            is_fallback=data.draw(st.booleans()),
        )
        for step in range(1, steps + 1)
    ]
    cuts = sorted(data.draw(st.sets(st.integers(1, steps - 1))))
    kept = FigureTotals()
    for begin, end in pairwise([0, *cuts, steps]):
        meter = FigureMeter(steps, every=every, total=kept)
        reports(meter, records[begin:end])
        kept = TypeAdapter(FigureTotals).validate_json(json.dumps(asdict(meter.sums)))
    whole = FigureMeter(steps, every=every)
    reports(whole, records)
    found, expected = meter.summary_figures(), whole.summary_figures()
    assert set(OF_TIME) <= found.keys()
    assert {k: v for k, v in found.items() if k not in OF_TIME} == {
        k: v for k, v in expected.items() if k not in OF_TIME
    }
    assert meter.sums.every == whole.sums.every
    assert meter.sums.timed.steps == steps - len(cuts) - 1


def test_imbalance_weighs_steps_by_their_work() -> None:
    """A light step that is uneven costs less time than a heavy one."""
    meter = FigureMeter(steps=3, every=3)
    loads = [PhaseLoad(9.0, 9.0, 9.0), PhaseLoad(1.0, 3.0, 2.0), PhaseLoad(3.0, 5.0, 3.0)]
    (report,) = reports(
        meter, [record(i + 1, loads={"decoder": load}) for i, load in enumerate(loads)]
    )
    assert report.imbalance == {"decoder": {"before": 17 / 13, "after": 14 / 13}}
    assert ("imbalance", "text 1.08") in report.log_fields()
    assert meter.summary_figures()["imbalance"] == report.imbalance
    again = TypeAdapter(FigureTotals).validate_json(json.dumps(asdict(meter.sums)))
    assert again == meter.sums
    (silent,) = reports(FigureMeter(steps=1), [record(1)])
    assert "imbalance" not in dict(silent.log_fields())
    (single,) = reports(FigureMeter(steps=1), [record(1, loads={"decoder": PhaseLoad(1, 1, 1)})])
    assert "imbalance" not in dict(single.log_fields())
    assert PhaseLoad().imbalance == {"before": 1.0, "after": 1.0}


def test_tokens_of_expert_ranks_stand_beside_the_work_of_phases() -> None:
    """The two ranks of a layer's experts wait for each other; a step without numbers counts not."""
    meter = FigureMeter(steps=3, every=3)
    loads = {"decoder": PhaseLoad(1.0, 3.0, 1.2)}
    steps = [[[2, 2, 1, 1], [0, 1, 3, 2]], [[1, 1, 1, 1], [3, 0, 0, 0]], np.full((2, 4), np.nan)]
    shared = {"loads": loads, "expert_layers": (0, 1), "expert_ranks": 2}
    (report,) = reports(
        meter, [record(i + 1, expert_loads=np.array(own), **shared) for i, own in enumerate(steps)]
    )
    after = (4 + 5 + 2 + 3) / (3 + 3 + 2 + 1.5)
    assert report.imbalance["expert ranks"] == pytest.approx({"before": after, "after": after})
    fields = dict(report.log_fields())
    assert (fields["imbalance"], fields["expert ranks"]) == ("text 1.20", f"{after:.2f}")
    alone = record(1, expert_loads=np.array(steps[0]), **shared | {"expert_ranks": 1})
    (report,) = reports(FigureMeter(steps=1), [alone])
    assert "expert ranks" not in report.imbalance


def test_a_loss_on_the_device_is_read_when_reported() -> None:
    read: list[int] = []

    class Lazy:
        def __init__(self, step: int) -> None:
            self.step = step

        def __float__(self) -> float:
            read.append(self.step)
            return 1.0

    meter = FigureMeter(4, every=4)
    for step in (1, 2, 3):
        meter.add_step(record(step, loss=Lazy(step), targets=Lazy(step)))
    assert read == []
    meter.add_step(record(4, loss=Lazy(4), targets=Lazy(4)))
    assert sorted(set(read)) == [1, 2, 3, 4]


def test_mfu_counts_the_head_of_targets_alone() -> None:
    meter = FigureMeter(2, peak_flops=1e12, every=2)
    (report,) = reports(meter, [record(i, head_flops=1e8, targets=30 * i) for i in (1, 2)])
    assert report.mfu == pytest.approx((1e9 + 60 * 1e8) / 0.5 / 1e12)
    assert meter.summary_figures()["mfu"] == pytest.approx(report.mfu)


def open_metrics(folder: Path, text: io.StringIO, **changes: Any) -> MetricSinks:
    options = {"tensorboard": False, "primary": True, "resumed_step": 0}
    return MetricSinks.open(folder, Console(file=text, width=40), **options | changes)


def test_console_and_file_get_each_report(tmp_path: Path) -> None:
    text = io.StringIO()
    with open_metrics(tmp_path / "run", text) as metrics:
        metrics.write_report(REPORT)
        # Each line is on disk at once.
        (line,) = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        metrics.log_values(120, {"evaluate/vision": 0.975})
    assert text.getvalue().splitlines() == [str(REPORT), "step 120  evaluate/vision 0.975"]
    assert json.loads(line)["padding"] == dict(REPORT.padding)
    assert json.loads(line)["loss"] == REPORT.loss


def test_only_process_0_writes(tmp_path: Path) -> None:
    text = io.StringIO()
    with open_metrics(tmp_path / "run", text, primary=False) as metrics:
        metrics.write_report(REPORT)
    assert text.getvalue() == ""
    assert not (tmp_path / "run").exists()


def test_tensorboard_files_are_written(tmp_path: Path) -> None:
    with open_metrics(tmp_path, io.StringIO(), tensorboard=True) as metrics:
        metrics.write_report(REPORT)
    (events,) = (tmp_path / "tensorboard").iterdir()
    content = events.read_bytes()
    assert b"train/loss" in content
    assert b"padding/text" in content


@given(st.integers(0, 12), st.integers(1, 12), st.booleans())
def test_a_resumed_run_keeps_each_step_once(
    tmp_path_factory: pytest.TempPathFactory, resumed: int, died: int, torn: bool
) -> None:
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    first = JsonlSink(path)
    for step in range(1, died + 1):
        first.log_values(step, {"loss": 1.0})
    first.close()
    if torn:
        path.write_text(path.read_text() + '{"step": 3, "lo')
    second = JsonlSink(path, resumed_step=resumed)
    for step in range(resumed + 1, 13):
        second.log_values(step, {"loss": 2.0})
    second.close()
    steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert steps == [s for s in range(1, 13) if s <= min(died, resumed) or s > resumed]


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_bit_that_flips_in_a_file_costs_its_lines_alone(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    first = JsonlSink(path)
    for step in range(1, 6):
        first.log_values(step, {"loss": 1.25})
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    JsonlSink(path, resumed_step=6).log_values(7, {"loss": 1.5})
    kept = read_record_lines(path, form)
    assert not kept.damage
    assert kept.values[-1] == {"step": 7, "loss": 1.5}
    assert [line for line in kept.values[:-1] if line["loss"] != 1.25] == []
    steps = [line["step"] for line in kept.values[:-1]]
    assert steps == sorted({*steps})
    assert len(steps) >= 4


def test_damaged_lines_are_told_once_with_their_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n\xff{"step": 2}\n{"step": "3"}\n[4]\n{"step": 5}\n{"step"')
    JsonlSink(path, resumed_step=5)
    (told,) = caplog.messages
    assert told == (
        f"{tmp_path}: metrics.jsonl is damaged, and left out: line 2 (it is no JSON), line 3 (step "
        "is of another type), line 4 (it is no JSON object)"
    )
    assert read_record_lines(path, form).values == [{"step": 1}, {"step": 5}]
    caplog.clear()
    JsonlSink(path, resumed_step=5)
    assert caplog.messages == []


def test_infinite_numbers_become_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"a": math.nan, "b": [1.0, math.inf], "c": {"d": -math.inf}, "e": 3, "f": "x"}
    expected = {"a": None, "b": [1.0, None], "c": {"d": None}, "e": 3, "f": "x"}
    assert replace_non_finite(values) == expected
    print_json(values)
    assert json.loads(capsys.readouterr().out) == expected
    write_summary(tmp_path / "summary.json", values)
    assert read_record(tmp_path / "summary.json", RecordSchema({})) == expected


def test_a_failed_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.json"
    write_summary(path, {"steps": 1})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mllm_jax.runtime.records.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "{}")
    assert read_record(path, SUMMARY) == {"steps": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_tables_are_never_cut() -> None:
    text = io.StringIO()
    name = "a_name_" * 20
    print_table(Console(file=text, width=20), ("name", "value"), [(name, 0.123456), ("b", 2.0)])
    assert name in text.getvalue()
    assert "0.1235" in text.getvalue()


def test_a_step_whose_update_was_left_out_is_counted_and_not_part_of_the_loss() -> None:
    meter = FigureMeter(steps=4, every=2)
    skipped = record(2, loss=math.nan, gradient_norm=math.inf, skips=True)
    (report,) = reports(meter, [record(1, loss=3.0, skips=True), skipped])
    assert (report.loss, report.skipped_updates) == (3.0, 1)
    assert ("skipped updates", "1") in report.log_fields()
    (report,) = reports(FigureMeter(steps=2, every=2), [record(1), record(2, loss=math.nan)])
    assert math.isnan(report.loss)
    assert report.skipped_updates == 0
    loads = [[[0.5, 0.5]], [[math.nan, math.nan]]]
    routed = [
        record(i, loss=float(i), expert_layers=(3,), expert_loads=own, skips=True)
        for i, own in enumerate(loads, 1)
    ]
    (report,) = reports(FigureMeter(steps=2, every=2), routed)
    assert (report.loss, report.skipped_updates) == (1.0, 1)
    assert report.experts[0].entropy == pytest.approx(1)


def test_auxiliary_losses_are_means_of_the_window_as_the_loss_is() -> None:
    bad = record(2, loss=math.nan, skips=True, aux={"activation": math.nan})
    own = [record(1, aux={"activation": 1.0}), bad, record(3, aux={"activation": 4.0})]
    (report,) = reports(FigureMeter(steps=3, every=3), own)
    assert report.aux == {"activation": 2.5}


def lines(folder: Path) -> list[str]:
    return (folder / "metrics.jsonl").read_text().splitlines()


def test_figures_that_a_disk_does_not_take_are_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    with open_metrics(folder, io.StringIO(), tensorboard=True) as metrics:
        metrics.log_values(1, {"loss": 1.0})
        written = (folder / "metrics.jsonl").stat().st_size
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (written + 5, limits[1]))
        try:
            metrics.log_values(2, {"loss": 2.0})
            metrics.log_values(3, {"loss": 3.0})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (folder / "metrics.jsonl").stat().st_size == written
        metrics.log_values(4, {"loss": 4.0})
        steps = [json.loads(line)["step"] for line in lines(folder)]
        assert steps == [1, 2, 3, 4]
        shutil.rmtree(folder)
        metrics.log_values(5, {"loss": 5.0})
    assert json.loads((folder / "metrics.jsonl").read_text())["step"] == 5
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2  # one for each sink, not for each line
    assert all("cannot be written: " in warning for warning in warnings)


def test_steps_that_spill_are_counted_of_the_window_and_of_the_run() -> None:
    meter = FigureMeter(5, every=2)
    found = reports(meter, [record(i, is_fallback=i in (2, 3, 4)) for i in range(1, 6)])
    assert [report.spilled_steps for report in found] == [1, 2, 0]
    assert [("fallback steps", "2") in report.log_fields() for report in found] == [
        False,
        True,
        False,
    ]
    assert meter.summary_figures()["spilled_steps"] == 3
