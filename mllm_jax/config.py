"""Experiments as typed values: YAML file, `base:` files and command-line overrides into one model.

    configs/base.yaml  <-  configs/demo.yaml (base: base.yaml)  <-  train.steps=10

Later layers win key by key. The result is validated once, strictly; `load` raises one
`ConfigError` that lists everything that is wrong. Checks that need several sections (degrees
against heads, budgets against degrees) are in `mllm_jax/config_checks.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from data.config import DataConfig
from data.processor import make_chat, read_files
from data.sample import DataError
from mllm_jax.config_checks import check, check_unplanned
from mllm_jax.config_keys import choices, nearest, siblings
from mllm_jax.models.config import ModelConfig
from sharding.plan import ParallelPlan


class ConfigError(ValueError):
    """A configuration that cannot be run; the message lists every reason."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {p}" for p in problems))


class Section(BaseModel):
    """Base of the sections that this file owns: no unknown keys, no changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunConfig(Section):
    """Where a run is kept and how often it reports.

    Args:
        name: the run's folder is `directory`/`name`; the same name resumes the run.
        directory: folder of all runs.
        log_every: steps between two log lines.
        tensorboard: write TensorBoard event files beside `metrics.jsonl`.
        trace_step: step of a pipeline whose ticks are measured on every device and written to
            `step-<n>.json` and `.png` in the run's folder; that step alone is slowed down.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    directory: str = "runs"
    log_every: int = Field(10, ge=1)
    tensorboard: bool = True
    trace_step: int | None = Field(None, ge=1)

    @property
    def path(self) -> Path:
        """Folder of this run."""
        return Path(self.directory) / self.name


class ParallelConfig(Section):
    """Devices and the plan of every module over them.

    Args:
        platform: kind of device; `cpu` emulates `devices` devices on the host.
        devices: devices of all processes together; every plan multiplies to it.
        distributed: let JAX find the other processes (TPU pods, SLURM, Open MPI) by itself.
        decoder: degrees of the decoder.
        encoders: degrees of each encoder, on the same devices; an encoder needs an entry here.
    """

    platform: Literal["cpu", "gpu", "tpu"] = "cpu"
    devices: int = Field(1, ge=1)
    distributed: bool = False
    decoder: ParallelPlan = ParallelPlan()
    encoders: dict[str, ParallelPlan] = Field(default_factory=dict)

    @property
    def plans(self) -> dict[str, ParallelPlan]:
        """Plans of all modules by name, the decoder's first."""
        return {"decoder": self.decoder, **self.encoders}


class ScheduleConfig(Section):
    """How the stages of the decoder's pipeline share the work; see docs/pipeline.md.

    The microbatches of the pipeline are those of `train.accumulate`.

    Args:
        kind: `1f1b` (interleaved with more than one chunk) or `gpipe`.
        chunks: virtual chunks of layers on every stage.
        encoder_placement: where the encoders' work goes: `bubbles` of the decoder's pipeline,
            `prologue` (before and after it, on all stages alike) or `first_stage`.
        fill: bubbles that take encoder work: `pipeline` (idle slots), `tensor` (beside decoder
            tasks, traced side by side), `data` (beside the gather of the parameters and the scatter
            of the gradients).
        live: bound on encoder outputs that wait for the decoder, in microbatches of all stages, or
            null for twice the stages.
        work_ahead: let the last bubbles of a step take forwards of the next one, of encoders that
            are frozen with their connectors; batches are then read one step ahead.
        pieces: encoder name to the number of pieces that its layers are cut into; an encoder that
            is not named is cut to fit the bubbles.
        hardware: name of a description in configs/hardware/, or a file that `launch.py calibrate`
            has written: encoders are placed by the seconds that tasks take on it, and beside the
            gather of the parameters and the scatter of the gradients; null: by FLOPs. `simulate`
            and `plan` take it, too, unless they are told another.
        fsdp_gather: parameters are gathered over fsdp once a `step`, or `layer` by layer, which
            takes less memory and more communication.
        pad_layers: let layers that do not divide by stages x chunks be rounded up; layers that are
            padding cost time and do nothing.
    """

    kind: Literal["1f1b", "gpipe"] = "1f1b"
    chunks: int = Field(1, ge=1)
    encoder_placement: Literal["first_stage", "prologue", "bubbles"] = "bubbles"
    fill: tuple[Literal["pipeline", "tensor", "data"], ...] = ("pipeline", "tensor", "data")
    live: int | None = Field(None, ge=1)
    work_ahead: bool = True
    pieces: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    hardware: str | None = None
    fsdp_gather: Literal["step", "layer"] = "step"
    pad_layers: bool = False


class AdamWConfig(Section):
    """AdamW (Loshchilov and Hutter 2019).

    Args:
        kind: name of the optimizer.
        beta1: decay of the mean of the gradients.
        beta2: decay of the mean of their squares.
        epsilon: added to the root of the second moment.
    """

    kind: Literal["adamw"] = "adamw"
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    epsilon: float = Field(1e-8, gt=0)


class MuonConfig(Section):
    """Muon (Jordan et al. 2024) on the matrices of the layers, AdamW on everything else.

    Args:
        kind: name of the optimizer.
        momentum: decay of the momentum that is orthogonalised.
        nesterov: Nesterov momentum.
        iterations: Newton-Schulz iterations.
        adam_learning_rate_ratio: learning rate of the AdamW part over `train.learning_rate`.
        beta1: as in `adamw`, for the AdamW part.
        beta2: as in `adamw`, for the AdamW part.
        epsilon: as in `adamw`, for the AdamW part.
    """

    kind: Literal["muon"]
    momentum: float = Field(0.95, ge=0, lt=1)
    nesterov: bool = True
    iterations: int = Field(5, ge=1)
    adam_learning_rate_ratio: float = Field(0.3, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    epsilon: float = Field(1e-8, gt=0)


OptimizerConfig = Annotated[AdamWConfig | MuonConfig, Field(discriminator="kind")]


class ParameterGroup(Section):
    """Parameters that train in another way than the others.

    Args:
        learning_rate: peak, in place of `train.learning_rate`; the schedule is the same.
    """

    learning_rate: float = Field(gt=0)


class TrainConfig(Section):
    """Optimization.

    Args:
        steps: optimizer steps of the whole run.
        seed: seed of parameters, data order and augmentation.
        learning_rate: peak, reached after `warmup_steps`.
        warmup_steps: steps of linear warm-up.
        final_learning_rate_ratio: learning rate at the last step over the peak (cosine decay).
        weight_decay: decoupled weight decay of matrices.
        clip_norm: bound on the global gradient norm, or null for none.
        accumulate: batches of `data.rows` rows whose gradients make one step; the microbatches of a
            pipeline.
        freeze: what keeps its initial parameters: `decoder`, names of encoders, whose connectors
            still train, or `<name>.connector`.
        groups: by `decoder`, `<encoder>` (without its connector) or `<encoder>.connector`, what its
            parameters have of their own.
        optimizer: `adamw` or `muon` and its hyperparameters.
    """

    steps: int = Field(ge=1)
    seed: int = Field(0, ge=0, lt=2**32)
    learning_rate: float = Field(gt=0)
    warmup_steps: int = Field(0, ge=0)
    final_learning_rate_ratio: float = Field(0.1, ge=0, le=1)
    weight_decay: float = Field(0.1, ge=0)
    clip_norm: float | None = Field(1.0, gt=0)
    accumulate: int = Field(1, ge=1)
    freeze: tuple[str, ...] = ()
    groups: dict[str, ParameterGroup] = Field(default_factory=dict)
    optimizer: OptimizerConfig = AdamWConfig()


class CheckpointConfig(Section):
    """Checkpoints of model, optimizer, loader state and configuration.

    Args:
        enabled: write checkpoints and resume from them.
        every: steps between two checkpoints; the last step is always saved.
        keep: newest checkpoints that are kept.
        asynchronous: write in the background while training goes on.
    """

    enabled: bool = True
    every: int = Field(100, ge=1)
    keep: int = Field(2, ge=1)
    asynchronous: bool = True


class EvaluateConfig(Section):
    """Greedy decoding on held-out samples.

    Args:
        enabled: evaluate at the end of training.
        samples: held-out samples to decode, or null for the whole split.
        max_new_tokens: longest answer in tokens.
        every: steps between two evaluations during training, or null for the end only.
    """

    enabled: bool = True
    samples: int | None = Field(None, ge=1)
    max_new_tokens: int = Field(16, ge=1)
    every: int | None = Field(None, ge=1)


class ExperimentConfig(Section):
    """One experiment; `load` makes it, nothing changes it."""

    run: RunConfig
    model: ModelConfig
    parallel: ParallelConfig = ParallelConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    data: DataConfig
    train: TrainConfig
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluate: EvaluateConfig = EvaluateConfig()

    @property
    def budget_units(self) -> dict[str, int]:
        """What every budget of positions is a multiple of, so that the plans split rows evenly."""
        units = {"tokens": self.parallel.decoder.sequence}
        for name, encoder in self.model.encoders.items():
            units[name] = encoder.reduction * self.parallel.encoders[name].sequence
        return units


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
    if not isinstance(model, dict) or not isinstance(pretrained, str | dict) or "decoder" in model:
        return values
    from mllm_jax.models.pretrained.files import PretrainedError
    from mllm_jax.models.pretrained.release import composed

    try:
        released = composed(pretrained)
    except (PretrainedError, TypeError) as error:
        raise ConfigError(source, [f"model.pretrained: {error}"]) from None
    return {**values, "model": _merge(released, model)}


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
