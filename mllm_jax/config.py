"""Experiments as typed values: YAML file, `base:` files and command-line overrides into one model.

    configs/base.yaml  <-  configs/demo.yaml (base: base.yaml)  <-  train.steps=10

Later layers win key by key. The result is validated once, strictly; `load` raises one
`ConfigError` that lists everything that is wrong. The sections are in
`mllm_jax/config_sections.py`, and what several of them must agree on (degrees against heads,
budgets against degrees) is in `mllm_jax/config_checks.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from data.configured_chat import make_chat, read_files
from data.places import local
from data.sample import DataError
from mllm_jax.config_checks import check, check_unplanned
from mllm_jax.config_keys import choices, nearest, siblings
from mllm_jax.config_sections import (
    AdamWConfig,
    CheckpointConfig,
    ConfigError,
    EvaluateConfig,
    ExperimentConfig,
    MuonConfig,
    OptimizerConfig,
    ParallelConfig,
    ParameterGroup,
    RunConfig,
    ScheduleConfig,
    TrainConfig,
)

__all__ = [
    "AdamWConfig",
    "CheckpointConfig",
    "ConfigError",
    "EvaluateConfig",
    "ExperimentConfig",
    "MuonConfig",
    "OptimizerConfig",
    "ParallelConfig",
    "ParameterGroup",
    "RunConfig",
    "ScheduleConfig",
    "TrainConfig",
    "load",
    "read",
    "resolve",
    "to_yaml",
]


def load(
    path: str | Path, overrides: Sequence[str] = (), *, planned: bool = True
) -> ExperimentConfig:
    """Read, merge and check a configuration.

    Args:
        path: YAML file; its key `base` names another file, relative to it, that it refines.
        overrides: `section.key=value`, values in YAML, e.g. `train.steps=10`.
        planned: its plans must fit its devices, model and rows; else they are to be found.

    Raises:
        ConfigError: anything is wrong; the message lists all of it.
    """
    values = read(Path(path))
    for override in overrides:
        _override(values, override)
    return resolve(values, source=str(path), planned=planned)


def resolve(values: Mapping[str, Any], source: str, *, planned: bool = True) -> ExperimentConfig:
    """Validate `values` and the agreement of their sections; `source` heads the error.

    Raises:
        ConfigError: as in `load`.
    """
    values = _as_released(values, source)
    try:
        config = ExperimentConfig.model_validate(values)
    except ValidationError as error:
        problems = [_explain(detail, values) for detail in error.errors(include_url=False)]
        raise ConfigError(source, list(dict.fromkeys(problems))) from None
    problems = list(_coerced(values, config.model_dump(mode="json")))
    if not problems:
        config, problems = _with_vocabulary(config)
    problems = problems or (check(config) if planned else check_unplanned(config))
    if problems:
        raise ConfigError(source, problems)
    return config


def _as_released(values: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """Values with what they leave out of `model` as the checkpoints of `pretrained` say."""
    model = values.get("model")
    pretrained = model.get("pretrained") if isinstance(model, dict) else None
    _check_local(pretrained, source)
    if not isinstance(model, dict) or not isinstance(pretrained, str | dict) or "decoder" in model:
        return values
    from mllm_jax.models.pretrained.files import PretrainedError
    from mllm_jax.models.pretrained.release import composed

    try:
        released = composed(pretrained)
    except (PretrainedError, TypeError) as error:
        raise ConfigError(source, [f"model.pretrained: {error}"]) from None
    return {**values, "model": _merge(released, model)}


def _check_local(pretrained: object, source: str) -> None:
    """Refuse weights that are not on this machine."""
    for place in pretrained.values() if isinstance(pretrained, dict) else (pretrained,):
        try:
            local(place)
        except ValueError as error:
            raise ConfigError(source, [f"model.pretrained: {error}"]) from None


def _with_vocabulary(config: ExperimentConfig) -> tuple[ExperimentConfig, list[str]]:
    """`model.decoder.vocab: null` becomes the tokenizer's size, rounded up to a multiple of 64.

    The rounding leaves room for tensor degrees up to 64; the ids added are never targets. With a
    vocabulary that is given, `data.processor` may be missing yet: whatever reads data refuses that.
    """
    data, given = config.data, config.model.decoder.vocab
    if given is not None and data.processor is not None and not data.processor.exists():
        return config, []
    try:
        kinds = [encoder.modality for encoder in config.model.encoders.values()]
        size = make_chat(data, kinds, read_files(data)).vocab_size
    except DataError as error:
        return config, [str(error)]
    if given is not None:
        few = f"model.decoder.vocab: {given} is less than the tokenizer's {size} ids; valid: null"
        return config, [few] if given < size else []
    decoder = config.model.decoder.model_copy(update={"vocab": -(-size // 64) * 64})
    model = config.model.model_copy(update={"decoder": decoder})
    return config.model_copy(update={"model": model}), []


def _coerced(given: Any, taken: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Values that only fit their type after a conversion, such as the text "4" for a number."""
    if isinstance(given, Mapping) and isinstance(taken, Mapping):
        for key in given:
            yield from _coerced(given[key], taken.get(str(key)), (*path, str(key)))
    elif isinstance(given, list) and isinstance(taken, list):
        for i, (left, right) in enumerate(zip(given, taken, strict=False)):
            yield from _coerced(left, right, (*path, str(i)))
    elif given is not None and _kind(given) != _kind(taken):
        wanted = f"a {_kind(taken)}, e.g. {json.dumps(taken)}"
        yield f"{'.'.join(path)}: {json.dumps(given)} is a {_kind(given)}, not {wanted}"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth value"
    return "number" if isinstance(value, int | float) else type(value).__name__


def to_yaml(config: ExperimentConfig) -> str:
    """The resolved configuration; `load` of it gives an equal value."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, width=100)


class _Loader(yaml.SafeLoader):
    """YAML 1.2 where it matters: `1e-3` is a number, and a repeated key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise yaml.MarkedYAMLError(problem=f"line {line}: key {key.value!r} appears twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def read(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Values of a YAML file merged over those of its `base`.

    Raises:
        ConfigError: a file is missing, is no YAML mapping, or is its own base.
    """
    resolved = path.resolve()
    if resolved in seen:
        chain = " -> ".join(str(p.name) for p in (*seen, resolved))
        raise ConfigError(str(path), [f"base: a file cannot be its own base: {chain}"])
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [f"cannot be read: {error}"]) from None
    except yaml.YAMLError as error:
        raise ConfigError(str(path), [f"is not YAML: {error}"]) from None
    if not isinstance(values, dict):
        raise ConfigError(str(path), [f"must hold sections such as `train:`, not {values!r}"])
    base = values.pop("base", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise ConfigError(str(path), [f"base: {base!r} is not the name of a file"])
    return _merge(read(path.parent / base, (*seen, resolved)), values)


def _merge(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `base`, mappings key by key, everything else replaced."""
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge(old, value) if both and old is not None else value
    return merged


def _override(values: dict[str, Any], override: str) -> None:
    """Set one `section.key=value` in `values`; validation refuses paths that do not exist."""
    path, sign, text = override.partition("=")
    if not sign or not all(path.split(".")):
        raise ConfigError(override, ["an override reads section.key=value, e.g. train.steps=10"])
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(override, [f"the value is not YAML: {error}"]) from None
    *parents, last = path.split(".")
    node = values
    for part in parents:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise ConfigError(override, [f"{part} is the value {child!r}, not a section"])
        node = child
    node[last] = value


def _explain(detail: ErrorDetails, values: Mapping[str, Any]) -> str:
    """One line for one validation error: dotted path, reason, valid choices."""
    path = _path(detail, values)
    name = ".".join(path)
    valid = siblings(ExperimentConfig, path, values) if path else []
    if detail["type"] == "extra_forbidden":
        guess = nearest(ExperimentConfig, path, valid)
        return f"{name}: unknown key; did you mean {guess}? valid here: {', '.join(valid)}"
    if detail["type"] == "missing":
        return f"{name}: required, but not given"
    if detail["type"].startswith("union_tag"):
        field = detail["ctx"]["discriminator"].strip("'")
        valid = choices(ExperimentConfig, (*path, field), values)
        given = detail["ctx"].get("tag")
        problem = f"{given} is refused" if given else "required, but not given"
        return f"{name}.{field}: {problem}; valid: {', '.join(valid)}"
    reason = detail["msg"].removeprefix("Value error, ")
    if isinstance(detail["input"], dict):
        return f"{name}: {reason}"
    return f"{name}: {json.dumps(detail['input'], default=str)} is refused: {reason}"


def _path(detail: ErrorDetails, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Location without the names of union members that pydantic puts between the keys."""
    path: list[str] = []
    node: Any = values
    *parents, last = detail["loc"] or ("",)
    for part in parents:
        if _holds(node, part):
            node = node[part]
            path.append(str(part))
    inside = _holds(node, last) or detail["type"] == "missing"
    return (*path, str(last)) if inside else tuple(path)


def _holds(node: Any, part: int | str) -> bool:
    """Whether `part` is a key, or the number of an item, of `node`."""
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, dict) and part in node
