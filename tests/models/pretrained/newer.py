"""Configurations as the newest transformers saves them.

`python -m tests.models.pretrained.newer` writes `tests/parity/newer.json`, which has, by the folder
of a checkpoint, the `config.json` that `save_pretrained` writes for it. Keys
that a version of transformers renames are found there.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import transformers

from tests.parity.checkpoint import ROOT, write_json


def saved_again(folder: Path) -> dict[str, Any]:
    """The configuration of a checkpoint, read and written by transformers."""
    with tempfile.TemporaryDirectory() as draft:
        transformers.AutoConfig.from_pretrained(folder).save_pretrained(draft)
        values: dict[str, Any] = json.loads((Path(draft) / "config.json").read_text())
    return values


def main() -> None:
    """Write the file."""
    folders = sorted(path.parent for path in ROOT.glob("*/config.json"))
    write_json(ROOT / "newer.json", {folder.name: saved_again(folder) for folder in folders})


if __name__ == "__main__":
    main()
