"""A run that counts the programs which it finds compiled: see test_run.py.

python -m tests.train.hits FILE COMMAND...
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax

import launch

HIT = "/jax/compilation_cache/cache_hits"


def main(file: Path, arguments: list[str]) -> int:
    """The exit code of the command, whose number of programs found is in `file`."""
    seen: list[str] = []
    jax.monitoring.register_event_listener(lambda event, **_: seen.append(event))
    code = launch.main(arguments)
    file.write_text(str(seen.count(HIT)))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
