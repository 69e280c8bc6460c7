"""Changes of the configuration since a checkpoint was saved, and their messages.

A change of the results (model, data, training) is a warning. A change that keeps the results, such
as other plans, is information.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

#: Sections that decide the results of a run.
COMPUTED = ("model", "data", "train")
#: Keys of these sections that do not change the results.
PLACES = (
    "data.accept_changes",
    "data.cache",
    "data.lengths_folder",
    "data.prefetch",
    "data.workers",
)


def log_config_changes(saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Log every key of a resumed run that has changed."""
    for section in now:
        for key, change in changed_keys(saved, now, section).items():
            if section in COMPUTED and key not in PLACES:
                logger.warning("resuming with another configuration: %s", change)
            else:
                logger.info("resuming under another plan or setting: %s", change)


def changed_keys(saved: Mapping[str, Any], now: Mapping[str, Any], section: str) -> dict[str, str]:
    """Differences of a section by their paths, as `path: old -> new`."""
    old, new = _flatten_values(saved.get(section), section), _flatten_values(now[section], section)
    return {
        path: f"{path}: {old.get(path)} -> {new.get(path)}"
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    }


def _flatten_values(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {path: value}
    parts = (_flatten_values(inner, f"{path}.{key}") for key, inner in value.items())
    return {key: leaf for part in parts for key, leaf in part.items()}
