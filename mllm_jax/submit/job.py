"""A run as a job of a cluster: its nodes, devices and seconds, which are checked."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.inputs import standing_in
from mllm_jax.config.load import ConfigError, ExperimentConfig, to_yaml
from mllm_jax.config.sections import AdamWConfig, OptimizerConfig
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.submit import access
from mllm_jax.submit.backends import HOST_CHIPS, AnyBackend, KubernetesBackend, SlurmBackend
from mllm_jax.submit.environment import environment_record
from mllm_jax.submit.inputs import input_problems
from mllm_jax.supervise import ends
from scheduling.costs.work import Parameters
from sharding.axes import is_matrix

#: Exit codes of training after which another attempt would end in the same way.
FINAL = tuple(sorted(ends.FINAL - {ExitCode.OK, ExitCode.INTERRUPTED}))
#: Seconds for the running step to end, and for all processes to notice that they are to stop.
STEP_SECONDS = 120
#: The longest grace that Slurm takes, in seconds.
LONGEST_GRACE = 65535
#: Bytes of a parameter, and of each of its moments, in a checkpoint.
WIDE = 4
#: Most characters of the name of a JobSet: its pods are called `<name>-train-0-<node>-<5 letters>`,
#: which are 63 characters at most.
LONGEST_NAME = 40
#: Folder of the working folder where files of jobs of pods are written.
JOBS = "jobs"
#: Folder, beside those of runs, where pods keep compiled programs.
CACHE = ".compiled"

#: Options of sbatch and srun by which GPUs are asked for, in the place of the plan's and at all.
_ASKS_ITSELF = re.compile(r"(--gres|--gpus\b|--gpus-per-|--tres-per-\w+=.*gpu|-G)")
_ASKS_FOR_GPUS = re.compile(r"(--(gres|tres-per-\w+)=.*gpu|--gpu|--cpus-per-gpu|--mem-per-gpu|-G)")
_UNUSED = (
    "but the plan, parallel.platform {}, uses no GPUs; valid: left out, or parallel.platform=gpu"
)
#: Characters of a path that sbatch does not take for themselves within its options.
_UNWRITABLE = re.compile(r"[\"'\\\x00-\x1f\x7f]")
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True)
class ClusterJob:
    """A run as a job.

    Attributes:
        name: name of the run and of the job.
        folder: folder of the run.
        output: folder of the generated files.
        directory: where the job is submitted; relative paths of the configuration begin there.
        nodes: number of nodes, each with one process.
        devices: devices of one node.
        platform: `cpu`, `gpu` or `tpu`.
        config: the resolved configuration, in YAML.
        environment: the record of where the job was made (`mllm_jax.submit.environment`).
        grace: seconds from SIGTERM to SIGKILL.
        restarts: most attempts after failures.
        join_seconds: seconds for which processes wait for each other.
        hang_seconds: seconds without a heartbeat after which a process counts as dead.
        port: TCP port of process 0.
    """

    name: str
    folder: Path
    output: Path
    directory: Path
    nodes: int
    devices: int
    platform: str
    config: str
    environment: str
    grace: int
    restarts: int
    join_seconds: int
    hang_seconds: float
    port: int

    @property
    def digest(self) -> str:
        """Digest of the configuration and of the record of the environment."""
        return _text_digest(self.config + self.environment)

    @property
    def config_file(self) -> Path:
        """File of the configuration, whose name has a digest of its content.

        Another submission cannot change what attempts of this job read.
        """
        return self.output / f"config-{_text_digest(self.config)}.yaml"

    @property
    def environment_file(self) -> Path:
        """File of the environment's record, whose name has a digest of its content, too."""
        return self.output / f"environment-{_text_digest(self.environment)}.json"

    def training_command(self, python: str, launch: str, config: str) -> tuple[str, ...]:
        """Words of the training's command, without a supervisor and the number of its process.

        Args:
            python: the Python.
            launch: the file `launch.py`.
            config: file of the configuration.
        """
        return python, launch, "train", "--config", config

    @property
    def process_options(self) -> tuple[str, ...]:
        """Further words for several processes, without coordinator and number."""
        if self.nodes == 1:
            return ()
        return "--processes", str(self.nodes), "--join-seconds", str(self.join_seconds)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def make_job(
    config: ExperimentConfig,
    cluster: AnyBackend,
    name: str,
    nodes: int,
    output: Path | None,
    on_nodes: Sequence[str] = (),
) -> ClusterJob:
    """The job of a run.

    Args:
        config: configuration of the run.
        cluster: where it is to run.
        name: name of the description of the cluster, for messages.
        nodes: number of nodes.
        output: folder of generated files; None: `submit` in the folder of the run, and for pods,
            whose folder is not on this machine, `jobs/<run.name>`.
        on_nodes: paths that the nodes have, whether they are here or not.

    Raises:
        ConfigError: cluster and configuration do not fit; the message lists every reason.
    """
    problems = list(_list_problems(config, cluster, name, nodes))
    problems += input_problems(config, cluster, on_nodes)
    if problems:
        raise ConfigError(f"submit --cluster {name}", problems)
    config = _with_cache(config, cluster)
    folder = config.run.path.resolve()
    default_output = (
        folder / "submit" if isinstance(cluster, SlurmBackend) else Path(JOBS) / config.run.name
    )
    return ClusterJob(
        name=config.run.name,
        folder=folder,
        output=(output or default_output).resolve(),
        directory=Path.cwd(),
        nodes=nodes,
        devices=config.parallel.devices // nodes,
        platform=config.parallel.platform,
        config=to_yaml(config),
        environment=environment_record(cluster),
        grace=cluster.grace_seconds or needed_seconds(config, cluster, nodes),
        restarts=cluster.restarts,
        join_seconds=cluster.join_seconds,
        hang_seconds=config.run.hang_seconds,
        port=cluster.port,
    )


def _with_cache(config: ExperimentConfig, cluster: AnyBackend) -> ExperimentConfig:
    """The configuration with compiled programs beside the runs, where a pod would lose its own."""
    if isinstance(cluster, SlurmBackend) or config.run.compilation_cache != "auto":
        return config
    folder = str(Path(config.run.directory) / CACHE)
    run = config.run.model_copy(update={"compilation_cache": folder})
    return config.model_copy(update={"run": run})


def checkpoint_bytes(config: ExperimentConfig) -> int:
    """Bytes of a checkpoint, at most: parameters in float32, and moments of those that train.

    Layers that do not train have no moments; all other parameters are counted as if they trained.
    """
    if config.data.auto_budgets:  # which the job will choose, and on which no parameter depends
        config = standing_in(config)
    work, optimizer = configure_step(config).workload, config.train.optimizer
    modules = {name: module for name, module in work.modules.items() if work.holds_parameters(name)}
    values = float(sum(module.parameters for module in modules.values()))
    for name, module in modules.items():
        layer, outside_layers = work.trained_parameters(name)[0], module.rest_parameters
        values += module.layers * _moment_values(optimizer, layer)
        values += _moment_values(optimizer, outside_layers) + _moment_values(
            optimizer, module.rest_adapters
        )
    return WIDE * round(values)


def _moment_values(optimizer: OptimizerConfig, parameters: Parameters) -> float:
    """Values that the optimizer keeps for parameters; Muon updates what is no matrix as AdamW."""
    return sum(
        count * (optimizer.moments if is_matrix(axes) else AdamWConfig.moments)
        for axes, count in parameters.items()
    )


def needed_seconds(config: ExperimentConfig, cluster: AnyBackend, nodes: int) -> int:
    """Seconds in which the running step ends and a checkpoint is written by all nodes."""
    return STEP_SECONDS + math.ceil(checkpoint_bytes(config) / (nodes * cluster.write_bandwidth))


# ---- checks --------------------------------------------------------------------------------------


def _list_problems(
    config: ExperimentConfig, cluster: AnyBackend, name: str, nodes: int
) -> Iterator[str]:
    yield from _device_problems(config, cluster, name, nodes)
    yield from _grace_problems(config, cluster, nodes)
    if isinstance(cluster, SlurmBackend):
        yield from _slurm_problems(config, cluster)
    else:
        yield from _kubernetes_problems(config, cluster, nodes)
    yield from _secret_problems(config.model_dump(mode="json"))
    if not config.checkpoint.enabled:
        yield (
            "checkpoint.enabled false: an attempt that follows an interruption would begin anew; "
            "valid: true"
        )
    if config.run.min_hosts is not None and config.run.min_hosts < nodes:
        yield (
            f"run.min_hosts {config.run.min_hosts}: the cluster starts the whole job again where a "
            "node is lost, so no hosts go on without it; valid: left out"
        )


def _device_problems(
    config: ExperimentConfig, cluster: AnyBackend, name: str, nodes: int
) -> Iterator[str]:
    devices, per_node = config.parallel.devices, cluster.devices_per_node
    if per_node is None and devices % nodes:
        valid = ", ".join(str(n) for n in range(1, devices + 1) if devices % n == 0)
        yield (
            f"--nodes {nodes}: parallel.devices {devices} cannot be shared evenly by {nodes} "
            f"nodes; valid: --nodes {valid}"
        )
    if per_node is not None and per_node * nodes != devices:
        choices = [f"--nodes {devices // per_node}"] if devices % per_node == 0 else []
        if devices % nodes == 0:
            choices.append(f"devices_per_node: {devices // nodes}")
        choices.append(f"parallel.devices={per_node * nodes} with plans to match")
        yield (
            f"--nodes {nodes}: cluster {name} has {per_node} devices on each node, "
            f"{per_node * nodes} on {nodes}, but the plan uses parallel.devices {devices}; valid: "
            f"{', or '.join(choices)}"
        )


def _grace_problems(config: ExperimentConfig, cluster: AnyBackend, nodes: int) -> Iterator[str]:
    needed, slurm = needed_seconds(config, cluster, nodes), isinstance(cluster, SlurmBackend)
    grace = cluster.grace_seconds or needed
    requirement = (
        f"{needed} s are needed: {STEP_SECONDS} s for a step, and the time to write a checkpoint "
        f"of {checkpoint_bytes(config) / 1e9:.3g} GB on {nodes} nodes at write_bandwidth "
        f"{cluster.write_bandwidth:g}"
    )
    if slurm and needed > LONGEST_GRACE:
        yield (
            f"grace_seconds: {requirement}; valid: at most {LONGEST_GRACE} s, with more nodes or "
            "the true write_bandwidth"
        )
    elif grace < needed:
        yield (
            f"grace_seconds: {grace} s, but {requirement}; valid: at least {needed} s, or left out"
        )
    elif slurm and grace > LONGEST_GRACE:
        yield (
            f"grace_seconds: {grace} s, of which Slurm takes {LONGEST_GRACE} at most; valid: "
            f"{needed} to {LONGEST_GRACE} s, or left out"
        )
    limit = cluster.limit_seconds if isinstance(cluster, SlurmBackend) else None
    least = 2 * max(grace, needed)
    if limit is not None and limit < least:
        yield (
            f"time_limit: {limit} s, of which grace_seconds {least // 2} are for the last "
            f"checkpoint; valid: at least {least} s"
        )


def _slurm_problems(config: ExperimentConfig, cluster: SlurmBackend) -> Iterator[str]:
    if config.parallel.platform == "tpu":
        yield "parallel.platform tpu: TPUs are not asked of Slurm; valid: cpu, gpu"
    if _UNWRITABLE.search(folder := str(config.run.path.resolve())):
        yield (
            f"run.directory: folder {folder!r} of the run has quotes, a backslash or a control "
            "character, which sbatch does not take in its options; valid: a folder without them"
        )
    if cluster.exclusive and cluster.cpus_per_node is not None:
        yield (
            f"cpus_per_node: {cluster.cpus_per_node} of a node that the job has to itself; valid: "
            "left out, or exclusive: false"
        )
    yield from _gpu_problems(config, cluster)


def _gpu_problems(config: ExperimentConfig, cluster: SlurmBackend) -> Iterator[str]:
    """Options that request GPUs; the script itself requests those of the plan."""
    platform = config.parallel.platform
    uses_gpus = platform == "gpu"
    if cluster.gpu_type is not None and not uses_gpus:
        yield f"gpu_type: {cluster.gpu_type}, {_UNUSED.format(platform)}"
    for key in ("options", "launch_options"):
        for option in getattr(cluster, key):
            if not uses_gpus and _ASKS_FOR_GPUS.match(option):
                yield f"{key}: {option}, {_UNUSED.format(platform)}"
    for option in cluster.options:
        if uses_gpus and _ASKS_ITSELF.match(option):
            yield (
                f"options: {option}: the job asks for the GPUs of the plan itself, with --gres; "
                "valid: left out, with gpu_type for their type"
            )


def _kubernetes_problems(
    config: ExperimentConfig, cluster: KubernetesBackend, nodes: int
) -> Iterator[str]:
    yield from _tpu_problems(config, cluster, nodes)
    platform = config.parallel.platform
    if "gpu_resource" in cluster.model_fields_set and platform != "gpu":
        yield f"gpu_resource: {cluster.gpu_resource}, {_UNUSED.format(platform)}"
    yield from name_problems(config.run.name)
    folder = Path(os.path.normpath(Path(cluster.directory) / config.run.path))
    if not any(folder.is_relative_to(mount) for mount in cluster.volumes):
        mounts = ", ".join(f"run.directory={mount}" for mount in cluster.volumes)
        yield (
            f"run.directory {config.run.directory}: {folder} lies in none of the volumes, so "
            f"checkpoints would be lost with their pods; valid: {mounts or 'a volume there'}"
        )


def _tpu_problems(
    config: ExperimentConfig, cluster: KubernetesBackend, nodes: int
) -> Iterator[str]:
    platform, tpu = config.parallel.platform, cluster.tpu
    if (platform == "tpu") != (tpu is not None):
        request = "asks for TPUs (tpu:)" if tpu else "asks for no TPUs (no key tpu)"
        valid = "tpu, or a cluster without the key" if tpu else "cpu, gpu, or a cluster with it"
        yield f"parallel.platform {platform}: the cluster {request}; valid: {valid}"
    elif tpu is not None and tpu.chips != config.parallel.devices:
        yield (
            f"tpu.topology: {tpu.topology} is {tpu.chips} chips, but the plan uses "
            f"parallel.devices {config.parallel.devices}; valid: a topology of so many chips, or "
            f"parallel.devices={tpu.chips} with plans to match"
        )
    elif tpu is not None and nodes not in tpu.hosts:
        *_, hosts = tpu.hosts
        has = f"{HOST_CHIPS} chips on each of {hosts} hosts" if hosts > 1 else "one host"
        yield (
            f"--nodes {nodes}: a slice {tpu.topology} of {tpu.accelerator} has {has}, and a pod "
            f"has all chips of its host; valid: --nodes {' or '.join(map(str, tpu.hosts))}"
        )


def name_problems(name: str) -> Iterator[str]:
    """The problem of a name that is no label, if it is none, with the label most like it."""
    if _LABEL.fullmatch(name) and len(name) <= LONGEST_NAME:
        return
    yield (
        f"run.name {name}: no label of Kubernetes, which takes a to z, 0 to 9 and -, begins with a "
        f"letter, does not end with - and has at most {LONGEST_NAME} characters; valid: "
        f"run.name={nearest_label(name)}"
    )


def nearest_label(name: str) -> str:
    """The valid name of a JobSet that is most like `name`."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    text = text if text[:1].isalpha() else f"run-{text}"
    return text[:LONGEST_NAME].strip("-")


def _secret_problems(values: Any, path: str = "") -> Iterator[str]:
    """Keys of the configuration, which is written into files, whose values give access."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from _secret_problems(value, f"{path}.{name}" if path else name)
    elif isinstance(values, list):
        for number, value in enumerate(values):
            yield from _secret_problems(value, f"{path}.{number}")
    elif isinstance(values, str) and access.text_holds_secret(values):
        yield (
            f"{path}: the text holds a secret, which would be written into files; valid: a text "
            "without it, and the secret in a variable that is passed by name"
        )
