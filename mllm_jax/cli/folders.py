"""Checks of folders that options name, before numerical libraries are loaded.

A message names the folder, what is missing in it, and folders that would do.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.runtime.folder import METRICS, RunError, steps_in

if TYPE_CHECKING:  # which a message about a folder does not need
    from mllm_jax.config.sections import ExperimentConfig

#: File of a released checkpoint that says what it is.
_CONFIG = "config.json"
#: File of a run with its configuration, which may name a place with copies of checkpoints.
_RESOLVED = "resolved.yaml"
#: A checkpoint of a hub.
_HUB = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?")
#: Folders that a message names, and folders that are looked at to find them.
_NAMED, _LOOKED_AT = 5, 200


def _has_checkpoints(folder: Path) -> bool:
    """Whether a run has a checkpoint, or may have copies of some at a URL."""
    if steps_in(folder):
        return True
    file = folder / _RESOLVED
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return re.search(r"^\s+copy_to: (?!null$)", text, re.MULTILINE) is not None


def _is_release(folder: Path) -> bool:
    return (folder / _CONFIG).is_file()


#: What a folder must be, by name: whether it is that, what is missing else, and what would do.
_KINDS: Mapping[str, tuple[Callable[[Path], bool], str, str]] = {
    "run": (
        lambda folder: (folder / METRICS).is_file(),
        f"there is no {METRICS} in it",
        "the folder of a run that has begun",
    ),
    "checkpoints": (
        _has_checkpoints,
        "there is no checkpoint in it",
        "the folder of a run that has saved a checkpoint",
    ),
    "release": (
        _is_release,
        f"there is no {_CONFIG} in it",
        "the folder of a released checkpoint",
    ),
    "source": (
        _is_release,
        f"there is no {_CONFIG} in it",
        "organisation/name[@revision] of a hub, or the folder of a released checkpoint",
    ),
    "folder": (Path.is_dir, "", "a folder"),
}

#: Options that name a folder which must be there, by command: what it must be.
FOLDERS: Mapping[str, Mapping[str, str]] = {
    "report": {"run": "run"},
    "export": {"run": "checkpoints"},
    "generate": {"run": "checkpoints", "release": "release", "media": "folder"},
    "evaluate": {"run": "checkpoints", "release": "release", "media": "folder"},
    "import": {"source": "source"},
}
#: Names of options that are not those of their values.
_OPTIONS = {"source": "from"}


def check_folders(args: argparse.Namespace) -> None:
    """Check that the folders that options name exist and have the required content.

    Of a run and a release beside each other the command says that one is too many.

    Raises:
        RunError: one is not.
    """
    if getattr(args, "run", None) is not None and getattr(args, "release", None) is not None:
        return
    for name, kind in FOLDERS.get(args.name, {}).items():
        value = getattr(args, name)
        if value is not None and not (args.name == "import" and _is_hub_name(value)):
            check_folder(f"--{_OPTIONS.get(name, name)}", Path(value), kind)


def check_run(args: argparse.Namespace, config: ExperimentConfig) -> None:
    """Check that the run of a configuration has what a command needs.

    Raises:
        RunError: it has not.
    """
    if (
        args.name == "experts"
        and not args.routes
        and config.model.backbone_config.experts is not None
    ):
        check_folder("run.name", config.run.path, "run")
    if args.name == "evaluate" and config.checkpoint.copy_to is None:
        check_folder("run.name", config.run.path, "checkpoints")


def check_folder(option: str, folder: Path, kind: str) -> None:
    """Check that a folder has the required content.

    Raises:
        RunError: it is not; the message names folders that are.
    """
    is_kind, missing, valid = _KINDS[kind]
    if folder.is_dir() and is_kind(folder):
        return
    if not folder.exists():
        missing = "there is no such folder"
    elif not folder.is_dir():
        missing = "it is a file"
    others = list(dict.fromkeys(_find_others(folder, kind)))
    names = f": {', '.join(map(str, others[:_NAMED]))}" if others else ""
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    raise RunError(f"{option} {folder}: {missing}; valid: {valid}{names}{more}")


def _find_others(folder: Path, kind: str) -> Iterator[Path]:
    """Valid folders near a folder: above it, in it, and beside it."""
    is_kind = _KINDS[kind][0]
    if kind == "folder":
        return
    above = [parent for parent in [*folder.parents][:2] if parent != Path()]
    inside = _list_folders(folder) if folder.is_dir() else []
    for other in (*above, *inside, *_list_folders(folder.parent)):
        if other != folder and is_kind(other):
            yield other


def _list_folders(parent: Path) -> list[Path]:
    """Folders in a folder, by name."""
    try:
        return sorted(path for path in parent.iterdir() if path.is_dir())[:_LOOKED_AT]
    except OSError:
        return []


def _is_hub_name(source: str) -> bool:
    """Whether a source of weights is a name on a hub, and no path of this machine."""
    return not Path(source).exists() and _HUB.fullmatch(source) is not None
