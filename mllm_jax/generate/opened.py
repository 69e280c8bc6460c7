"""A model for answers: the newest checkpoint of a run, or a release."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from pydantic import ValidationError

from mllm_jax.config.load import (
    ConfigError,
    ExperimentConfig,
    ScheduleConfig,
    apply_overrides,
    resolve_config,
)
from mllm_jax.hf_format.dtype_ranges import convert_values
from mllm_jax.models import module as multimodal
from mllm_jax.models.short_form import backbone_of, module_values, sections_of_modules
from mllm_jax.release.import_weights import released_experiment
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.fit import check_same_model
from mllm_jax.train.state.mirrors.remote_checkpoints import saved_parameters
from mllm_jax.train.state.pretrained import start_from, without_released
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.saved import SavedParameters
from sharding.plan import ParallelPlan

#: From the objects of an experiment to its parameters, as `Experiment.forward` lays them out.
Load = Callable[[Experiment], Any]


@dataclass(frozen=True)
class OpenedModel:
    """A model that is not loaded yet.

    Attributes:
        config: configuration under whose plans it answers.
        load: reads the parameters.
        named: what it is, for people.
    """

    config: ExperimentConfig
    load: Load
    named: str

    @property
    def stages(self) -> int:
        """Stages of the decoder's plan, which are part of fsdp where answers are written."""
        return self.config.parallel.backbone_plan.stage


def open_model(
    run: str | Path | None,
    release: str | Path | None,
    overrides: Sequence[str] = (),
    *,
    one_device: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> OpenedModel:
    """The model of a run or of a release.

    Args:
        run: folder of a run.
        release: folder of a released checkpoint with its tokenizer; one of both is given.
        overrides: `section.key=value`, e.g. of the section `parallel`.
        one_device: on one device, whatever the plans are.
        notify: shows a line of progress.

    Raises:
        ConfigError: both or neither are given, or a value is wrong.
        RunError: there is no such run. NoCheckpointError: it has no checkpoint.
        PretrainedError: the release cannot be used.
    """
    if (run is None) == (release is None):
        problem = "neither is given" if run is None else "both are given"
        raise ConfigError("generate", [f"--run and --release: {problem}; valid: one of them"])
    load: Load
    if release is not None:
        values, description = released_experiment(Path(release)), f"release {release}"
        load = partial(_load_release, notify)
    else:
        assert run is not None  # as one of them is given
        if not Path(run).is_dir():
            raise RunError(f"{run} is no folder of a run; valid: a folder below run.directory")
        saved = saved_parameters(Path(run))
        values, description = saved.config, f"step {saved.step} of {run}"
        load = partial(_load_checkpoint, saved)
    if one_device:
        values = _on_one_device(values)
    config = resolve_config(_with_rows(apply_overrides(values, overrides)), description)
    if not config.model.graph.writes:
        learnt = ", ".join(config.model.graph.objectives)
        problem = f"model.objectives: {learnt}: the model writes no answers; valid: next_token"
        raise ConfigError(description, [problem])
    return OpenedModel(config, load, description)


def _on_one_device(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without a plan."""
    parallel_values = values.get("parallel", {})
    backbone = backbone_of(values.get("model"))
    names = backbone, *module_values(parallel_values, backbone)
    plans = sections_of_modules({name: {} for name in names}, backbone)
    automatic = {"exchange": "auto", "overlap": "auto"}
    parallel = {**parallel_values, "devices": 1, "groups": {}, **plans, **automatic}
    schedule = ScheduleConfig().model_dump(mode="json")
    return {**values, "parallel": parallel, "schedule": schedule}


def _with_rows(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose number of rows its plans divide; answers need no certain number."""
    parallel, data = (dict(values.get(name) or {}) for name in ("parallel", "data"))
    plans = module_values(parallel, backbone_of(values.get("model"))).values()
    try:
        shares = math.lcm(*(ParallelPlan.model_validate(plan).batch for plan in plans))
    except ValidationError:  # which is reported with all else that is wrong
        return dict(values)
    rows = -(-int(data.get("rows", 1)) // shares) * shares
    return {**values, "data": {**data, "rows": rows}}


def _load_release(notify: Callable[[str], None], experiment: Experiment) -> Any:
    """Parameters of `model.pretrained`."""
    step, model = experiment.forward_step, experiment.config.model
    target, specs = step.abstract_state["params"], step.form.specs

    def initial(name: str, key: jax.Array) -> Any:
        params = multimodal.init_parameters(model, key)
        return step.form.to_stored(without_released(model, params))[name]

    def make(name: str) -> Any:
        program = step.jit_on(name, partial(initial, name), specs[name], placed=True)
        return synchronize_program(f"the parameters of {name}", program)(jax.random.key(0))

    return start_from(model, {name: make(name) for name in target}, target, notify)


def _load_checkpoint(saved: SavedParameters, experiment: Experiment) -> Any:
    """Parameters of a checkpoint, without the state of its optimizer.

    Raises:
        CheckpointError: they are those of another model.
        RangeError: a value is too large for the type that is computed in.
    """
    step = experiment.forward_step
    names, regrouping = step.form.names, step.form.regrouping
    target = {"params": names.to_stored(step.abstract_state["params"])}
    check_same_model(saved.description, saved.shapes, target, regrouping, saved.config)

    def leaf(path: Any, target_leaf: jax.ShapeDtypeStruct) -> jax.Array:
        name = leaf_name(path)
        value = np.asarray(
            regrouping.convert_leaf(name, saved[name.partition(".")[2]], target_leaf.shape)
        )
        value = convert_values(f"{saved.description}: {name}", value, target_leaf.dtype)
        return jax.make_array_from_callback(
            target_leaf.shape, target_leaf.sharding, value.__getitem__, dtype=value.dtype
        )

    return names.in_memory(jax.tree_util.tree_map_with_path(leaf, target)["params"])
