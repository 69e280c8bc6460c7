"""How results of two trees are compared: figures and parameters by their bits, programs as text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

#: Figures of a line of metrics.jsonl that the arithmetic of a step decides.
FIGURES = ("loss", "gradient_norm", "learning_rate", "heldout_loss", "exact_match")
#: Words of a line of a lowered program that say nothing of what it computes.
_NAMES = re.compile(
    r'jax\.result_info = "[^"]*"|(?m:^#loc.*\n)|loc\((?:#loc\d*|"[^"]*"(?:\(#loc\d*\))?)\)'
)
_SYMBOL = re.compile(r"@[\w.]+")
_OPERATION = re.compile(r"\b(?:stablehlo|sdy|chlo|func|call)\.?\w*\b")


def figures(run: Path, after: int = 0) -> dict[tuple[int, str], str]:
    """The figures of a run's steps after `after`, in full precision."""
    found = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        for key, value in row.items():
            if row["step"] > after and key.partition("/")[0] in FIGURES:
                found[row["step"], key] = float(value).hex()
    return found


def figures_differ(
    before: dict[tuple[int, str], str], after: dict[tuple[int, str], str]
) -> Iterator[str]:
    """What is different, the first step first."""
    if not before:
        yield "no figures were written"
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield f"step {key[0]}, {key[1]}: {before.get(key)} before, {after.get(key)} now"


def state_of(run: Path, step: int) -> dict[str, np.ndarray]:
    """The leaves of a checkpoint's state by their paths."""
    folder = (run / "checkpoints" / str(step) / "state").absolute()
    with ocp.PyTreeCheckpointer() as reader:
        tree = reader.metadata(folder).item_metadata.tree
        as_arrays = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
        state = reader.restore(folder, restore_args=as_arrays)
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def states_differ(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> Iterator[str]:
    """Which leaves of two states are not the same, bit for bit."""
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            yield f"{name}: {'not now' if name in before else 'not before'}"
        elif before[name].tobytes() != after[name].tobytes():
            apart = np.abs(before[name].astype(np.float64) - after[name]).max()
            yield f"{name}: apart by up to {apart:.3g}"


def program_of(folder: Path) -> str:
    """The largest program that was lowered, without names that the source gave.

    Args:
        folder: where JAX_DUMP_IR_TO has led to.

    Raises:
        FileNotFoundError: nothing was lowered.
    """
    programs = sorted(folder.glob("*.mlir"), key=lambda path: path.stat().st_size)
    if not programs:
        raise FileNotFoundError(f"{folder}: no program was lowered")
    return without_names(programs[-1].read_text())


def without_names(program: str) -> str:
    """The text of a lowered program without names that the source gave."""
    text = _NAMES.sub("", program)
    symbols: dict[str, str] = {}
    return _SYMBOL.sub(lambda own: symbols.setdefault(own[0], f"@f{len(symbols)}"), text)


def programs_differ(before: str, after: str) -> Iterator[str]:
    """How two programs differ: by their operations, or only by their order and columns."""
    if before == after:
        return
    old, new = (Counter(_OPERATION.findall(text)) for text in (before, after))
    counts = [f"{name} {new[name] - old[name]:+d}" for name in sorted(old | new)]
    changed = [line for line in counts if not line.endswith("+0")]
    lines = zip(before.splitlines(), after.splitlines(), strict=False)
    number = next((n for n, (a, b) in enumerate(lines, start=1) if a != b), 0)
    kinds = ", ".join(changed) or "as many of each kind"
    yield f"the text from line {number} on; operations: {kinds}"
