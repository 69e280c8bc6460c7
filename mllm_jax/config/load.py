"""Experiments as typed values: YAML file, `base:` files and command-line overrides into one model.

    configs/base.yaml  <-  configs/demo.yaml (base: base.yaml)  <-  train.steps=10

Later layers win key by key. The result is validated once, strictly; `load_config` raises one
`ConfigError` that lists everything that is wrong. The sections are in
`mllm_jax/config/sections.py`, what several of them must agree on (degrees against heads, budgets
against degrees) in `mllm_jax/config/checks`. Nothing here loads jax, and a mistake in a key is
reported before anything is loaded that computes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from data.places import local
from mllm_jax.config.explain import explain_error, find_coerced
from mllm_jax.config.renamed_keys import RenameError, of_command
from mllm_jax.config.run import ParallelConfig, RunConfig
from mllm_jax.config.sections import (
    AdamWConfig,
    CheckpointConfig,
    ConfigError,
    EvaluateConfig,
    ExperimentConfig,
    LambConfig,
    MuonConfig,
    OptimizerConfig,
    ParameterGroup,
    ScheduleConfig,
    TrainConfig,
)
from mllm_jax.config.strict_yaml import (
    DEEPEST,
    YamlError,
    parse_yaml,
    read_yaml,
    shorten_repr,
    write_yaml,
)
from mllm_jax.models.short_form import (
    BACKBONE,
    MODULES,
    backbone_of,
    module_values,
    sections_of_modules,
)
from mllm_jax.models.written_form import as_dumped, in_source_form

__all__ = [
    "AdamWConfig",
    "CheckpointConfig",
    "ConfigError",
    "EvaluateConfig",
    "ExperimentConfig",
    "LambConfig",
    "MuonConfig",
    "OptimizerConfig",
    "ParallelConfig",
    "ParameterGroup",
    "RunConfig",
    "ScheduleConfig",
    "TrainConfig",
    "apply_overrides",
    "load_config",
    "read_values",
    "resolve_config",
    "to_yaml",
    "written_before",
]

#: Files of a chain of `base:`.
MOST_BASES = 32


def load_config(
    path: str | Path, overrides: Sequence[str] = (), *, planned: bool = True
) -> ExperimentConfig:
    """Read, merge and check a configuration.

    Args:
        path: YAML file; its key `base` names another file, relative to it, that it refines.
        overrides: `section.key=value`, values in YAML, e.g. `train.steps=10`.
        planned: whether its plans must fit its devices, model and rows; otherwise plans are still
            to be found.

    Raises:
        ConfigError: anything is wrong; the message lists all of it.
    """
    values = apply_overrides(read_values(Path(path)), overrides)
    return resolve_config(values, source=str(path), planned=planned)


def apply_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """`values` with `section.key=value`s set. Raises ConfigError: one cannot be read."""
    changed = copy.deepcopy(dict(values))
    for override in overrides:
        _set_override(changed, override)
    return changed


def resolve_config(
    values: Mapping[str, Any], source: str, *, planned: bool = True
) -> ExperimentConfig:
    """Validate `values` and the agreement of their sections; `source` heads the error.

    Raises:
        ConfigError: as in `load_config`.
    """
    values = _as_released(values, source)
    try:
        config = ExperimentConfig.model_validate(values)
    except ValidationError as error:
        problems = [explain_error(detail, values) for detail in error.errors(include_url=False)]
        raise ConfigError(source, list(dict.fromkeys(problems))) from None
    read = {**values, "model": as_dumped(values["model"])}
    problems = list(find_coerced(read, config.model_dump(mode="json")))
    if problems:
        raise ConfigError(source, problems)
    # Not loaded for a mistake in a key, which is reported that much sooner.
    from mllm_jax.config.agreement import resolve_agreement

    config, problems = resolve_agreement(config, planned=planned)
    if problems:
        raise ConfigError(source, problems)
    return config


def _as_released(values: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """Values with keys missing from `model` filled in from the checkpoints of `pretrained`."""
    model = values.get("model")
    pretrained = model.get("pretrained") if isinstance(model, dict) else None
    _check_local(pretrained, source)
    if not isinstance(model, dict) or not isinstance(pretrained, str | dict):
        return values
    backbone, modules = backbone_of(model), model.get(MODULES, {})
    if BACKBONE in model or not isinstance(modules, dict) or backbone in modules:
        return values
    from mllm_jax.hf_format.files import PretrainedError
    from mllm_jax.models.pretrained.release import compose_model

    try:
        released = compose_model(pretrained, backbone)
    except (PretrainedError, TypeError) as error:
        raise ConfigError(source, [f"model.pretrained: {error}"]) from None
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        where = f"{error.strerror}: {shorten_repr(error.filename)}"
        raise ConfigError(source, [f"model.pretrained: cannot be looked for: {where}"]) from None
    if modules:  # in the form that the modules of the release have
        model = {key: value for key, value in model.items() if key != MODULES}
        model |= sections_of_modules(modules, backbone)
    try:  # what edges have is not that of the release
        model = in_source_form(model, backbone, module_values(released, backbone))
    except ValueError as error:
        raise ConfigError(source, [f"model: {error}"]) from None
    return {**values, "model": _merge_values(released, model)}


def _check_local(pretrained: object, source: str) -> None:
    """Refuse weights that are not on this machine."""
    for place in pretrained.values() if isinstance(pretrained, dict) else (pretrained,):
        try:
            local(place)
        except ValueError as error:
            raise ConfigError(source, [f"model.pretrained: {error}"]) from None


def to_yaml(config: ExperimentConfig) -> str:
    """The resolved configuration; `load_config` of it gives an equal value."""
    return write_yaml(config.model_dump(mode="json"))


def read_values(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Values of a YAML file merged over those of its `base`.

    Raises:
        ConfigError: a file is missing, is no YAML mapping, or is its own base.
    """
    if len(seen) == MOST_BASES:
        raise ConfigError(str(path), [f"base: more than {MOST_BASES} files refine one another"])
    try:
        resolved = path.resolve()
        values = read_yaml(path)
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a path with a NUL
        raise ConfigError(str(path), [str(error)]) from None
    if resolved in seen:
        chain = " -> ".join(str(p.name) for p in (*seen, resolved))
        raise ConfigError(str(path), [f"base: a file cannot be its own base: {chain}"])
    if not isinstance(values, dict):
        raise ConfigError(
            str(path), [f"must hold sections such as `train:`, not {shorten_repr(values)}"]
        )
    base = values.pop("base", None)
    if base is None:
        return written_before(values, str(path))
    if not isinstance(base, str):
        raise ConfigError(str(path), [f"base: {shorten_repr(base)} is not the name of a file"])
    return _merge_values(read_values(path.parent / base, (*seen, resolved)), values)


def written_before(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Values with the keys of today, if a command wrote them; `source` heads the error.

    Raises:
        ConfigError: a value under an old key has no counterpart.
    """
    try:
        return of_command(values)
    except RenameError as error:
        raise ConfigError(source, [str(error)]) from None


def _merge_values(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `base`, mappings key by key, everything else replaced."""
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge_values(old, value) if both and old is not None else value
    return merged


def _set_override(values: dict[str, Any], override: str) -> None:
    """Set one `section.key=value` in `values`; validation refuses paths that do not exist."""
    path, sign, text = override.partition("=")
    if not sign or not all(path.split(".")):
        raise ConfigError(override, ["an override reads section.key=value, e.g. train.steps=10"])
    try:
        value = parse_yaml(text)
    except YamlError as error:
        raise ConfigError(override, [f"the value is not YAML: {error}"]) from None
    *parents, last = path.split(".")
    if len(parents) >= DEEPEST:
        raise ConfigError(override, [f"the key has more than {DEEPEST} parts"])
    node = values
    for part in parents:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise ConfigError(
                override, [f"{part} is the value {shorten_repr(child)}, not a section"]
            )
        node = child
    node[last] = value
