"""Descriptions of hardware by name: files in `configs/hardware/`, or written by `calibrate`.

`calibrate --slices` writes costs of modules that share a device, which are read here, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mllm_jax.config.strict_yaml import YamlError, read_yaml, shorten_repr
from scheduling.costs.hardware import Efficiency, Hardware, HardwareError, HardwareLink
from scheduling.costs.slices import SliceCosts

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "hardware"


def load_hardware(name: str) -> Hardware:
    """The description in `configs/hardware/<name>.yaml`, or in the file of that path.

    Raises:
        HardwareError: there is no such description, or it is wrong.
    """
    if name.endswith((".yaml", ".yml")):
        return read_hardware(Path(name))
    if name not in hardware_names():
        raise HardwareError(
            f"hardware {name!r} is unknown; valid: {', '.join(hardware_names())}, or a file "
            "NAME.yaml that `launch.py calibrate` has written"
        )
    return _read_shipped(name)


def hardware_names() -> list[str]:
    """The shipped descriptions.

    Raises:
        HardwareError: the folder has none.
    """
    names_found = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    if not names_found:
        raise HardwareError(
            f"{FOLDER}: holds no descriptions of hardware; they come with the project in "
            "configs/hardware/: install it again"
        )
    return names_found


@cache
def _read_shipped(name: str) -> Hardware:
    return read_hardware(FOLDER / f"{name}.yaml")


def read_hardware(path: Path) -> Hardware:
    """The description in a YAML file.

    Raises:
        HardwareError: the file cannot be read or is no description; the message says which keys are
            wrong and why.
    """
    try:
        values = read_yaml(path)
    except YamlError as error:
        raise HardwareError(f"{path}: {error}") from None
    if not isinstance(values, dict):
        raise HardwareError(f"{path}: must hold keys such as `flops:`, not {shorten_repr(values)}")
    try:
        return Hardware.model_validate(values)
    except ValidationError as error:
        problems = map(_explain_error, error.errors(include_url=False))
        raise HardwareError(f"{path}: {'; '.join(problems)}") from None


def read_slice_costs(path: Path) -> SliceCosts:
    """The costs in a JSON file of `launch.py calibrate --slices`.

    Raises:
        HardwareError: the file cannot be read or holds no such costs.
    """
    source = "a file that `launch.py calibrate --slices` has written"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return SliceCosts.model_validate_json(json.dumps(values["costs"]))
    except OSError as error:
        raise HardwareError(f"{path}: {error.strerror}; valid: {source}") from None
    except ValidationError as error:
        problems = (
            f"costs.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
        )
        raise HardwareError(f"{path}: {'; '.join(problems)}; valid: {source}") from None
    except (ValueError, KeyError, TypeError):
        raise HardwareError(f"{path}: holds no JSON with `costs`; valid: {source}") from None


def _explain_error(detail: ErrorDetails) -> str:
    """Dotted key, value, reason and, for an unknown key, the valid ones."""
    *parents, _ = path = [str(part) for part in detail["loc"]]
    name = ".".join(path)
    if detail["type"] == "extra_forbidden":
        section = _SECTIONS[parents[0]] if parents else Hardware
        return f"{name}: unknown key; valid: {', '.join(section.model_fields)}"
    if detail["type"] == "missing":
        return f"{name}: required, but not given"
    reason = detail["msg"].removeprefix("Value error, ")
    return f"{name}: {shorten_repr(detail['input'])} is refused: {reason}"


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "link": HardwareLink,
    "network": HardwareLink,
    "efficiency": Efficiency,
}


def of_kind(device_kind: str) -> Hardware | None:
    """The shipped description of a `jax.Device.device_kind`, None if there is none.

    If several prefixes match, the longest one counts.
    """
    matches = [
        (len(kind), hardware)
        for hardware in map(load_hardware, hardware_names())
        for kind in hardware.kinds
        if device_kind.startswith(kind)
    ]
    return max(matches, key=lambda pair: pair[0])[1] if matches else None
