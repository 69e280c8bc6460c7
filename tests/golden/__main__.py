"""`python -m tests.golden`: this tree beside another commit, by the commands of both.

Everything is compared bit for bit: what demos learn, the program of their step, and what goes on
from files that the other commit has written::

    losses     50 steps of three demos: losses, norms of gradients, parameters, held-out figures
    program    the lowered text of each one's step, without names and places of its source
    resume     the other commit's checkpoints and measured lengths, with and without adapters
    resolved   the other commit's resolved.yaml, as this tree reads it
    plans      the plans that a search finds for configs/optimus, orchmllm and omni

Bits depend on the machine, so that both run on this one. What the other commit has written is kept
in `.golden` by commit and machine, and used again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.golden import compared
from tests.golden.trees import ROOT, CommandError, Tree, checked_out, commit_of, emptied, machine

#: The commit before the one kind of module, with which every later one is compared.
BASE = "f64dc8eb"
STEPS, HALF = 50, 25
#: Configurations of runs by name, and what they change.
RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "demo": ("demo.yaml", ()),
    "experts": ("demo_experts.yaml", ("evaluate.exact_match=false",)),
    "pipeline": ("demo_pipeline.yaml", ("evaluate.exact_match=false",)),
    "adapters": (
        "demo.yaml",
        ("train.lora={rank: 4}", "train.freeze=[vision]", "evaluate.exact_match=false"),
    ),
}
#: Plans after each step of a change; `--plans all` takes every file of their folders.
FEW = ("optimus/weak_a.yaml", "orchmllm/10b.yaml", "omni/a.yaml")
FOLDERS = ("optimus", "orchmllm", "omni")
_COMMON = (
    f"train.steps={STEPS}",
    "train.warmup_steps=5",
    "run.log_every=1",
    f"checkpoint.every={HALF}",
    "checkpoint.keep=10",
    "checkpoint.local_every=null",
    "evaluate.samples=32",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, tell of each part, and return the number of parts that differ."""
    options = _parser().parse_args(arguments)
    commit, kept = commit_of(options.base), ROOT / ".golden"
    folder = kept / f"{commit[:12]}-{machine()}"
    kept.mkdir(exist_ok=True)
    differ = 0
    with checked_out(commit, kept) as code:
        old, new = Tree(code, folder), Tree(ROOT, emptied(kept / "now"))
        for name in options.parts or PARTS:
            begin = time.perf_counter()
            found = list(PARTS[name](old, new, options))
            differ += bool(found)
            _tell(
                f"{name:9s} {'differs' if found else 'equal'}, {time.perf_counter() - begin:.0f} s"
            )
            for line in found[:20]:
                _tell(f"          {line}")
    return min(differ, 1)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# ---- parts ---------------------------------------------------------------------------------------


def losses(old: Tree, new: Tree, options: argparse.Namespace) -> Iterator[str]:
    """Figures of every step, and the parameters and moments at the end."""
    for name in _runs(options):
        before, after = _trained(old, name), _trained(new, name, caches=old)
        for line in compared.figures_differ(compared.figures(before), compared.figures(after)):
            yield f"{name}: {line}"
        states = (compared.state_of(run, STEPS) for run in (before, after))
        for line in compared.states_differ(*states):
            yield f"{name}: {line}"


def program(old: Tree, new: Tree, options: argparse.Namespace) -> Iterator[str]:
    """The step of every run as it is lowered."""
    for name in _runs(options):
        for tree in (old, new):
            _trained(tree, name, caches=old)
        texts = (compared.program_of(tree.home / f"ir-{name}") for tree in (old, new))
        for line in compared.programs_differ(*texts):
            yield f"{name}: {line}"


def resume(old: Tree, new: Tree, options: argparse.Namespace) -> Iterator[str]:
    """The second half of every run, from the other commit's checkpoint and measured lengths."""
    for name in _runs(options):
        before = _trained(old, name)
        resumed = Tree(new.code, emptied(new.home.parent / "resumed"))
        shutil.copytree(before, resumed.home / "runs" / name)
        shutil.copytree(old.home / ".cache", resumed.home / ".cache", dirs_exist_ok=True)
        resumed.launch(*_command(resumed, name), "--from-step", str(HALF), *_changes(name))
        after = resumed.home / "runs" / name
        old_figures = compared.figures(before, HALF)
        for line in compared.figures_differ(old_figures, compared.figures(after, HALF)):
            yield f"{name}: {line}"


def resolved(old: Tree, new: Tree, options: argparse.Namespace) -> Iterator[str]:
    """The configuration that a run of the other commit has written, read by this tree."""
    for name in _runs(options):
        runs = _trained(old, name), _trained(new, name, caches=old)
        texts = [new.launch("config", "--config", str(run / "resolved.yaml")) for run in runs]
        if texts[0] != texts[1]:
            yield f"{name}: {runs[0]}/resolved.yaml is read as another configuration"


def plans(old: Tree, new: Tree, options: argparse.Namespace) -> Iterator[str]:
    """The plans that are found, read by this tree."""
    every = [
        f"{folder}/{path.name}"
        for folder in FOLDERS
        for path in sorted((ROOT / "configs" / folder).glob("*.yaml"))
    ]
    for name in every if options.plans == "all" else FEW:
        files = [_planned(tree, name) for tree in (old, new)]
        told = [new.launch("config", "--config", str(file)) for file in files]
        if told[0] != told[1]:
            yield f"{name}: another plan is found ({files[0]} and {files[1]})"
        for line in _predictions_differ(*(file.with_suffix(".json") for file in files)):
            yield f"{name}: {line}"


PARTS: dict[str, Callable[[Tree, Tree, argparse.Namespace], Iterator[str]]] = {
    part.__name__: part for part in (losses, program, resume, resolved, plans)
}


# ---- what a tree writes --------------------------------------------------------------------------


def _runs(options: argparse.Namespace) -> Sequence[str]:
    return options.runs or [*RUNS]


def _command(tree: Tree, name: str) -> list[str]:
    return ["train", "--config", tree.config(RUNS[name][0])]


def _changes(name: str) -> tuple[str, ...]:
    return (f"run.name={name}", *_COMMON, *RUNS[name][1])


def _trained(tree: Tree, name: str, caches: Tree | None = None) -> Path:
    """The folder of a run, which is trained if it is not there.

    Args:
        tree: whose run it is.
        name: key of `RUNS`.
        caches: tree whose measured lengths are used, if it has any.
    """
    run, ended = tree.home / "runs" / name, tree.home / f"ended-{name}"
    if ended.exists():
        return run
    shutil.rmtree(run, ignore_errors=True)
    if caches is not None and caches is not tree and not (tree.home / ".cache").exists():
        shutil.copytree(caches.home / ".cache", tree.home / ".cache")
    dumps = emptied(tree.home / f"ir-{name}")
    # What the names of a program's places say is not dumped.
    more = {"JAX_DUMP_IR_TO": str(dumps), "JAX_INCLUDE_DEBUG_INFO_IN_DUMPS": "0"}
    tree.launch(*_command(tree, name), *_changes(name), **more)
    ended.touch()
    return run


def _planned(tree: Tree, name: str) -> Path:
    """The file of the plans that are found for a configuration."""
    file = tree.home / "plans" / name
    if not file.with_suffix(".json").exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        path = tree.config(name)
        told = tree.launch("plan", "--json", "--config", path, "--output", str(file))
        file.with_suffix(".json").write_text(told)
    return file


def _predictions_differ(before: Path, after: Path) -> Iterator[str]:
    """The predicted seconds of two searches, where they are not the same."""
    old, new = (_seconds(json.loads(path.read_text())) for path in (before, after))
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield f"{key}: {old.get(key)} s before, {new.get(key)} s now"


#: Keys of seconds that a search has taken, in either tree.
_SEARCHING = ("took", "search_seconds")


def _seconds(found: object, path: str = "") -> dict[str, float]:
    """All numbers whose key tells of predicted seconds, by their paths."""
    if isinstance(found, dict):
        items = [(f"{path}.{key}", value) for key, value in found.items() if key not in _SEARCHING]
    elif isinstance(found, list):
        items = [(f"{path}[{number}]", value) for number, value in enumerate(found)]
    else:
        name = path.rpartition(".")[2]
        return {path: found} if isinstance(found, float) and "seconds" in name else {}
    return {key: own for name, value in items for key, own in _seconds(value, name).items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--base", default=BASE, help="the other commit (default: %(default)s)")
    parser.add_argument("--plans", choices=("few", "all"), default="few", help="which plans")
    parser.add_argument("--runs", nargs="*", choices=[*RUNS], help="which runs (default: all)")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CommandError as error:
        sys.exit(f"error: {error}")
