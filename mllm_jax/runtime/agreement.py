"""Processes of one run must run the same: differences are named before they can do harm."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from mllm_jax.runtime.run_peers import current_peers

#: Name of a fact to its value, JSON.
Facts = Mapping[str, Any]

#: Packages whose versions decide the results of a run.
VERSIONS = (
    *("mllm_jax", "jax", "jaxlib", "numpy", "scipy", "optax", "flax", "grain", "orbax-checkpoint"),
    *("tokenizers", "jinja2", "pillow", "soundfile"),
)

#: The code of this project, in folders and in files.
PACKAGES = ("data", "mllm_jax", "scheduling", "sharding")
SCRIPTS = ("launch.py",)

#: Keys that may differ between hosts: where files are, and how it reads them. That it reads the
#: same is checked by the identity of the data, the tokenizer included (`data.loading.identity`).
OWN_KEYS = re.compile(
    r"run\.(compilation_cache|compiled_steps)|checkpoint\.local_folder|"
    r"data\.(cache|lengths_folder|workers|prefetch|processor|source\.(.*\.)?(path|media)(\..*)?)"
)

#: Differences that a message lists.
SHOWN = 8


class AgreementError(ValueError):
    """Processes of one run differ; the message names them and the differing facts."""


def check_agreement(name: str, facts: Facts | None) -> None:
    """Check that all processes have the same `facts`.

    Only digests are exchanged while they are equal.

    Args:
        name: name of the exchange, for messages.
        facts: facts of this process; None: it has none, and the others compare theirs.

    Raises:
        AgreementError: the processes differ; it is raised on all of them.
    """
    text = json.dumps(facts, sort_keys=True)
    digest = None if facts is None else hashlib.sha256(text.encode()).hexdigest()
    if len({*current_peers().gather_values(name, digest)} - {None}) > 1:
        details = None if facts is None else dict(facts)
        lines = list_differences(current_peers().gather_values(f"{name}, in detail", details))
        more = f"\n  and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
        raise AgreementError(
            "the processes of this run differ:\n  " + "\n  ".join(lines[:SHOWN]) + more
        )


def list_differences(every: Sequence[Facts | None]) -> list[str]:
    """A line for each process and fact that differs from what most processes have.

    Processes with None are left out.

    If two values are equally frequent, that of the process with the lowest number counts.
    """
    lines, given = [], {i: facts for i, facts in enumerate(every) if facts is not None}
    for key in sorted(set().union(*given.values())):
        values = {i: _fact_text(facts, key) for i, facts in given.items()}
        usual = Counter(values.values()).most_common(1)[0][0]
        first = next(i for i, value in values.items() if value == usual)
        others = "the others" if len(given) > 2 else f"process {first}"
        lines += [
            f"process {i} has {key} {value}, {others} {usual}"
            for i, value in values.items()
            if value != usual
        ]
    return lines


def _fact_text(facts: Facts, key: str) -> str:
    return json.dumps(facts[key], sort_keys=True) if key in facts else "(none)"


def flatten_config(value: Any, path: str = "") -> dict[str, Any]:
    """Leaves of nested dicts by their dotted paths."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    return {
        key: leaf
        for name, inner in value.items()
        for key, leaf in flatten_config(inner, f"{path}.{name}" if path else name).items()
    }


def config_facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a configuration (as JSON), without keys that may differ between hosts."""
    return {
        key: leaf
        for key, leaf in flatten_config(dict(config)).items()
        if not OWN_KEYS.fullmatch(key)
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide the results of a run."""
    return {name: version_of(name) or "(not installed)" for name in VERSIONS}


def code_facts() -> dict[str, str]:
    """Versions, and a digest of every source file of ours."""
    facts = {f"version of {name}": version for name, version in package_versions().items()}
    root = Path(__file__).parents[2]
    sources = [root / name for name in SCRIPTS if (root / name).is_file()]
    sources += [path for name in PACKAGES for path in sorted((root / name).rglob("*.py"))]
    for path in sources:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        facts[f"source {path.relative_to(root).as_posix()}"] = digest
    return facts


def installed_versions() -> dict[str, str]:
    """The version of each package, by its normalised name; the one that Python would import.

    The same, whatever the process has imported: the backport `importlib_metadata`, which dashboards
    import, replaces Python's search, and raises where that gives nothing.
    An installation that was interrupted may leave a folder without a name or a version, or with
    metadata that cannot be read: it is no package.
    """
    versions: dict[str, str] = {}
    for name, version in _names_and_versions(distributions()):
        versions.setdefault(name, version)
    return dict(sorted(versions.items()))


def version_of(name: str) -> str | None:
    """The version of one package; None: it is not installed."""
    return next((version for _, version in _names_and_versions(distributions(name=name))), None)


def _names_and_versions(packages: Iterable[Distribution]) -> Iterator[tuple[str, str]]:
    for package in packages:
        name, version = (_metadata_field(package, key) for key in ("Name", "Version"))
        if name and version:
            yield re.sub(r"[-_.]+", "-", name).lower(), version


def _metadata_field(package: Distribution, key: str) -> str:
    try:
        return (package.metadata.get_all(key) or [""])[0]
    except Exception:  # of any class: the search for packages may be somebody else's
        return ""
