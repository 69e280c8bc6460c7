"""Descriptions of clusters: the resources that a job may request, and the start of its processes.

A description is a YAML file in `configs/clusters/`, or one of your own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from mllm_jax.config.strict_yaml import YamlError, read_yaml, shorten_repr
from mllm_jax.runtime.lock import JOBSET
from mllm_jax.submit import access
from mllm_jax.submit.forms import (
    VALID,
    Domain,
    Image,
    Label,
    LabelKey,
    LabelValue,
    Limit,
    Line,
    LongOption,
    Mount,
    Option,
    OtherResource,
    Program,
    Quantity,
    Resource,
    SecretKey,
    Taint,
    Topology,
    Variable,
    Word,
)
from mllm_jax.submit.liveness import LIVENESS_VARIABLE
from mllm_jax.submit.options import OF_THE_JOB, OF_THE_STEP, explain_refusal, names_option

#: Where a container has its configuration, and the file that its process touches while it lives.
CONFIG_FOLDER, LIVENESS_FOLDER = "/etc/mllm-jax", "/var/run/mllm-jax"
OWN_FOLDERS: Mapping[str, str] = MappingProxyType(
    {CONFIG_FOLDER: "configuration", LIVENESS_FOLDER: "liveness file"}
)
#: Resource that stands for one TPU.
TPU_RESOURCE = "google.com/tpu"
#: Variable with the number of a process.
PROCESS = "MLLM_JAX_PROCESS"
OWN_VARIABLES = (PROCESS, LIVENESS_VARIABLE, JOBSET)

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "clusters"


class BackendError(ValueError):
    """A description of a cluster that is missing, unknown or wrong."""


class _BackendData(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class JobBackend(_BackendData, ABC):
    """The settings that both kinds of clusters have.

    Attributes:
        devices_per_node: devices of one node; null: as many as the plan needs on each of `--nodes`.
        environment: variables with their values. No secrets: those are passed by name.
        grace_seconds: seconds from SIGTERM to SIGKILL, within which the run takes its step to the
            end and saves; null: 120 seconds and the time of writing a checkpoint, which is the
            least that is taken.
        write_bandwidth: bytes per second that one node writes to the storage of checkpoints.
        restarts: most attempts after failures, beside those after an interruption by the cluster.
        join_seconds: seconds for which processes wait for each other.
        port: TCP port of process 0, for processes of one node only (Slurm) the first of 1000 ports.
    """

    devices_per_node: Annotated[int, Field(ge=1)] | None = None
    environment: Mapping[Variable, Line] = Field(default_factory=dict)
    grace_seconds: Annotated[int, Field(ge=10)] | None = None
    write_bandwidth: Annotated[float, Field(gt=0)] = 5.0e8
    restarts: Annotated[int, Field(ge=0)] = 10
    join_seconds: Annotated[int, Field(ge=10)] = 600
    port: Annotated[int, Field(ge=1024, le=31000)] = 12355
    python: Program | None

    @model_validator(mode="after")
    def _check_secrets(self) -> JobBackend:
        for name, value in self.environment.items():
            if access.is_secret(name) or access.text_holds_secret(value):
                raise ValueError(
                    f"environment.{name}: a secret has no value in a file; valid: "
                    f"{self._by_name(name)}"
                )
        if self.python and access.text_holds_secret(self.python):
            raise ValueError(
                "python: the text holds a secret, which has no value in a file; valid: "
                f"{self._by_name('NAME')}"
            )
        return self

    @abstractmethod
    def _by_name(self, name: str) -> str:
        """The form in which a secret is passed by its name."""


class SlurmBackend(JobBackend):
    """A cluster under Slurm; see docs/how-to/slurm.md.

    Attributes:
        kind: `slurm`.
        partition, account, qos: as in `sbatch`; null: those of the cluster.
        time_limit: limit of one attempt, as in `sbatch` (`days-hours:minutes:seconds`); the job is
            queued again at the limit. null: that of the partition.
        gpu_type: type of the GPUs, as the cluster calls it; null: any.
        exclusive: whether a job has nodes, and their memory, to itself.
        cpus_per_node: CPU cores of a job on a shared node; null: what the cluster gives.
        pass_environment: names of variables that the job has from where it is submitted, beside
            HOME, PATH and USER. All others of that shell are left behind, but the node adds those
            of a login there, as Slurm does for jobs that name their variables.
        options: further options of sbatch, e.g. `--constraint=h100`.
        launch_options: further options of srun, e.g. `--container-image=...`.
        setup: lines of the script before the training, e.g. `module load cuda`; each is a whole
            command, and the attempt fails if one ends with another code than 0.
        python: the Python that runs `launch.py`, or a script that starts one, e.g. in a container;
            null: the one that submits.
    """

    kind: Literal["slurm"]
    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    time_limit: Limit | None = None
    gpu_type: Word | None = None
    exclusive: bool = True
    cpus_per_node: Annotated[int, Field(ge=1)] | None = None
    pass_environment: tuple[Variable, ...] = ()
    options: tuple[LongOption, ...] = ()
    launch_options: tuple[Option, ...] = ()
    setup: tuple[Line, ...] = ()
    python: Program | None = None

    @model_validator(mode="after")
    def _check_lines(self) -> SlurmBackend:
        for line in (*self.options, *self.launch_options, *self.setup):
            if name := access.assigned_secret(line):
                raise ValueError(
                    f"{name} is given a value in a line: a secret has no value in a file; "
                    f"valid: {self._by_name(name)}"
                )
            if access.line_holds_secret(line):
                raise ValueError(
                    "a line holds a secret, which has no value in a file; valid: a variable that "
                    f"holds it, and {self._by_name('NAME')}"
                )
        return self

    @model_validator(mode="after")
    def _check_options(self) -> SlurmBackend:
        reserved = {"options": OF_THE_JOB, "launch_options": OF_THE_STEP}
        for key, reserved_options in reserved.items():
            for option in getattr(self, key):
                if why := explain_refusal(option, reserved_options):
                    raise ValueError(f"{key}: {why}")
        for option in self.options if self.exclusive else ():
            if names_option(option, "--mem"):
                raise ValueError(
                    f"options: {option} is refused: the job has its nodes' memory to itself; "
                    "valid: left out, or exclusive: false"
                )
        return self

    def _by_name(self, name: str) -> str:
        return f"pass_environment: [{name}]"

    @property
    def limit_seconds(self) -> int | None:
        """Seconds of `time_limit`; None without a limit, which is 0 for Slurm, too."""
        if self.time_limit is None:
            return None
        days, _, clock = self.time_limit.rpartition("-")
        parts = [int(part) for part in clock.split(":")]
        # Without days one number is minutes, and two are minutes and seconds.
        units = (3600, 60, 1) if days or len(parts) == 3 else (60, 1)
        pairs = zip(parts, units, strict=False)
        return 86400 * int(days or 0) + sum(part * unit for part, unit in pairs) or None


#: Chips of a host of a slice of TPUs (GKE, "TPU topology"), and kinds of which a single host may
#: have twice as many.
HOST_CHIPS = 4
EIGHT_CHIPS = ("tpu-v5-lite-podslice", "tpu-v5-lite-device", "tpu-v6e-slice")


class TpuSlice(_BackendData):
    """TPUs of a node pool of GKE.

    Attributes:
        accelerator: value of the node label `cloud.google.com/gke-tpu-accelerator`.
        topology: chips of the slice along each axis, e.g. `4x4x4`.
    """

    accelerator: Label
    topology: Topology

    @property
    def hosts(self) -> tuple[int, ...]:
        """Numbers of hosts that such a slice may have; a pod has all chips of its host."""
        if self.chips <= HOST_CHIPS:
            return (1,)
        single_host = self.chips == 2 * HOST_CHIPS and self.accelerator in EIGHT_CHIPS
        return (*((1,) if single_host else ()), self.chips // HOST_CHIPS)

    @model_validator(mode="after")
    def _check_hosts(self) -> TpuSlice:
        if self.chips > HOST_CHIPS and self.chips % HOST_CHIPS:
            raise ValueError(
                f"topology {self.topology}: {self.chips} chips are no whole hosts; valid: at most "
                f"{HOST_CHIPS} chips, or a multiple of {HOST_CHIPS}"
            )
        return self

    @property
    def chips(self) -> int:
        """Chips of the slice."""
        return math.prod(int(side) for side in self.topology.split("x"))


class KubernetesBackend(JobBackend):
    """A cluster under Kubernetes with JobSet 0.10 or newer; see docs/how-to/kubernetes.md.

    Attributes:
        kind: `kubernetes`.
        image: container image with Python, this project and its dependencies.
        namespace: namespace of all objects.
        cluster_domain: domain of the names of the cluster's services.
        directory: folder of the project in the image; relative paths of the configuration begin
            there.
        python: the Python that runs `launch.py` in `directory`.
        volumes: by the folder where it is mounted, the name of a PersistentVolumeClaim that all
            nodes may write (ReadWriteMany). The folder of the run must lie in one of them.
        secrets: by the name of a variable, `secret/key`: the Secret that holds its value.
        gpu_resource: name of the resource that stands for one GPU.
        tpu: kind of TPUs, for plans with `parallel.platform: tpu`.
        cpus_per_node: CPU cores that a node must have free; null: any number.
        memory_per_node: GiB of memory likewise.
        shared_memory: GiB of /dev/shm, which NCCL and snapshots in memory use; it counts as memory.
        resources: further resources of a pod and how much of each: whole numbers of what a device
            plugin offers (`rdma/ib: 8`), bytes of the others (`ephemeral-storage: 100Gi`).
        host_network: whether pods use the network of their nodes, as some networks of RDMA need.
        annotations: annotations of pods.
        node_selector: labels that nodes must have.
        tolerations: taints that do not keep the job from nodes, as in `kubectl taint`: `key`,
            `key=value`, `key:effect` or `key=value:effect`.
        queue: name of the local queue of Kueue; null: no queue.
        service_account: name of the service account; null: the default one.
        priority_class: name of the pods' priority class; null: the default one.
        pull_policy: when the image is pulled.
        image_pull_secrets: names of Secrets by which the registry of the image is read.
    """

    kind: Literal["kubernetes"]
    image: Image
    namespace: Label = "default"
    cluster_domain: Domain = "cluster.local"
    directory: Mount = "/workspace"
    python: Program = "python3"
    volumes: Mapping[Mount, Label] = Field(default_factory=dict)
    secrets: Mapping[Variable, SecretKey] = Field(default_factory=dict)
    gpu_resource: Resource = "nvidia.com/gpu"
    tpu: TpuSlice | None = None
    cpus_per_node: Annotated[int, Field(ge=1)] | None = None
    memory_per_node: Annotated[int, Field(ge=1)] | None = None
    shared_memory: Annotated[int, Field(ge=1)] | None = None
    resources: Mapping[OtherResource, Quantity] = Field(default_factory=dict)
    host_network: bool = False
    annotations: Mapping[LabelKey, Line] = Field(default_factory=dict)
    node_selector: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    tolerations: tuple[Taint, ...] = ()
    queue: Label | None = None
    service_account: Label | None = None
    priority_class: Domain | None = None
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Domain, ...] = ()

    @model_validator(mode="after")
    def _check_resources(self) -> KubernetesBackend:
        for name, amount in self.resources.items():
            if name in (self.gpu_resource, TPU_RESOURCE):
                raise ValueError(f"resources: {name} is asked for by the plan; valid: left out")
            if ("/" in name) != isinstance(amount, int):
                valid = "a whole number, such as 8" if "/" in name else "bytes, such as 100Gi"
                raise ValueError(f"resources.{name}: {amount} is refused; valid: {valid}")
        for key, text in self.annotations.items():
            if access.text_holds_secret(text):
                raise ValueError(
                    f"annotations.{key}: a secret has no value in a file; valid: "
                    f"{self._by_name('NAME')}"
                )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> KubernetesBackend:
        for name in (*self.environment, *self.secrets):
            if name in OWN_VARIABLES:
                raise ValueError(
                    f"{name}: a variable that pods have for themselves; valid: another"
                )
        if both := [name for name in self.environment if name in self.secrets]:
            raise ValueError(f"{both[0]} is in environment and in secrets; valid: in one of them")
        reserved = {**OWN_FOLDERS, **({"/dev/shm": "shared_memory"} if self.shared_memory else {})}
        for mount in self.volumes:
            if mount in reserved:
                raise ValueError(
                    f"volumes: {mount} is where pods have their {reserved[mount]}; valid: another "
                    "folder"
                )
        return self

    def _by_name(self, name: str) -> str:
        return f"secrets: {{{name}: NAME_OF_SECRET/key}}"


AnyBackend = SlurmBackend | KubernetesBackend
KINDS: Mapping[str, type[SlurmBackend] | type[KubernetesBackend]] = {
    "slurm": SlurmBackend,
    "kubernetes": KubernetesBackend,
}


def load_backend(name: str) -> AnyBackend:
    """The description in `configs/clusters/<name>.yaml`, or in the file of that path.

    Raises:
        BackendError: there is no such description, or it is wrong.
    """
    if name.endswith((".yaml", ".yml")):
        return read_backend(Path(name))
    if name not in backend_names():
        raise BackendError(
            f"--cluster {name}: unknown; valid: {', '.join(backend_names())}, or a file NAME.yaml "
            f"(begin with a copy of one in {FOLDER})"
        )
    return read_backend(FOLDER / f"{name}.yaml")


def backend_names() -> list[str]:
    """The shipped descriptions."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read_backend(path: Path) -> AnyBackend:
    """The description in a YAML file.

    Raises:
        BackendError: the file cannot be read or is no description; the message says which keys are
            wrong and why.
    """
    try:
        values = read_yaml(path)
    except YamlError as error:
        raise BackendError(f"{path}: {error}") from None
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        problem = f"{shorten_repr(kind)} is refused" if kind else "required, but not given"
        raise BackendError(f"{path}: kind: {problem}; valid: {', '.join(KINDS)}")
    try:
        return KINDS[kind].model_validate(_with_tuples(values))
    except ValidationError as error:
        problems = _explain_errors(error.errors(include_url=False), KINDS[kind])
        raise BackendError(f"{path}: {'; '.join(problems)}") from None


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with tuples for lists, as nothing is converted afterwards."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }


def _explain_errors(details: Iterable[ErrorDetails], kind: type[BaseModel]) -> list[str]:
    """Dotted key, value, reason and, for an unknown key, the valid ones."""
    return [_explain_failure(detail, kind) for detail in details]


def _explain_failure(detail: ErrorDetails, kind: type[BaseModel]) -> str:
    path = [str(part) for part in detail["loc"] if part != "[key]"]
    name = ".".join(path)
    reason = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        section = TpuSlice if path[:-1] == ["tpu"] else kind
        return f"{name}: unknown key; valid: {', '.join(section.model_fields)}"
    if detail["type"] == "missing":
        return f"{name}: required, but not given"
    if not path:
        return reason
    joint = "; " if reason.startswith(VALID) else ": "
    value = detail["input"]
    text = (
        "a secret"
        if isinstance(value, str) and access.line_holds_secret(value)
        else shorten_repr(value)
    )
    return f"{name}: {text} is refused{joint}{reason}"
