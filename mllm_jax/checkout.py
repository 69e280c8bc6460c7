"""The folder `benchmarks/` of a checkout, which installed wheels do not have.

Nothing here imports it by a statement: its modules are loaded by name where it exists.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
#: Why other systems or benchmarks are missing, and what to do.
ADVICE = "benchmarks/ is not installed; valid: launch.py of a checkout of the repository"


class CheckoutError(ValueError):
    """A command needs the folder `benchmarks/`, which is not there."""


def load_benchmarks(module: str) -> ModuleType | None:
    """A module of the folder `benchmarks/`, or None where this package is no checkout.

    Args:
        module: the module's name below `benchmarks`, e.g. `systems.planning`.
    """
    if not (ROOT / "benchmarks" / "registry.py").is_file():
        return None
    if str(ROOT) not in sys.path:
        # After all others: the script of an editable install does not have the root on its path.
        sys.path.append(str(ROOT))
    return import_module(f"benchmarks.{module}")


def require_benchmarks(module: str, command: str) -> ModuleType:
    """A module of the folder `benchmarks/` for a command that does nothing without it.

    Raises:
        CheckoutError: there is no such folder.
    """
    benchmarks = load_benchmarks(module)
    if benchmarks is None:
        raise CheckoutError(f"{command}: {ADVICE}")
    return benchmarks
