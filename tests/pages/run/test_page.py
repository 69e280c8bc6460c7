"""The report of a run: every panel has its data or says why not, and nothing leaves the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mllm_jax.pages.html.charts import (
    LOGARITHMIC,
    POINTS,
    ChartSeries,
    line_chart,
    smooth_series,
    stacked_bars,
)
from mllm_jax.pages.html.markup import make_tag
from mllm_jax.pages.html.scale import make_scale
from mllm_jax.pages.html.words import format_number, format_percent, format_seconds
from mllm_jax.pages.run.files import RunFiles, read_run
from mllm_jax.pages.run.page import render_page, write_report
from mllm_jax.pages.run.panels.attempts import goodput_panel
from mllm_jax.pages.run.panels.experts import experts_panel
from mllm_jax.pages.run.panels.order import PANELS, make_panels
from mllm_jax.runtime.folder import RunError
from mllm_jax.supervise.attempts import TimeSpent, write_attempt
from tests.pages.run.runs import HOSTILE, begun, ended


class Reader(HTMLParser):
    """Checks that elements are closed in turn, and notes them."""

    OPEN = ("meta", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.OPEN:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_every_panel_of_a_run_that_has_ended_has_content(tmp_path: Path) -> None:
    run = read_run(ended(tmp_path).run.path)
    made = make_panels(run)
    assert not [panel.title for panel in made if not panel.content]
    assert len({panel.key for panel in made}) == len(made) == len(PANELS) - 2, (
        "no experts, and no damage"
    )
    text = render_page(run)
    for word in (
        "All 1000 steps are done",
        "killed by SIGKILL",
        "75.3 %",
        "stage 1",
        "22 %",
        "two steps takes 400 ms",
    ):
        assert word in text, word


def test_a_logarithmic_axis_and_pale_lines_are_explained(tmp_path: Path) -> None:
    loss = {}
    for name, steps in (("few", range(10, 60, 10)), ("far", range(50, 12_001, 50))):
        run = read_run(ended(tmp_path / name, steps).run.path)
        loss[name] = next(panel for panel in make_panels(run) if panel.key == "loss")
    assert LOGARITHMIC in loss["far"].content
    assert LOGARITHMIC not in loss["few"].content
    assert "pale line has every report" in loss["far"].note
    assert "pale" not in loss["few"].note


def test_gradient_norm_and_learning_rate_are_drawn(tmp_path: Path) -> None:
    run = read_run(ended(tmp_path).run.path)
    for name in ("gradient_norm", "learning_rate"):
        values = [line[name] for line in run.reports]
        assert values
        (panel,) = (own for own in make_panels(run) if own.key == name.removesuffix("_norm"))
        (points,) = re.findall(r'class="points">(.*?)</script>', panel.content)
        assert json.loads(points)[0]["text"][-1] == format_number(values[-1])


def test_time_that_is_lost_is_not_called_a_loss(tmp_path: Path) -> None:
    text = goodput_panel(read_run(ended(tmp_path).run.path)).content
    assert "<dt>most time lost to</dt>" in text
    assert "largest loss" not in text


def test_panels_of_a_run_that_has_only_begun_say_what_is_missing(tmp_path: Path) -> None:
    run = read_run(begun(tmp_path).run.path)
    empty = {panel.key for panel in make_panels(run) if not panel.content}
    assert empty == {
        *("loss", "gradient", "learning_rate", "evaluations", "throughput", "mfu", "pace", "waits"),
        *("padding", "imbalance", "goodput", "ranks", "skipped"),
    }
    assert "No step has been reported yet." in render_page(run)


@pytest.mark.parametrize(("layers", "lines"), [(3, 3), (20, 2)])
def test_the_load_of_experts_is_drawn(tmp_path: Path, layers: int, lines: int) -> None:
    run = read_run(ended(tmp_path).run.path)
    assert experts_panel(run) is None
    own = [
        {"layer": n, "shares": [0.5, 0.5, 0.0, None], "imbalance": 2.0, "entropy": 0.5}
        for n in range(layers)
    ]
    told = [{"step": step, "steps": 9, "loss": 1.0, "experts": own} for step in (1, 2)]
    panel = experts_panel(replace(run, lines=told))
    assert panel is not None
    found = Reader(panel.content).found
    classes = [attributes.get("class") or "" for _, attributes in found]
    assert sum(each.startswith("line ") for each in classes) == lines
    assert sum(name == "img" for name, _ in found) == 1
    for word in ("load at step 2", "layer 1", "expert 0", "4 times the mean or more"):
        assert word in panel.content, word


def test_a_run_of_an_earlier_version_has_neither_plan_nor_schedule(tmp_path: Path) -> None:
    folder = ended(tmp_path).run.path
    (folder / "resolved.yaml").unlink()
    assert render_page(read_run(folder)).count("an earlier version has begun the run") == 3
    (folder / "resolved.yaml").write_text("run: {name: small}\nmodel: 3\n")
    assert "cannot be used by this version" in render_page(read_run(folder))


def test_a_decoder_of_one_stage_has_no_schedule(tmp_path: Path) -> None:
    own = begun(tmp_path, parallel__decoder={"data": 4})
    assert "The backbone has one stage" in render_page(read_run(own.run.path))


def test_the_page_is_whole_and_names_nothing_outside_itself(tmp_path: Path) -> None:
    text = write_report(ended(tmp_path).run.path).read_text()
    reader = Reader(text)
    outward = [
        (name, attributes)
        for name, attributes in reader.found
        if name in ("link", "iframe")
        or not (attributes.get("src") or "data:").startswith("data:")
        or not (attributes.get("href") or "#").startswith("#")
    ]
    assert not outward
    assert "http" not in text
    assert "url(" not in text
    places = {attributes.get("id") for _, attributes in reader.found}
    links = {attributes["href"] for name, attributes in reader.found if name == "a"}
    assert {f"#{place}" for place in places if place} == links


def test_names_of_samples_are_no_markup(tmp_path: Path) -> None:
    text = write_report(ended(tmp_path).run.path).read_text()
    name, fault = HOSTILE
    assert name not in text
    assert fault.text not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


def test_a_folder_that_is_none_of_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no metrics\.jsonl in it"):
        read_run(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"])
def test_a_damaged_record_of_an_attempt_is_told_by_one_panel(
    tmp_path: Path, content: bytes
) -> None:
    folder = ended(tmp_path).run.path
    (folder / "attempts" / "1.json").write_bytes(content)
    run = read_run(folder)
    made = make_panels(run)
    assert [own.key for own in made if "1.json is damaged" in own.content] == ["records"]
    assert "All 1000 steps are done" in render_page(run)


def attempts_of(folder: Path, *effective: float | None) -> RunFiles:
    """A run that has not ended, of attempts of 1000 s, of which steps took 990 s."""
    own = begun(folder)
    for attempt, kept in enumerate(effective, 1):
        spent = {"start": 10.0, "step": 990.0}
        write_attempt(own.run.path, TimeSpent(attempt, 1e9 + 1000 * attempt, spent, effective=kept))
    return read_run(own.run.path)


def test_steps_that_were_taken_again_are_no_goodput_before_the_end_of_a_run(tmp_path: Path) -> None:
    again = attempts_of(tmp_path / "again", 990.0, 990.0)
    assert again.goodput
    assert again.goodput["share"] == pytest.approx(0.495)
    assert again.goodput["seconds"]["rework"] == 990.0
    # The last one has no state yet: what the one before had is not lost as far as it is known.
    begins = attempts_of(tmp_path / "begins", 990.0, None)
    assert begins.goodput
    assert begins.goodput["seconds"]["effective"] == 990.0


def test_rework_that_no_record_knows_is_said_to_be_unknown(tmp_path: Path) -> None:
    run = attempts_of(tmp_path / "two", None, None)
    assert run.goodput
    assert run.goodput["share"] is None
    assert "taken again is not known" in goodput_panel(run).content
    alone = attempts_of(tmp_path / "alone", None)
    assert alone.goodput
    assert alone.goodput["share"] == pytest.approx(0.99)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = begun(tmp_path).run.path
    with pytest.raises(RunError, match="cannot be written: Is a directory; choose --output"):
        write_report(folder, tmp_path)


def test_lines_are_thinned_out_by_means(tmp_path: Path) -> None:
    steps = list(range(10 * POINTS))
    whole = ChartSeries("x", steps, [float(step % 10) for step in steps])
    assert len(whole.points) == POINTS
    assert {value for _, value in whole.points} == {4.5}
    assert whole.points[-1][0] == steps[-1]
    holes = ChartSeries("x", [1, 2, 3], [None, float("nan"), 2.0])
    assert holes.points == [(3, 2.0)]
    assert not line_chart("nothing", [ChartSeries("x", [1], [None])])


def test_a_running_mean_begins_at_the_first_value() -> None:
    means = smooth_series(ChartSeries("x", [1, 2, 3], [4.0, 4.0, 4.0]), "mean")
    assert means.values == [4.0, 4.0, 4.0]


def test_axes_have_round_ticks_and_hold_all_values() -> None:
    linear = make_scale([0.0, 4.3], 100.0, 0.0)
    assert linear.ticks() == [0, 2, 4]
    assert linear(0.0) == 100.0
    assert linear(9.0) == 0.0
    wide = make_scale([0.02, 4.0], 0.0, 1.0, log=True)
    assert wide.log
    assert [f"{tick:g}" for tick in wide.ticks()] == ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]
    assert not make_scale([0.0, 4.0], 0.0, 1.0, log=True).log
    same = make_scale([3.0, 3.0], 0.0, 1.0)
    assert 0 < same(3.0) < 1


def test_bars_share_one_scale() -> None:
    bars = stacked_bars("x", [("a", {"step": 3.0, "wait": 1.0, "save": 0.0}), ("b", {"step": 2.0})])
    assert re.findall(r"width:([\d.]+)%", bars) == ["75.000", "25.000", "50.000"]
    assert "save" not in bars


def test_words_and_markup() -> None:
    assert [format_number(x) for x in (0.025934, 3765.4, 13_240, 2.5e9)] == [
        *("0.02593", "3765", "13.24k", "2.5G")
    ]
    assert [format_percent(x) for x in (0.0022, 0.186, 1.0)] == ["0.22 %", "18.6 %", "100 %"]
    assert [format_seconds(x) for x in (0.0, 0.0123, 97, 243, 7500)] == [
        *("0 s", "12.3 ms", "97 s", "4 min 03 s", "2 h 05 min")
    ]
    assert make_tag("text", "a < b", x=1, text_anchor="end") == (
        '<text x="1" text-anchor="end">a &lt; b</text>'
    )
