"""The one entry point: `launch.py COMMAND --config FILE [section.key=value ...]`.

The commands are rows of `mllm_jax/cli/table.py`, and `mllm_jax/cli/command_options.py` has their
options.
"""

from __future__ import annotations

import sys

from mllm_jax.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
