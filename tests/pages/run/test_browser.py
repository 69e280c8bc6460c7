"""The report in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mllm_jax.pages.run.page import write_report
from mllm_jax.pages.run.panels.order import PANELS
from tests.browser import IN_BROWSER, NARROW, WIDTH, pictured, read
from tests.pages.run.runs import ended

pytestmark = IN_BROWSER

#: What is told when the pointer has come to the middle of every chart.
TIPS = """
  seen.tips = [];
  for (const figure of document.querySelectorAll("figure.lines")) {
    const box = figure.querySelector("svg").getBoundingClientRect();
    const at = {clientX: box.left + 0.75 * box.width, clientY: box.top + 9};
    figure.querySelector("svg").dispatchEvent(new PointerEvent("pointermove", at));
    seen.tips.push(figure.querySelector(".tip").innerText);
  }
"""


#: Words at axes, as large as they are seen; tables that are cut and cannot be moved.
NARROW_LOOK = """
  const shown = (x) => x.getBoundingClientRect();
  seen.ticks = [], seen.overlaps = 0;
  for (const figure of document.querySelectorAll("figure.lines")) {
    const ticks = [...figure.querySelectorAll(".tick")].map(shown).filter((x) => x.width);
    seen.ticks.push(...ticks.map((x) => ({height: x.height})));
    ticks.forEach((a, at) => ticks.slice(at + 1).forEach((b) => {
      const apart = a.right < b.left || b.right < a.left || a.bottom < b.top || b.bottom < a.top;
      seen.overlaps += !apart;
    }));
  }
  const tables = [...document.querySelectorAll("table")];
  seen.cut = tables.filter((x) => shown(x).right > shown(x.closest("section")).right
    && getComputedStyle(x.closest(".scroll")).overflowX !== "auto").map((x) => x.innerText);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(ended(tmp_path_factory.mktemp("runs")).run.path)


def test_the_page_is_laid_out_and_follows_the_pointer(page: Path, tmp_path: Path) -> None:
    seen = read(page, tmp_path, TIPS)
    assert len(seen["panels"]) == len(PANELS) - 2, "no experts, no damage"
    for key, own in seen["panels"].items():
        assert own["height"] > 60, key
        assert own["width"] > WIDTH / 3, key
        assert own["outside"] == 0, key
    assert seen["tips"][0].split() == [
        *("step", "740", "training,", "smoothed", "0.5027"),
    ]
    assert all(tip.startswith("step 7") for tip in seen["tips"])


def test_axes_and_tables_can_be_read_on_a_phone(page: Path, tmp_path: Path) -> None:
    seen = read(page, tmp_path, NARROW_LOOK, NARROW)
    assert seen["ticks"]
    assert min(own["height"] for own in seen["ticks"]) >= 11
    assert seen["overlaps"] == 0
    assert all(own["outside"] == 0 for own in seen["panels"].values())
    assert seen["cut"] == []


def test_light_and_dark_pages_are_seen(page: Path, tmp_path: Path) -> None:
    pages = {theme: pictured(page, tmp_path, theme) for theme in ("light", "dark")}
    assert all(len(np.unique(own)) > 50 for own in pages.values())
    assert pages["light"].mean() > 220
    assert pages["dark"].mean() < 60
