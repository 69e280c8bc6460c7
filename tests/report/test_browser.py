"""The report in a real browser, Debian's chromium: `make test-browser` installs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mllm_jax.report.page import report
from mllm_jax.report.panels.order import PANELS
from tests.report.runs import ended

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: see make test-browser"),
]
WIDTH, HEIGHT = 1400, 2800

#: Reads the page as it is laid out, after the pointer has come to the middle of every chart.
READ = """
<pre id="read"></pre>
<script>
  const seen = {errors: window.errors, tips: [], panels: {}, wide: 0};
  for (const figure of document.querySelectorAll("figure.lines")) {
    const box = figure.querySelector("svg").getBoundingClientRect();
    const at = {clientX: box.left + 0.75 * box.width, clientY: box.top + 9};
    figure.querySelector("svg").dispatchEvent(new PointerEvent("pointermove", at));
    seen.tips.push(figure.querySelector(".tip").innerText);
  }
  for (const panel of document.querySelectorAll("section")) {
    const box = panel.getBoundingClientRect();
    const texts = [...panel.querySelectorAll("svg text")].map((x) => x.getBoundingClientRect());
    const outside = texts.filter((text) => text.left < box.left || text.right > box.right);
    seen.panels[panel.id] = {height: box.height, width: box.width, outside: outside.length};
  }
  seen.wide = document.documentElement.scrollWidth;
  document.querySelector("#read").textContent = JSON.stringify(seen);
</script>
"""
#: Notes errors of the page's own script.
WATCH = "<script>window.errors = []; window.onerror = (why) => window.errors.push(why);</script>"


def browse(page: Path, folder: Path, *options: str) -> str:
    """What the browser writes for a page, without network and with a profile of its own."""
    assert BROWSER is not None
    own = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
    shape = (f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder / 'profile'}")
    away = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [BROWSER, *own, *shape, away, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(ended(tmp_path_factory.mktemp("runs")).run.path)


def test_the_page_is_laid_out_and_follows_the_pointer(page: Path, tmp_path: Path) -> None:
    text = page.read_text().replace("<head>", f"<head>{WATCH}").replace("</body>", f"{READ}</body>")
    (tmp_path / "read.html").write_text(text)
    dom = browse(tmp_path / "read.html", tmp_path, "--dump-dom")
    found = re.search(r'<pre id="read">(.*?)</pre>', dom, re.DOTALL)
    assert found
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    assert seen["errors"] == []
    assert seen["wide"] <= WIDTH
    assert len(seen["panels"]) == len(PANELS)
    for key, own in seen["panels"].items():
        assert own["height"] > 60, key
        assert own["width"] > WIDTH / 3, key
        assert own["outside"] == 0, key
    assert seen["tips"][0].split() == [
        *("step", "740", "training,", "smoothed", "0.5027"),
    ]
    assert all(tip.startswith("step 7") for tip in seen["tips"])


def test_light_and_dark_pages_are_seen(page: Path, tmp_path: Path) -> None:
    means = {}
    for theme, scheme in (("light", 1), ("dark", 0)):
        picture = tmp_path / f"{theme}.png"
        browse(
            page,
            tmp_path,
            f"--screenshot={picture}",
            f"--blink-settings=preferredColorScheme={scheme}",
        )
        pixels = np.asarray(Image.open(picture).convert("L"))
        assert pixels.shape == (HEIGHT, WIDTH)
        assert len(np.unique(pixels)) > 50
        means[theme] = pixels.mean()
    assert means["light"] > 220
    assert means["dark"] < 60
