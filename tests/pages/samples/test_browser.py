"""The preview in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mllm_jax.config.load import resolve_config
from mllm_jax.pages.samples.page import PANELS, write_preview
from tests.browser import IN_BROWSER, NARROW, WIDTH, pictured, read
from tests.pages.samples.folder import content

pytestmark = IN_BROWSER

#: What is drawn of rows, pictures, sounds and tokens, as it is laid out.
LOOK = """
  const shown = (x) => x.getBoundingClientRect();
  const strips = [...document.querySelectorAll(".strip")];
  seen.strips = strips.map((strip) => [...strip.children].map((piece) => ({
    left: (shown(piece).left - shown(strip).left) / shown(strip).width,
    width: shown(piece).width / shown(strip).width,
    colour: getComputedStyle(piece).backgroundColor,
    title: piece.title,
  })));
  const images = [...document.querySelectorAll(".pictures img")];
  seen.images = images.map((x) => ({
    whole: x.complete && x.naturalWidth > 0, height: shown(x).height, width: shown(x).width,
  }));
  seen.sounds = [...document.querySelectorAll("audio")].map((x) => shown(x).width);
  const learnt = document.querySelector(".tokens .learnt");
  seen.learnt = getComputedStyle(learnt).backgroundColor;
  seen.text = document.querySelector(".tokens").innerText;
  const outside = [...document.querySelectorAll("section *")].filter((x) => {
    const own = x.closest("section").getBoundingClientRect();
    return shown(x).right > own.right + 1 && !x.closest(".scroll, .tokens, pre");
  });
  seen.outside = outside.map((x) => x.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preview") / "mine"
    return write_preview(resolve_config(content(folder), source="test"), 10).file


def test_rows_pictures_and_sounds_are_drawn(page: Path, tmp_path: Path) -> None:
    seen = read(page, tmp_path, LOOK)
    assert len(seen["panels"]) == len(PANELS)
    assert seen["outside"] == []
    pieces = [piece for strip in seen["strips"] for piece in strip]
    assert len({piece["colour"] for piece in pieces}) > 5
    assert all(own["left"] >= 0 and own["left"] + own["width"] <= 1.01 for own in pieces)
    first = next(own for own in pieces if "tokens" in own["title"])
    tokens = int(first["title"].split(": ")[1].split()[0])
    assert first["width"] == pytest.approx(tokens / 128, abs=0.01)
    assert seen["images"]
    assert all(own["whole"] and own["height"] >= 20 for own in seen["images"])
    assert all(own["width"] <= WIDTH for own in seen["images"])
    assert seen["sounds"]
    assert min(seen["sounds"]) > 200
    assert seen["learnt"] == "rgb(213, 230, 210)"
    assert seen["text"].startswith("<user>")


def test_the_page_fits_a_phone(page: Path, tmp_path: Path) -> None:
    seen = read(page, tmp_path, LOOK, NARROW)
    assert seen["outside"] == []


def test_light_and_dark_pages_are_seen(page: Path, tmp_path: Path) -> None:
    pages = {theme: pictured(page, tmp_path, theme) for theme in ("light", "dark")}
    assert all(len(np.unique(own)) > 50 for own in pages.values())
    assert pages["light"].mean() > 200
    assert pages["dark"].mean() < 80
