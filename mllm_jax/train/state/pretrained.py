"""The start from released weights: `model.pretrained`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from mllm_jax.hf_format.files import PretrainedError, StoredTensor, list_names
from mllm_jax.hf_format.tensor_rules import TensorRule, check_tensors
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.trainable import ADAPTERS
from mllm_jax.models.freeze import part_of_leaf
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import abstract_parameters
from mllm_jax.models.pretrained.adapters import SavedAdapters, adapter_rules
from mllm_jax.models.pretrained.load import FiniteCheck, load_tensors
from mllm_jax.models.pretrained.release import HEAD_KERNEL, Release, list_differences
from mllm_jax.train.state.loads import is_load
from mllm_jax.train.state.regroup import leaf_name

GB = 1e9
#: Parameters that a model may do without: a connector can read what comes before the last norm.
LAST_NORM = "norm."


def without_released(model: ModelConfig, params: Any) -> Any:
    """Parameters with zeros where `start_from` puts those of releases.

    Random values that it would replace are then neither compiled nor computed.
    """

    def leaf(path: tuple[Any, ...], value: jax.Array) -> jax.Array:
        released = model.sources[part_of_leaf(path)] is not None and not _keeps_initial_value(path)
        return jnp.zeros_like(value) if released else value

    return jax.tree_util.tree_map_with_path(leaf, params)


def start_from(
    model: ModelConfig, params: Any, target: Any, notify: Callable[[str], None] = lambda text: None
) -> Any:
    """Parameters with those of the releases in the place of random ones.

    Args:
        params: all parameters, at random or of `without_released`; leaves that releases replace are
            freed one by one.
        target: their shapes, types and shardings.
        notify: shows a line of progress.

    Raises:
        PretrainedError: a release cannot be read, its tensors are not those of the model, or hold
            numbers that are not finite in the type of their parameters.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    values = dict(leaves)
    targets, shapes = (
        dict(jax.tree_util.tree_leaves_with_path(tree))
        for tree in (target, abstract_parameters(model)[0])
    )
    for folder, parts in by_folder(model).items():
        release = open_release(folder, model, parts, notify)
        began, count, look = time.perf_counter(), 0, FiniteCheck()
        for part in parts:
            part_shapes = {
                path: shape for path, shape in shapes.items() if part_of_leaf(path) == part
            }
            for path, rule in _rules_by_path(release, part, model, part_shapes, notify).items():
                values[path].delete()
                name = rule.parameter
                values[path] = load_tensors(release.tensors, [rule], {name: targets[path]}, look)[
                    name
                ]
                count += values[path].nbytes
        jax.block_until_ready(list(values.values()))
        look.raise_if_not_finite()
        seconds = time.perf_counter() - began
        notify(f"{list_names(parts)} from {folder}: {count / GB:.3g} GB in {seconds:.1f} s")
    fresh = [part for part, folder in model.sources.items() if folder is None]
    if fresh:
        notify(f"at random: {list_names(fresh)}")
    return jax.tree_util.tree_unflatten(structure, values.values())


@dataclass(frozen=True)
class FirstAdapters:
    """Adapters that training begins with, and parameters that were trained in full with them.

    Attributes:
        folder: their folder, in PEFT's format.
        tensors: by their names in the release that they belong to.
        rules: by the names of the parameters that the tensors become.
        dropout: share of the adapters' inputs that their training left out, which is told.
    """

    folder: Path
    tensors: Mapping[str, StoredTensor]
    rules: Mapping[str, TensorRule]
    dropout: float = 0.0

    @classmethod
    def open(cls, model: ModelConfig, folder: Path) -> FirstAdapters:
        """The adapters of a folder, of which names and shapes are read, and no values.

        Raises:
            PretrainedError: the folder cannot be read, or its adapters are not those of
                `train.lora`.
        """
        adapters = model.adapters
        assert adapters is not None  # as train.lora is there
        saved = SavedAdapters.open(folder)
        saved.check_scale(adapters.rank, adapters.scale)
        release = _of_adapters(model, folder)
        tensors, rules, targets = (
            saved.released_tensors(release.release_format),
            dict[str, TensorRule](),
            set[str](),
        )
        every = replace(adapters, layers=tuple(model.linear_layers))
        for part in model.parts:
            module = part.partition(".")[0]
            depth = _module_config(model, part).layers
            rules_of_part = [
                _of_depth(release, part, rule, depth)
                for rule in release.part_rules(part, model.backbone)
            ]
            rules |= {
                f"{module}.{r.parameter}": r for r in rules_of_part if tensors.keys() >= {*r.names}
            }
            for rule in adapter_rules(rules_of_part, module, every):
                layer = f"{module}.{rule.parameter.rpartition('.')[0]}"
                if not tensors.keys().isdisjoint(rule.names):
                    targets.add(layer)
                if layer in adapters.names:
                    rules[f"{module}.{rule.parameter}"] = rule
        _check_targets(folder, targets, adapters.names)
        try:
            check_tensors(tensors, rules.values())
        except PretrainedError as error:
            raise PretrainedError(f"{folder}: {error}") from error
        return cls(folder, tensors, rules, saved.dropout)

    def place_adapters(
        self, params: Any, target: Any, notify: Callable[[str], None] = lambda text: None
    ) -> Any:
        """Parameters with these in their places; arguments and errors as of `start_from`."""
        leaves, structure = jax.tree_util.tree_flatten_with_path(params)
        targets = {leaf_name(p): leaf for p, leaf in jax.tree_util.tree_leaves_with_path(target)}
        values = {leaf_name(path): leaf for path, leaf in leaves}
        look = FiniteCheck()
        for name, rule in self.rules.items():
            values[name].delete()
            loaded = load_tensors(self.tensors, [rule], {rule.parameter: targets[name]}, look)
            values[name] = loaded[rule.parameter]
        look.raise_if_not_finite()
        notify(f"{len(self.tensors)} tensors of adapters from {self.folder}")
        if self.dropout:
            notify(
                f"lora_dropout {self.dropout:g} of {self.folder} is not used: nothing is left out"
            )
        return jax.tree_util.tree_unflatten(structure, values.values())


def _check_targets(folder: Path, stored: AbstractSet[str], expected: AbstractSet[str]) -> None:
    """Raise PretrainedError unless the layers that have adapters are those of the targets."""
    lacking, more = sorted(expected - stored), sorted(stored - expected)
    if not stored or not (lacking or more):
        return  # of none of the model's layers `check` tells
    problems = [f"has no adapters of {list_names(lacking)}"] if lacking else []
    problems += [f"has adapters of {list_names(more)}, which no target names"] if more else []
    raise PretrainedError(
        f"train.lora.begin_with: {folder} {' and '.join(problems)}; valid: train.lora.targets "
        f"[{', '.join(sorted(stored))}]"
    )


def _of_adapters(model: ModelConfig, folder: Path) -> Release:
    """The release whose names adapters have.

    Raises:
        PretrainedError: their parts of the model do not all come from one.
    """
    sources = {part: model.sources[part] for part in model.adapted}
    if len({*sources.values()}) != 1 or None in sources.values():
        sources_text = ", ".join(
            f"{part}: {source or 'random values'}" for part, source in sources.items()
        )
        raise PretrainedError(
            f"{folder} names layers as one release does, but model.pretrained has "
            f"{sources_text}; valid: one release for all parts of train.lora"
        )
    return Release.open(Path(next(filter(None, sources.values()))))


def by_folder(model: ModelConfig) -> dict[Path, list[str]]:
    """Parts of the model by the folder that they come from."""
    parts_by_folder = defaultdict[Path, list[str]](list)
    for part, folder in model.sources.items():
        if folder is not None:
            parts_by_folder[Path(folder)].append(part)
    return dict(parts_by_folder)


def open_release(
    folder: Path, model: ModelConfig, parts: list[str], notify: Callable[[str], None]
) -> Release:
    """A release with the tensors that it should have.

    Raises:
        PretrainedError: a release cannot be read, or has other parameters.
    """
    release = Release.open(folder)
    release.check_contents()
    for part in parts:
        for text in list_differences(release, model, part):
            notify(f"not as released: {text}")
    return release


def _rules_by_path(
    release: Release,
    part: str,
    model: ModelConfig,
    shapes: Mapping[Any, jax.ShapeDtypeStruct],
    notify: Callable[[str], None],
) -> dict[Any, TensorRule]:
    """Rules of a part by the paths of its leaves in the tree, for the layers of the model.

    Raises:
        PretrainedError: parameters have no rule, rules no parameter, or they differ in shape.
    """
    paths = {leaf_name(path[1:]): path for path in shapes}
    rules = {rule.parameter: rule for rule in release.part_rules(part, model.backbone)}
    if not model.graph.writes:
        rules.pop(HEAD_KERNEL, None)
    # What follows the load of experts and adapters are not released.
    paths = {
        name: path
        for name, path in paths.items()
        if name in rules or not _keeps_initial_value(path)
    }
    if missing := sorted(paths.keys() - rules.keys()):
        raise PretrainedError(
            f"{release.folder} has no weights of {part}: {list_names(missing)}; in "
            f"model.pretrained {part}: null makes them at random"
        )
    if extra := sorted(rules.keys() - paths.keys()):
        message = f"{release.folder} has weights that {part} has no place for: {list_names(extra)}"
        if not all(name.startswith(LAST_NORM) for name in extra):
            raise PretrainedError(message)
        notify(message)
    _check_shapes(release, part, [(rules[name], shapes[path]) for name, path in paths.items()])
    depth = _module_config(model, part).layers
    return {path: _of_depth(release, part, rules[name], depth) for name, path in paths.items()}


def _keeps_initial_value(path: tuple[Any, ...]) -> bool:
    """Whether a parameter keeps its initial value in spite of a release."""
    return is_load(path) or path[-1].key in ADAPTERS


def _check_shapes(
    release: Release, part: str, places: Iterable[tuple[TensorRule, jax.ShapeDtypeStruct]]
) -> None:
    """Raise PretrainedError that lists parameters of other shapes than the model's."""
    misfits = []
    for rule, parameter in places:
        stored, expected = rule.transform.shape, parameter.shape
        expected = expected[
            len(expected) - len(stored) :
        ]  # without the dimensions that count layers
        if expected != stored:
            misfits.append(f"{rule.parameter} {list(stored)}, not {list(expected)}")
    if misfits:
        message = f"{len(misfits)} misshapen: {list_names(misfits)}"
        raise PretrainedError(f"{release.folder} has other weights than {part}: {message}")


def _module_config(model: ModelConfig, part: str) -> ModuleConfig:
    return model.modules[part.partition(".")[0]]


def _of_depth(release: Release, part: str, rule: TensorRule, layers: int) -> TensorRule:
    """The rule of a parameter in a model of so many layers: the first ones of the release.

    Raises:
        PretrainedError: the release has fewer.
    """
    if rule.layers is None:
        return rule
    if rule.layers < layers:
        raise PretrainedError(
            f"{release.folder} has {rule.layers} layers of {part}, and the model {layers}; valid: "
            f"at most {rule.layers}"
        )
    return replace(rule, layers=layers)
