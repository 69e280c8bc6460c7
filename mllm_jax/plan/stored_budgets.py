"""The budgets of a run that has begun: in its configuration, or else in its newest checkpoint.

runs/demo/resolved.yaml                            the configuration, with a checksum
runs/demo/checkpoints/400/config/metadata          the same as JSON, in each checkpoint
runs/demo/checkpoints/400/config/checksums.json    and its checksums, see `train.state`
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from data.quotes import cut
from data.sample import DataError
from mllm_jax.config.strict_yaml import read_yaml
from mllm_jax.runtime.folder import RESOLVED, has_trained, steps_in
from mllm_jax.runtime.records import RecordDamageError, check_text

#: Type of `data.budgets` where they are given.
_GIVEN = TypeAdapter(dict[str, int])
#: The file of a configuration in a checkpoint, below `config`.
_CONFIG = "metadata"
#: Checkpoints, and characters of a reason, that a message names.
_NAMED, _LONGEST = 3, 200


@dataclass(frozen=True)
class StoredBudgets:
    """Budgets of a run.

    Attributes:
        budgets: the budgets.
        file: the file that holds them.
        instead: what cannot be read that should hold them, and why; empty if they are there.
    """

    budgets: Mapping[str, int]
    file: Path
    instead: str = ""


def has_begun(folder: Path) -> bool:
    """Whether a run has taken steps, or has a checkpoint."""
    if not (folder / RESOLVED).is_file():
        return bool(steps_in(folder))
    checkpoints = folder / "checkpoints"
    return has_trained(folder) or (checkpoints.is_dir() and any(checkpoints.iterdir()))


def read_stored_budgets(folder: Path) -> StoredBudgets:
    """The budgets of a run that has begun.

    Raises:
        DataError: neither its configuration nor a checkpoint says them.
    """
    reasons: list[str] = []
    for file in (folder / RESOLVED, *_checkpoint_configs(folder)):
        try:
            return StoredBudgets(_read_budgets(file), file, "; ".join(reasons[:_NAMED]))
        except RecordDamageError as error:
            reasons.append(f"{file} {error}")
    if len(reasons) == 1:
        reasons.append(f"{folder / 'checkpoints'} has no checkpoint")
    more = f"; {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
    raise DataError(
        "data.budgets: auto, but nothing in the run's folder says those that it has begun with: "
        f"{'; '.join(reasons[:_NAMED])}{more}; valid: budgets, or another run.name"
    )


def _checkpoint_configs(folder: Path) -> list[Path]:
    """The configurations in a run's checkpoints, the newest first."""
    steps = steps_in(folder)[::-1]
    return [folder / "checkpoints" / str(step) / "config" / _CONFIG for step in steps]


def _read_budgets(file: Path) -> dict[str, int]:
    """The budgets in a configuration.

    Raises:
        RecordDamageError: it is damaged, or does not say them.
    """
    try:
        if file.name == RESOLVED:
            check_text(file)
            values: Any = read_yaml(file)
        else:
            values = _read_checked(file)
        return _GIVEN.validate_python(values["data"]["budgets"])
    except RecordDamageError as error:
        raise RecordDamageError(f"is damaged ({cut(str(error), _LONGEST)})") from error
    except FileNotFoundError as error:
        raise RecordDamageError("is missing") from error
    except (OSError, ValueError, KeyError, TypeError, ValidationError, RecursionError) as error:
        raise RecordDamageError(f"does not say them ({type(error).__name__})") from error


def _read_checked(file: Path) -> Any:
    """The JSON in a file of a checkpoint, which is as it was written if it has checksums.

    Raises:
        RecordDamageError: it has changed.
        OSError, ValueError, KeyError, TypeError: it, or its checksums, cannot be read.
    """
    data = file.read_bytes()
    for path in sorted(file.parent.glob("checksums*.json")):
        sums = json.loads(path.read_bytes())
        recorded, size = sums["files"].get(file.name), int(sums["block"])
        blocks = [zlib.crc32(data[at : at + size]) for at in range(0, len(data), size)]
        if recorded is not None and (recorded["size"], recorded["crc32"]) != (len(data), blocks):
            raise RecordDamageError("it has changed since it was written")
    return json.loads(data)
