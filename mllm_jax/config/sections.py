"""The sections of a configuration: its keys, their types, defaults and meanings.

Each section checks its keys; `mllm_jax/config/checks/checks.py` checks their agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from data.config import DataConfig
from data.faults import LONGEST
from data.places import LocalText, Place
from data.quotes import cut
from mllm_jax.config.run import ParallelConfig, RunConfig
from mllm_jax.layers.config.parts import Section
from mllm_jax.layers.trainable import FrozenParts
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import (
    BACKBONE,
    backbone_of,
    for_backbone,
)
from scheduling.schedules.kinds import ScheduleKind
from sharding.plan import ParallelPlan

#: Pattern of the linear layers in the layers of a module, after its name.
LAYERS = ".layers.*"


class ConfigError(ValueError):
    """A configuration that cannot be run; the message lists every reason."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.problems = tuple(cut(problem, 4 * LONGEST) for problem in problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {p}" for p in self.problems))


class ScheduleConfig(Section):
    """How the stages of the decoder's pipeline share the work; see docs/concepts/pipeline.md.

    The microbatches of the pipeline are those of `train.accumulate`.

    Args:
        kind: `1f1b` (interleaved with more than one chunk), `gpipe`, or `zero_bubble`: 1f1b whose
            decoder makes the gradients of weights apart from those of inputs, where a stage would
            otherwise wait.
        chunks: module name to the number of chunks that its layers are split into on every stage of
            its plan (virtual pipeline stages); the decoder has 1 unless it is named, and an encoder
            that is not named has as many as fit the bubbles best.
        placement: place of the encoders' work: `bubbles` of the decoder's pipeline,
            `prologue` (before and after the pipeline, on all stages alike) or `first_stage`.
        fill: bubbles that take encoder work: `pipeline` (idle slots), `tensor` (beside decoder
            tasks, traced side by side), `data` (beside the gather of the parameters and the scatter
            of the gradients).
        independent_microbatches: pack the media of a step by themselves, so that the number of an
            encoder's microbatches follows the load, and every step's encoder work is placed anew,
            with one compiled program (needs `data.balance: per_phase`). Otherwise an encoder's
            microbatches are the decoder's.
        independent_budgets: encoder name to the input positions of a row of its independent
            microbatches; by default its budget in `data.budgets`. Smaller ones follow the load more
            closely, and each must hold the longest medium.
        independent_rows: encoder name to the rows of its independent microbatches for each of
            `data.rows`; by default 1. With more rows an encoder is distributed over more ranks
            (data x fsdp) than a microbatch of the decoder has rows, rather than split over context
            and tensor ranks.
        max_waiting: most microbatches, over all stages, whose encoder outputs wait for the decoder
            in bubbles; null: twice the stages.
        prefetch: let encoders that are frozen with their connectors run forwards of the next
            step in the last bubbles of a step; batches are then read one step ahead.
        hardware: name of a description in configs/hardware/, or a file that `launch.py calibrate`
            has written: encoders are placed by the seconds that tasks take on this hardware, and
            beside the gather of the parameters and the scatter of the gradients; null: encoders
            are placed by FLOPs. `simulate` and `plan` also use this hardware, unless an option
            names another.
        fsdp_gather: how parameters are gathered over fsdp: once a `step`, or `layer` by layer,
            which takes less memory and more communication.
        pad_layers: round a number of layers that stages x chunks do not divide up; layers of
            padding cost time and do nothing.
    """

    kind: ScheduleKind = "1f1b"
    chunks: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    placement: Literal["first_stage", "prologue", "bubbles"] = "bubbles"
    fill: tuple[Literal["pipeline", "tensor", "data"], ...] = ("pipeline", "tensor", "data")
    independent_microbatches: bool = False
    independent_budgets: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    independent_rows: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    max_waiting: int | None = Field(None, ge=1)
    prefetch: bool = True
    hardware: LocalText | None = None
    fsdp_gather: Literal["step", "layer"] = "step"
    pad_layers: bool = False


class AdamWConfig(Section):
    """AdamW (Loshchilov and Hutter 2019).

    Args:
        kind: name of the optimizer.
        beta1: decay of the mean of the gradients.
        beta2: decay of the mean of the squared gradients.
        epsilon: added to the root of the second moment.
    """

    #: Float32 values that the optimizer keeps for a parameter.
    moments: ClassVar[int] = 2
    #: Float32 values that an update holds temporarily for a parameter of a matrix.
    workspace_per_element: ClassVar[int] = 0

    kind: Literal["adamw"] = "adamw"
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    epsilon: float = Field(1e-8, gt=0)


class LambConfig(Section):
    """LAMB (You et al. 2019): AdamW whose update of every matrix is scaled to the matrix's norm.

    Norms, biases and class tokens, which have no weight decay, are updated as by AdamW.

    Args:
        kind: name of the optimizer.
        beta1: as in `adamw`.
        beta2: as in `adamw`.
        epsilon: as in `adamw`.
        largest_ratio: bound of the trust ratio, the norm of a matrix over that of its update. null:
            no bound.
    """

    #: As in `adamw`.
    moments: ClassVar[int] = 2
    workspace_per_element: ClassVar[int] = 0

    kind: Literal["lamb"]
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    epsilon: float = Field(1e-6, gt=0)
    largest_ratio: float | None = Field(None, gt=0)


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

    #: As in `adamw`, for a parameter of a matrix.
    moments: ClassVar[int] = 1
    workspace_per_element: ClassVar[int] = 3

    kind: Literal["muon"]
    momentum: float = Field(0.95, ge=0, lt=1)
    nesterov: bool = True
    iterations: int = Field(5, ge=1)
    adam_learning_rate_ratio: float = Field(0.3, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.95, ge=0, lt=1)
    epsilon: float = Field(1e-8, gt=0)


OptimizerConfig = Annotated[AdamWConfig | LambConfig | MuonConfig, Field(discriminator="kind")]


class ParameterGroup(Section):
    """Parameters that train in another way than the others.

    Args:
        learning_rate: peak learning rate, in place of `train.learning_rate`; the schedule is the
            same.
    """

    learning_rate: float = Field(gt=0)


class LoraConfig(Section):
    """Adapters of low rank next to linear layers (LoRA, arXiv 2106.09685).

    Of a part of the model that has adapters nothing else trains; other parts train as without them,
    unless `train.freeze` names them.

    Args:
        targets: names of linear layers, such as `decoder.layers.self_attn.q_proj`, or patterns of
            them, in which `*` stands for anything but the head, which must be named:
            `decoder.lm_head`; by default those of the backbone's layers. The message about a target
            that matches nothing lists the names.
        rank: rank of the adapters.
        alpha: factor of what an adapter adds, divided by `rank`.
        rank_stabilized: divide by the square root of `rank` instead (arXiv 2312.03732).
        begin_with: folder of adapters in PEFT's format that training begins with; null: they begin
            without effect.
    """

    targets: tuple[str, ...] = Field((f"{BACKBONE}{LAYERS}",), min_length=1)
    rank: int = Field(16, ge=1)
    alpha: float = Field(32.0, gt=0)
    rank_stabilized: bool = False
    begin_with: LocalText | None = None

    @property
    def scale(self) -> float:
        """Factor of the adapters' products."""
        return self.alpha / (self.rank**0.5 if self.rank_stabilized else self.rank)


class GuardConfig(Section):
    """The treatment of steps that go wrong.

    Args:
        skip: updates in a row that are left out because the loss, a gradient or a router's logit is
            infinite or no number. 0: the first such step ends the run.
        spike: largest ratio of a step's loss to its usual value (a running mean); a step above it
            ends the run. null: no limit.
    """

    skip: int = Field(0, ge=0)
    spike: float | None = Field(None, gt=1)


class TrainConfig(Section):
    """Optimization.

    Args:
        steps: optimizer steps of the run.
        seed: seed of parameters, data order and augmentation.
        learning_rate: peak learning rate, which the first step after `warmup_steps` has.
        warmup_steps: steps of linear warm-up, which ends with `steps` at the latest.
        final_learning_rate_ratio: learning rate of the last step, divided by the peak (cosine
            decay). A run of one step has the peak. Steps whose update is left out (`guard.skip`)
            do not count, so that a run with some ends as many steps before the ratio.
        weight_decay: decoupled weight decay of matrices, convolutions and tables; biases, norms and
            class tokens have none, see docs/concepts/step.md.
        clip_norm: bound on the global gradient norm, or null for none.
        accumulate: batches of `data.rows` rows whose gradients make one step; the microbatches of a
            pipeline.
        freeze: modules whose parameters stay as they are: `decoder`, names of encoders, whose
            connectors still train, or `<name>.connector`.
        lora: adapters in place of the parameters of linear layers; null for none.
        frozen_dtype: data type in which parameters that do not train are stored; null: `bfloat16`
            with adapters, else `float32`.
        groups: settings of a module's parameters, by `decoder`, `<encoder>` (without its
            connector) or `<encoder>.connector`.
        guard: treatment of steps that go wrong.
        check_every: steps between two looks for silent corruption: the first microbatch of the step
            (of a pipeline all) is computed by every replica and once more by its neighbour, and
            compared bit for bit; see docs/how-to/failures.md. null: no looks.
        check_schedules: run the tables of every step's schedule on names before the devices run
            them. The schedule that a run begins with is always checked.
        gradient_caching: whether forwards before a loss that waits for all microbatches, as a
            contrastive one does, run twice, so that what backwards need is kept of one microbatch
            at a time; false: it is kept of all, and no forward runs twice. null: true with several
            microbatches and without `parallel.groups` of devices or slices, whose programs always
            keep it.
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
    lora: LoraConfig | None = None
    frozen_dtype: Literal["float32", "bfloat16"] | None = None
    groups: dict[str, ParameterGroup] = Field(default_factory=dict)
    guard: GuardConfig = GuardConfig()
    check_every: int | None = Field(None, ge=1)
    check_schedules: bool = False
    gradient_caching: bool | None = None
    optimizer: OptimizerConfig = AdamWConfig()

    @property
    def caches_gradients(self) -> bool:
        """What `gradient_caching` means for one program of all modules."""
        chosen = self.gradient_caching
        return self.accumulate > 1 if chosen is None else chosen


class CheckpointConfig(Section):
    """Checkpoints of model, optimizer, loader state and configuration.

    Args:
        enabled: write checkpoints and resume from them.
        every: steps between two checkpoints; the last step is always saved.
        keep: number of newest checkpoints that stay, besides the newest that is known to be good.
        keep_every: steps between checkpoints that stay for ever, a multiple of `every`; null: none.
        asynchronous: write in the background while training goes on.
        failures: number of saves in a row that may fail, each with a warning, before the run ends.
        copy_to: URL below which checkpoints are copied in the background, the newest first:
            `s3://...` (extra `s3`), `gs://...` (extra `gcs`), or any other file system that fsspec
            knows; a run whose folder lacks them goes on from there. null: no copies.
        retry_seconds: how long a URL out of reach is tried again, before training goes on without a
            copy of the checkpoint.
        local_every: steps between two snapshots in the memory of the hosts, from which a run goes
            on that was started again; null: none. Each process stores two of what its devices hold,
            and two of a process of another machine.
        local_folder: folder of these snapshots; `auto`: one of the user's below /dev/shm.
    """

    enabled: bool = True
    every: int = Field(100, ge=1)
    keep: int = Field(2, ge=1)
    keep_every: int | None = Field(None, ge=1)
    asynchronous: bool = True
    failures: int = Field(3, ge=0)
    copy_to: Place | None = None
    retry_seconds: float = Field(300.0, ge=0)
    local_every: int | None = Field(10, ge=1)
    local_folder: LocalText = "auto"


class EvaluateConfig(Section):
    """The measurements on held-out samples.

    Args:
        enabled: evaluate at the end of training.
        loss: measure the loss of the answers, of all samples and of each member of a mixture.
        exact_match: decode answers greedily and count the answers that are right to the letter.
        retrieval: count how often the nearest partner of a contrastive objective is a sample's own,
            among those of all samples; null: if the model has such an objective.
        samples: number of held-out samples to use, or null for the whole split.
        max_new_tokens: length of the longest answer that is decoded, in tokens.
        every: steps between two evaluations during training, or null for the end only.
    """

    enabled: bool = True
    loss: bool = True
    exact_match: bool = True
    retrieval: bool | None = None
    samples: int | None = Field(None, ge=1)
    max_new_tokens: int = Field(16, ge=1)
    every: int | None = Field(None, ge=1)


class ExperimentConfig(Section):
    """The configuration of an experiment; `load` makes it, and nothing changes it."""

    run: RunConfig
    model: ModelConfig
    parallel: ParallelConfig = ParallelConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    data: DataConfig
    train: TrainConfig
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluate: EvaluateConfig = EvaluateConfig()

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, values: Any) -> Any:
        """Plans in the form of the model, those of the backbone first, and adapters of the backbone
        where none are named.
        """
        if not isinstance(values, dict):
            return values
        backbone, run = backbone_of(values.get("model")), values.get("run")
        changed = {}
        if isinstance(parallel := values.get("parallel", {}), dict):
            changed["parallel"] = for_backbone(parallel, backbone, "parallel")
        if isinstance(run, dict) and isinstance(plans := run.get("fallback"), list | tuple):
            changed["run"] = run | {
                "fallback": [_fallback_sections(plan, backbone) for plan in plans]
            }
        if isinstance(train := values.get("train"), dict) and isinstance(train.get("lora"), dict):
            lora = {"targets": [f"{backbone}{LAYERS}"], **train["lora"]}
            changed["train"] = train | {"lora": lora}
        return values | changed

    def plan_key(self, module: str) -> str:
        """The key of a module's plan: `parallel.decoder`, or `parallel.encoders.<name>`, or
        `parallel.modules.<name>`.
        """
        return f"parallel.{self.model.key(module)}"

    def model_key(self, module: str) -> str:
        """The key of a module in `model`; of a bucket that of its module."""
        return f"model.{self.model.key(self.model.buckets.get(module, module))}"

    @property
    def stage_key(self) -> str:
        """The key of the number of stages of the backbone."""
        return f"{self.plan_key(self.model.backbone)}.stage"

    @property
    def waits_for_step(self) -> bool:
        """Whether a loss waits for the outputs of all microbatches."""
        return any(each.scope == "step" for each in self.model.graph.objectives.values())

    @property
    def gradient_caching(self) -> bool:
        """Whether forwards before a loss that waits for all microbatches run twice."""
        return not self.parallel.separate_groups and self.train.caches_gradients

    @property
    def measures_retrieval(self) -> bool:
        """Whether an evaluation looks for the partners of held-out samples."""
        return bool(self.model.graph.retrieved) and self.evaluate.retrieval is not False

    @property
    def backbone_chunks(self) -> int:
        """Chunks of the backbone's layers on every stage."""
        return self.schedule.chunks.get(self.model.backbone, 1)

    @property
    def frozen(self) -> FrozenParts:
        """Parts of the model of which nothing, or adapters alone, trains."""
        return FrozenParts.from_config(
            self.train.freeze, self.model.adapted, self.train.frozen_dtype
        )

    @property
    def budget_units(self) -> dict[str, int]:
        """The unit of every budget of positions: plans split rows of whole units evenly."""
        plans = {"tokens": self.parallel.backbone_plan} | self.parallel.others
        return {key: self.budget_unit(key, plans[key]) for key in ("tokens", *self.model.buckets)}

    def budget_unit(self, key: str, plan: ParallelPlan) -> int:
        """The unit of the budget `key` under `plan`: every rank has whole outputs of its shard."""
        outputs = 1 if key == "tokens" else self.model.reduction(key)
        return outputs * plan.sequence

    def budget_key(self, module: str) -> str:
        """The key of a module's budget of positions in `data.budgets`."""
        return "tokens" if module == self.model.backbone else module

    def row_positions(self, module: str) -> dict[str, int]:
        """Positions of the rows of a module by their keys: its plan splits each in whole units.

        An encoder with independent microbatches has rows of two sizes. A budget that is missing has
        no entry.
        """
        key = self.budget_key(module)
        every = {
            "data.budgets": self.data.budgets,
            "schedule.independent_budgets": self.schedule.independent_budgets,
        }
        return {f"{path}.{key}": sizes[key] for path, sizes in every.items() if key in sizes}


def _fallback_sections(plans: Any, backbone: str) -> Any:
    return for_backbone(plans, backbone, "run.fallback") if isinstance(plans, dict) else plans
