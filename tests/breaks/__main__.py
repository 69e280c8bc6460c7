"""`python -m tests.breaks`: breaks drawn from a seed, and which of them no test notices."""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.breaks.copied import Copied, Outcome, copied
from tests.breaks.points import Break, breaks_of
from tests.breaks.selection import ROOMS, Selection, modules

ROOT = Path(__file__).parents[2]


def drawn(root: Path, rooms: Sequence[str], seed: int, count: int) -> list[Break]:
    """`count` of all breaks of some rooms, or all of them if they are fewer."""
    found = [own for module in modules(root, tuple(rooms)) for own in breaks_of(root, module)]
    return random.Random(seed).sample(found, min(count, len(found)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make every break, tell of each, and write them all; 1 if a break has survived."""
    options = _parser().parse_args(arguments)
    chosen = drawn(ROOT, options.rooms or ROOMS, options.seed, options.count)
    chosen = chosen[options.skip :][: options.most]
    if options.list:
        _tell("\n".join(map(str, chosen)))
        return 0
    # The copy is removed, whatever ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = []
    with copied(ROOT) as copy:
        selection = Selection(copy.root)
        groups = [group for own in chosen for group in selection.of(own.path)]
        copy.check(path for group in groups for path in group)
        for row in _rows(copy, selection, chosen, options):
            rows.append(row)
            _write(rows, options.out)
        _confirm(copy, rows)
    _write(rows, options.out)
    left = sum(not row["test"] for row in rows)
    _tell(f"{left} of {len(rows)} breaks survived (seed {options.seed})")
    return int(left > 0)


def _write(rows: list[dict[str, Any]], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(rows, indent=1))


def _confirm(copy: Copied, rows: list[dict[str, Any]]) -> None:
    """Check that the tests which noticed breaks pass without one; else the break has survived."""
    named = {row["test"].partition("[")[0] for row in rows if "::" in row["test"]}
    for name in copy.failing(named):
        for row in rows:
            if row["test"].partition("[")[0] == name:
                row["test"] = ""
                _tell(f"survived, as {name} fails without a break as well: {row['break']}")


def _rows(
    copy: Copied, selection: Selection, chosen: Sequence[Break], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    for number, own in enumerate(chosen, start=1 + options.skip):
        groups = selection.of(own.path)
        found = _noticed(copy, own, groups, options.seconds)
        told = found.test or f"SURVIVED{', out of time' * found.late}"
        _tell(f"{number:3d}  {found.seconds:4.0f} s  {own}\n            {told}")
        files = [path for group in groups for path in group]
        yield {"break": str(own), "ran": files} | vars(found) | vars(own)


def _noticed(copy: Copied, own: Break, groups: Sequence[Sequence[str]], seconds: float) -> Outcome:
    """What the tests find of a break, in so many seconds of CPU time."""
    used = 0.0
    with copy.broken(own):
        for files in groups:
            found = copy.run(files, seconds - used)
            used += found.seconds
            if found.late or not found.passed or used >= seconds:
                break
    return Outcome(found.code, found.test, used)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    parser.add_argument("rooms", nargs="*", help="folders or modules to break; default: see rooms")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--count", type=int, default=60, help="breaks to draw")
    parser.add_argument("--skip", type=int, default=0, help="breaks of the draw that are done")
    parser.add_argument("--most", type=int, help="breaks to make of the others")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of CPU time for the tests of a break"
    )
    parser.add_argument("--out", type=Path, help="write all breaks to this JSON file")
    parser.add_argument("--list", action="store_true", help="list the breaks, and make none")
    return parser


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
