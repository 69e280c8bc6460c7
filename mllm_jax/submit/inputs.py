"""The files that a run reads on the nodes of a job: checked here, where that is possible.

The nodes of a Slurm cluster have the files of the machine that submits, as its folders are shared;
the pods of Kubernetes have their volumes, and the project in their image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from data.places import is_url
from mllm_jax.config.hardware import hardware_names
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.submit import access
from mllm_jax.submit.backends import AnyBackend, SlurmBackend

#: Keys whose values are read, as far as they are paths: by section, or by a source of data.
INPUTS = {
    "data": ("processor", "tokenizer"),
    "data.source": ("path", "heldout", "media", "distribution"),
    "model": ("pretrained",),
    "train.lora": ("begin_with",),
    "run": ("compiled_steps",),
    "schedule": ("hardware",),
}
#: Values that are names, and no paths.
NAMES = {
    "data.tokenizer": ("demo", "bytes"),
    "data.source.distribution": ("web",),
    "schedule.hardware": tuple(hardware_names()),
}
#: Files that folders must have, by their keys.
FILES = {"model.pretrained": "config.json", "data.processor": "tokenizer.json"}
#: Root of the project, which an image has.
ROOT = Path(__file__).resolve().parents[2]
#: Characters of a pattern, and one that tells of alternatives, which are not looked for.
_PATTERN, _ALTERNATIVES = "*?[", "{"


def input_paths(config: ExperimentConfig) -> Iterator[tuple[str, str]]:
    """Keys and paths of what a run reads from its nodes' folders."""
    for section, keys in INPUTS.items():
        if section == "data.source":
            yield from _source_paths(section, config.data.source)
            continue
        values: Any = config
        for name in section.split("."):
            values = getattr(values, name, None)
        for key in keys if values is not None else ():
            yield from _list_paths(f"{section}.{key}", getattr(values, key, None))


def _source_paths(at: str, source: Any) -> Iterator[tuple[str, str]]:
    """Those of a source, or of the members of a mixture."""
    if isinstance(source, BaseModel):
        for key in type(source).model_fields:
            value = getattr(source, key)
            if key in INPUTS["data.source"]:
                yield from _list_paths(f"{at}.{key}", value, f"data.source.{key}")
            else:
                yield from _source_paths(f"{at}.{key}", value)
    elif isinstance(source, list | tuple):
        for number, member in enumerate(source):
            yield from _source_paths(f"{at}.{number}", member)
    elif isinstance(source, dict):
        for name, member in source.items():
            yield from _source_paths(f"{at}.{name}", member)


def _list_paths(key: str, value: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """The path in a value, or the paths by their names."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _list_paths(f"{key}.{name}", item, kind or key)
        return
    path = isinstance(value, str | Path) and str(value) not in NAMES.get(kind or key, ())
    if path and not is_url(str(value)):
        yield key, str(value)


def input_problems(
    config: ExperimentConfig, cluster: AnyBackend, on_nodes: Sequence[str]
) -> Iterator[str]:
    """A problem for each path that the nodes probably do not have.

    Args:
        on_nodes: paths that the nodes have, with all below them, whether they are here or not.
    """
    for key, path in input_paths(config):
        known = any(Path(path).is_relative_to(folder) for folder in on_nodes)
        if known or access.text_holds_secret(path):  # which is refused by itself, and not shown
            continue
        hint = f"or --on-nodes {path} if the nodes have it"
        if isinstance(cluster, SlurmBackend):
            if not _exists_here(Path(path)):
                yield f"{key}: {path} is not on this machine; valid: a path that is, {hint}"
            elif missing := _missing_file(key, Path(path)):
                yield f"{key}: {path} has no {missing}; valid: a folder with one, {hint}"
        elif not _may_be_in_pods(path, cluster.directory, [*cluster.volumes]):
            mounts = ", ".join(cluster.volumes) or "a volume"
            yield f"{key}: {path} lies in none of the volumes; valid: a path in {mounts}, {hint}"


def _missing_file(key: str, folder: Path) -> str:
    """The required file that a folder lacks; empty if it lacks none."""
    for begin, name in FILES.items():
        if key.startswith(begin) and not (folder / name).is_file():
            return name
    return ""


def _exists_here(path: Path) -> bool:
    """Whether a path, or a file that a pattern describes, is on this machine."""
    if _ALTERNATIVES in str(path) or path.exists():
        return True
    fixed = [*takewhile(lambda part: not set(part) & set(_PATTERN), path.parts)]
    base, pattern = Path(*fixed), path.parts[len(fixed) :]
    return bool(pattern) and any(True for _ in base.glob(str(Path(*pattern))))


def _may_be_in_pods(path: str, directory: str, volumes: Sequence[str]) -> bool:
    """Whether a path may exist in a pod: below a volume, or in the image, as in the project."""
    absolute = Path(directory) / path
    if any(absolute.is_relative_to(mount) for mount in volumes):
        return True
    return not Path(path).is_absolute() and _exists_here(ROOT / path)
