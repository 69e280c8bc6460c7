"""The sections `run`, with dashboards, and `parallel`: how a run is started, and on what."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from data.places import LocalText, without_credentials
from mllm_jax.layers.config.parts import Section
from mllm_jax.models.short_form import BACKBONE, MODULES, in_form, sections_of_modules
from sharding.grid import ReduceDtype
from sharding.plan import DeviceNumbers, ParallelPlan
from sharding.stages import without_stages

#: An entry of `run.loggers`.
Logger = Literal["wandb", "mlflow"]


class WandbConfig(Section):
    """Where Weights & Biases stores a run; the account is that of WANDB_API_KEY or of a login.

    Args:
        project: project that the run belongs to.
        entity: user or team of the project; null: the default one of the login.
        group: group of runs that the run belongs to; null: none.
        tags: tags of the run.
    """

    project: str = Field("mllm_jax", min_length=1)
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()


class MlflowConfig(Section):
    """Where MLflow stores a run; the account is that of MLFLOW_TRACKING_USERNAME and the like.

    Args:
        tracking: address of the server, or of a local store: a folder, or a data base
            (`sqlite:///FILE`, which needs the full package `mlflow`); null: that of
            MLFLOW_TRACKING_URI, or else the folder `mlruns` in `run.directory`.
        experiment: experiment that the run belongs to.
    """

    tracking: Annotated[str, BeforeValidator(without_credentials)] | None = None
    experiment: str = Field("mllm_jax", min_length=1)

    @property
    def tracking_uri(self) -> str:
        """`tracking`, or else what MLFLOW_TRACKING_URI says; empty if neither does."""
        return self.tracking or os.environ.get("MLFLOW_TRACKING_URI") or ""


class FallbackPlan(Section):
    """Plans for fewer hosts.

    Args:
        decoder: degrees of the decoder; their product tells for how many devices the plans are.
        encoders: degrees of each encoder, as in `parallel.encoders`.
        modules: degrees of every module in place of both, as in `parallel.modules`.
    """

    decoder: ParallelPlan | None = None
    encoders: dict[str, ParallelPlan] = Field(default_factory=dict)
    written: dict[str, ParallelPlan] = Field(default_factory=dict, alias=MODULES)

    @property
    def plans(self) -> dict[str, ParallelPlan]:
        """Plans of all modules by name, the backbone's first."""
        backbone = {BACKBONE: self.decoder} if self.decoder else {}
        return dict(self.written) or {**backbone, **self.encoders}

    @property
    def devices(self) -> int:
        """Number of devices that the plans are for."""
        return next(iter(self.plans.values())).devices

    @model_validator(mode="after")
    def _of_backbone(self) -> FallbackPlan:
        if not self.written and self.decoder is None:
            raise ValueError(f"{BACKBONE} is required; valid: its degrees, or {MODULES}")
        return self

    @model_serializer(mode="wrap")
    def _in_its_form(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return in_form(serialize(self), bool(self.written))


class RunConfig(Section):
    """The folder of a run, its reports, and its limits on processes.

    Args:
        name: the run's folder is `directory`/`name`; the same name resumes the run.
        directory: folder of all runs, on this machine or mounted.
        log_every: steps between two log lines.
        tensorboard: write TensorBoard event files beside `metrics.jsonl`.
        loggers: services that get the figures, too, from process 0: `wandb` and `mlflow`, each with
            the extra of that name; see docs/how-to/dashboards.md.
        wandb: where Weights & Biases keeps the run.
        mlflow: where MLflow keeps the run.
        list_samples: list the samples of every step in `samples.jsonl`, by their positions in the
            stream of samples.
        trace_step: step of a pipeline whose ticks are measured on every device and written to
            `step-<n>.json` and `.png` in the run's folder; that step alone is slowed down.
        profile_steps: first and last step, e.g. `[10, 12]`, that jax.profiler measures, host and
            devices: steps and phases by name, for TensorBoard, in `profile` in the run's folder.
        profile_processes: processes that write this profile, in a run of several; each of them but
            process 0 writes to `profile/process-<n>`.
        profile_on_signal: steps that a process profiles in the same way when it gets SIGUSR2, from
            its next step on; null: the signal has no effect.
        hang_seconds: seconds without a heartbeat of one process (it is stopped, or its machine
            is gone) after which all processes of a run end.
        stall_seconds: seconds without progress of any process, while none is at what may take
            `phase_seconds` (one is stuck), after which all processes of a run end; null: no limit.
            With `--supervise` that is sooner, once three events of a kind have shown how long they
            last; see docs/how-to/failures.md.
        phase_seconds: seconds that one process compiles, evaluates, restores, writes a checkpoint
            or measures data (it is stuck) after which all processes of a run end; null: no limit.
            With `--supervise` that is sooner, likewise.
        self_check: check devices, links, disk, clocks and packages of all processes before
            training, as `launch.py check` does; `auto`: on GPUs and TPUs.
        stragglers: compare times of all processes and devices with every log line, which takes some
            milliseconds, and name those that are slow; see docs/how-to/failures.md.
        gc_every: steps between two collections of Python's garbage, on all processes at the same
            step; null: Python collects on each process whenever it wants to.
        restarts: restarts in a row, with `--supervise`, that may follow attempts which take no step
            that is new.
        backoff_seconds: seconds before the first of these restarts; doubled before each further
            one, up to 300.
        wait_for_hosts: seconds that supervisors wait for those of other hosts, at the start and
            when one is gone.
        min_hosts: hosts with which supervisors go on without those that have not come in time, or
            are unfit, with fewer replicas; null: all are needed.
        fallback: plans to go on with (needs `min_hosts`), each
            `{decoder: {...}, encoders: {<name>: {...}}}` for as many devices as some hosts have;
            without one for theirs, hosts go on with the configured plans and other degrees of data
            and fsdp. `plan`: those that `launch.py plan` finds, which the supervisor of process 0
            searches beside the run (needs `schedule.hardware`).
        compilation_cache: folder of compiled programs, so that a restart need not compile again;
            `auto`: the folder of JAX_COMPILATION_CACHE_DIR, or else one in the user's caches; null:
            no folder. Programs that took at least 0.1 s to compile are kept, unless
            JAX_PERSISTENT_CACHE_MIN_... set other limits.
        compiled_steps: folder that `launch.py compile --save` has written: its train step is loaded
            rather than compiled, if all that it depends on is the same here; null: none. Its files
            are run as code.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    directory: LocalText = "runs"
    log_every: int = Field(10, ge=1)
    tensorboard: bool = True
    loggers: tuple[Logger, ...] = ()
    wandb: WandbConfig = WandbConfig()
    mlflow: MlflowConfig = MlflowConfig()
    list_samples: bool = False
    trace_step: int | None = Field(None, ge=1)
    profile_steps: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = None
    profile_processes: tuple[Annotated[int, Field(ge=0)], ...] = (0,)
    profile_on_signal: int | None = Field(3, ge=1)
    hang_seconds: float = Field(60.0, ge=3)
    stall_seconds: float | None = Field(1800.0, ge=3)
    phase_seconds: float | None = Field(43200.0, ge=3)
    self_check: Literal["auto"] | bool = "auto"
    stragglers: bool = True
    gc_every: int | None = Field(100, ge=1)
    restarts: int = Field(5, ge=0)
    backoff_seconds: float = Field(1.0, ge=0)
    wait_for_hosts: float = Field(600.0, ge=0)
    min_hosts: int | None = Field(None, ge=1)
    fallback: Literal["plan"] | tuple[FallbackPlan, ...] = ()
    compilation_cache: LocalText | None = "auto"
    compiled_steps: LocalText | None = None

    @property
    def path(self) -> Path:
        """Folder of this run."""
        return Path(self.directory) / self.name

    @model_validator(mode="after")
    def _with_effect(self) -> RunConfig:
        if len({*self.loggers}) < len(self.loggers):
            raise ValueError(f"loggers {list(self.loggers)} are refused; valid: each once")
        if self.fallback and self.min_hosts is None:
            source = "plan" if self.fallback == "plan" else "of plans"
            raise ValueError(
                f"run.fallback {source} has no effect, as run.min_hosts is null (all hosts are "
                "needed); valid: leave it out, or set run.min_hosts"
            )
        is_configured = {
            "wandb": self.wandb != WandbConfig(),
            "mlflow": self.mlflow != MlflowConfig(),
        }
        for name, set_ in is_configured.items():
            if set_ and name not in self.loggers:
                raise ValueError(
                    f"run.{name} has no effect, as run.loggers is {list(self.loggers)}; valid: "
                    f"leave it out, or name {name} in run.loggers"
                )
        return self


#: An entry of `parallel.overlap`: XLA's options, or collectives that the program moves.
Asked = Literal["flags", "gather", "scatter", "tensor"]


class DeviceGroupConfig(Section):
    """Modules that have devices, or slices of devices, of their own.

    Args:
        modules: names of the modules, or of the buckets of an encoder, which share these devices,
            one at a time.
        devices: first and last device of the group, e.g. `[4, 7]`; null: all devices.
        quota: part of each of these devices that is the group's slice of it, above 0 and below 1,
            beside the slices of other groups with the same devices; null: the group has the devices
            for itself. A slice of a GPU is a process under MPS, see docs/how-to/mps.md. `none`, of
            all groups: they share all devices without quotas, as functions of one program that are
            marked for streams of a GPU.
        memory: part of each GPU's memory that the process of the slice has; null: as much as
            `quota`.
    """

    modules: tuple[str, ...] = Field(min_length=1)
    devices: tuple[int, int] | None = None
    quota: Annotated[float, Field(gt=0, lt=1)] | Literal["none"] | None = None
    memory: float | None = Field(None, gt=0, lt=1)

    @property
    def share(self) -> float | None:
        """The quota of a slice; None if the group has none."""
        return None if self.quota == "none" else self.quota


class ParallelConfig(Section):
    """Devices and the plan of every module over them.

    Args:
        platform: kind of device; `cpu` emulates `devices` devices on the host.
        devices: number of devices of all processes together; the degrees of every plan multiply
            to it.
        distributed: let JAX find the other processes (TPU pods, SLURM, Open MPI) by itself.
        decoder: degrees of the decoder.
        encoders: degrees of each encoder, on the same devices; an encoder needs an entry here, or
            each of its buckets one.
        modules: degrees of every module, in place of `decoder` and `encoders`, for a model that has
            `modules`.
        groups: groups of modules by name that have devices of their own, and run side by side, e.g.
            `{text: {modules: [decoder], devices: [0, 5]}, media: {modules: [vision], devices: [6,
            7]}}`; every module is in one of them. Without groups all modules share all devices, one
            at a time. See docs/concepts/device_groups.md.
        exchange: how encoder outputs reach the decoder's tokens: `all_to_all` (by routes; needs
            `data.balance: per_phase`), `gather` of all outputs, or `reduce_scatter` of arrays of
            all tokens; `auto`: for every bucket the one of the fewest predicted seconds on
            `schedule.hardware`, without it the one that moves the fewest bytes.
        overlap: collectives that run beside compute: `auto`, on accelerators all that are known to
            help under these plans, `flags` alone beside stages; `off`; or a list of
            `flags` (options of XLA's compiler for the platform), `gather` (of the parameters of the
            next layer, over fsdp), `scatter` (of the gradients of the layer before, over fsdp) and
            `tensor` (rows before and after products, over tensor ranks, in rings). Pieces of the
            program are for a decoder without stages.
        reduce_dtype: type in which tensor ranks send each other the partial sums of a forward:
            `float32`, in which they are as those of one device, or `bfloat16`, which is half the
            bytes.
    """

    platform: Literal["cpu", "gpu", "tpu"] = "cpu"
    devices: int = Field(1, ge=1)
    distributed: bool = False
    decoder: ParallelPlan = ParallelPlan()
    encoders: dict[str, ParallelPlan] = Field(default_factory=dict)
    written: dict[str, ParallelPlan] = Field(default_factory=dict, alias=MODULES)
    groups: dict[str, DeviceGroupConfig] = Field(default_factory=dict)
    exchange: Literal["auto", "all_to_all", "gather", "reduce_scatter"] = "auto"
    overlap: Literal["auto", "off"] | tuple[Asked, ...] = "auto"
    reduce_dtype: ReduceDtype = "float32"

    @property
    def plans(self) -> dict[str, ParallelPlan]:
        """Plans of all modules by name, the backbone's first."""
        return dict(self.written) or {BACKBONE: self.decoder, **self.encoders}

    @property
    def backbone_plan(self) -> ParallelPlan:
        """The plan of the backbone."""
        return next(iter(self.plans.values()))

    @property
    def others(self) -> dict[str, ParallelPlan]:
        """The plans of all modules but the backbone, by name."""
        return dict([*self.plans.items()][1:])

    def without_stages(self, plans: Mapping[str, ParallelPlan]) -> dict[str, ParallelPlan]:
        """These plans of modules without a pipeline: stages become part of fsdp."""
        if self.groups:
            return {name: plan.without_stages for name, plan in plans.items()}
        return without_stages(plans)

    def group_range(self, name: str) -> tuple[int, int]:
        """First and last device of a group."""
        return self.groups[name].devices or (0, self.devices - 1)

    @property
    def separate_groups(self) -> dict[str, DeviceGroupConfig]:
        """Groups that have devices or slices, and with them programs, of their own."""
        return {name: group for name, group in self.groups.items() if group.quota != "none"}

    def module_streams(self, backbone: str) -> dict[str, int]:
        """Streams of modules, or buckets, in groups without quotas but that of `backbone`.

        The groups of other modules have the numbers from 1 on, in their order.
        """
        streamed = [group.modules for group in self.groups.values() if group.quota == "none"]
        others = [modules for modules in streamed if backbone not in modules]
        return {name: number for number, names in enumerate(others, 1) for name in names}

    @property
    def sharing_groups(self) -> dict[tuple[int, int], dict[str, DeviceGroupConfig]]:
        """Groups with a quota, by the first and last of the devices that they share."""
        sharing: dict[tuple[int, int], dict[str, DeviceGroupConfig]] = {}
        for name, group in self.groups.items():
            if group.share is not None:
                sharing.setdefault(self.group_range(name), {})[name] = group
        return sharing

    @property
    def jax_devices(self) -> int:
        """Number of what JAX takes for devices: slices, or whole devices."""
        sharing = self.sharing_groups.items()
        return self.devices + sum(
            (last - first + 1) * (len(groups) - 1) for (first, last), groups in sharing
        )

    @property
    def module_devices(self) -> dict[str, DeviceNumbers]:
        """Numbers of the devices of every module, or bucket, that has a group's devices.

        All devices have a first slice, or are whole, before any has a second one: of two devices
        the second slices have the numbers 2 and 3.
        """
        numbers, following = dict[str, DeviceNumbers](), self.devices
        firsts = {next(iter(groups)) for groups in self.sharing_groups.values()}
        for name, group in self.separate_groups.items():
            first, last = self.group_range(name)
            begin, count = first, last - first + 1
            if group.share is not None and name not in firsts:
                begin, following = following, following + count
            numbers |= dict.fromkeys(group.modules, tuple(range(begin, begin + count)))
        return numbers

    def group_place(self, name: str) -> str:
        """Where a group is: `devices 0 to 3`, `50% of device 0`, or `streams of device 0`."""
        group, (first, last) = self.groups[name], self.group_range(name)
        where = f"device {first}" if first == last else f"devices {first} to {last}"
        if group.quota == "none":
            return f"streams of {where}"
        return where if group.share is None else f"{group.share:.0%} of {where}"

    @property
    def group_lines(self) -> list[str]:
        """A line for each group: its modules, and where they are."""
        return [
            f"group {name}: {', '.join(group.modules)} on {self.group_place(name)}"
            for name, group in self.groups.items()
        ]

    def with_plans(self, plans: Mapping[str, ParallelPlan]) -> ParallelConfig:
        """The section with the plans of all modules by name, for the devices that they cover; all
        modules share them.
        """
        changed = self.with_modules(plans)
        devices = changed.backbone_plan.devices
        return changed.model_copy(update={"devices": devices, "groups": {}})

    def with_modules(self, plans: Mapping[str, ParallelPlan]) -> ParallelConfig:
        """The section with other plans of all modules by name, the backbone's first."""
        if self.written:
            return self.model_copy(update={"written": dict(plans)})
        return self.model_copy(update=sections_of_modules(plans, BACKBONE))

    @model_serializer(mode="wrap")
    def _in_its_form(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return in_form(serialize(self), bool(self.written))
