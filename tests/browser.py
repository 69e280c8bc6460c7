"""Pages in a real browser, Debian's chromium: `make test-browser` installs it."""

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
from numpy.typing import NDArray
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)
#: Marks of tests in the browser.
IN_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: see make test-browser"),
]
WIDTH, HEIGHT = 1400, 2800
#: The narrowest window that the browser opens, about as wide as a phone.
NARROW = 500

#: Notes errors of the page's own script.
_WATCH = "<script>window.errors = []; window.onerror = (why) => window.errors.push(why);</script>"
#: Writes what a script has `seen` of the page as it is laid out.
_READ = """
<pre id="read"></pre>
<script>
  const seen = {errors: window.errors, panels: {}, wide: 0};
  for (const panel of document.querySelectorAll("section")) {
    const box = panel.getBoundingClientRect();
    const texts = [...panel.querySelectorAll("svg text")].filter((x) => !x.closest(".scroll"))
      .map((x) => x.getBoundingClientRect()).filter((x) => x.width);
    const outside = texts.filter((text) => text.left < box.left || text.right > box.right);
    seen.panels[panel.id] = {height: box.height, width: box.width, outside: outside.length};
  }
  %s
  seen.wide = document.documentElement.scrollWidth;
  document.querySelector("#read").textContent = JSON.stringify(seen);
</script>
"""


def browse(page: Path, folder: Path, *options: str, width: int = WIDTH) -> str:
    """What the browser writes for a page, without network and with a profile of its own."""
    assert BROWSER is not None
    own = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
    shape = (f"--window-size={width},{HEIGHT}", f"--user-data-dir={folder / 'profile'}")
    away = "--host-resolver-rules=MAP * ~NOTFOUND"
    command = [BROWSER, *own, *shape, away, *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def read(page: Path, folder: Path, script: str, width: int = WIDTH) -> dict[str, Any]:
    """What a script has `seen` of a page: its panels, errors, and what the script adds."""
    text = page.read_text().replace("<head>", f"<head>{_WATCH}")
    (folder / "read.html").write_text(text.replace("</body>", f"{_READ % script}</body>"))
    dom = browse(folder / "read.html", folder, "--dump-dom", width=width)
    found = re.search(r'<pre id="read">(.*?)</pre>', dom, re.DOTALL)
    assert found
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    assert seen["errors"] == []
    assert seen["wide"] <= width
    return seen


def pictured(page: Path, folder: Path, theme: str) -> NDArray[np.uint8]:
    """A page as it is seen, `[height, width, 3]`, in the theme `light` or `dark`."""
    picture, scheme = folder / f"{theme}.png", {"light": 1, "dark": 0}[theme]
    blink = f"--blink-settings=preferredColorScheme={scheme}"
    browse(page, folder, f"--screenshot={picture}", blink)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    return pixels
