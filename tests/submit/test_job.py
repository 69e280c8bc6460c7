"""A run and a cluster that do not fit are refused with both numbers and the valid choices."""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.config.load import ConfigError, load_config
from mllm_jax.submit.backends import TpuSlice
from mllm_jax.submit.job import (
    LONGEST_NAME,
    STEP_SECONDS,
    ClusterJob,
    checkpoint_bytes,
    name_problems,
    nearest_label,
)
from mllm_jax.train.step.build import build_train_step
from tests.configs import config
from tests.submit.jobs import job, kubernetes, slurm


def refusal(cluster: Any, nodes: int = 2, **changes: Any) -> str:
    with pytest.raises(ConfigError, match="submit --cluster mine") as told:
        job(cluster, nodes, **changes)
    return str(told.value)


def test_the_devices_of_a_job_are_those_of_the_plan() -> None:
    assert job(slurm(), 2).devices == 2
    assert job(slurm(devices_per_node=1), 4).devices == 1
    said = refusal(slurm(), 3)
    assert "--nodes 3: parallel.devices 4 cannot be shared evenly" in said
    assert "valid: --nodes 1, 2, 4" in said
    said = refusal(slurm(devices_per_node=4))
    assert "4 devices on each node, 8 on 2, but the plan uses parallel.devices 4" in said
    assert "valid: --nodes 1, or devices_per_node: 2, or parallel.devices=8 with plans" in said


def test_tpus_are_asked_for_where_the_plan_uses_them() -> None:
    v5p = {"accelerator": "tpu-v5p-slice", "topology": "2x2x1"}
    assert job(kubernetes(tpu=v5p), 1, parallel__platform="tpu").platform == "tpu"
    said = refusal(kubernetes(), parallel__platform="tpu")
    assert "parallel.platform tpu: the cluster asks for no TPUs" in said
    said = refusal(kubernetes(tpu=v5p))
    assert "parallel.platform cpu: the cluster asks for TPUs" in said
    said = refusal(kubernetes(tpu=v5p | {"topology": "2x4"}), 1, parallel__platform="tpu")
    assert "2x4 is 8 chips, but the plan uses parallel.devices 4" in said
    assert "valid: cpu, gpu" in refusal(slurm(), parallel__platform="tpu")


@pytest.mark.parametrize(
    ("accelerator", "topology", "hosts"),
    [
        ("tpu-v5p-slice", "2x2x1", (1,)),
        ("tpu-v5p-slice", "4x4x4", (16,)),
        ("tpu-v5p-slice", "2x2x2", (2,)),
        ("tpu-v5-lite-podslice", "1x1", (1,)),
        ("tpu-v5-lite-podslice", "2x4", (1, 2)),
        ("tpu-v6e-slice", "4x4", (4,)),
    ],
)
def test_a_slice_has_four_chips_on_each_of_several_hosts(
    accelerator: str, topology: str, hosts: tuple[int, ...]
) -> None:
    assert TpuSlice(accelerator=accelerator, topology=topology).hosts == hosts


def test_pods_have_all_chips_of_their_hosts() -> None:
    own = kubernetes(tpu={"accelerator": "tpu-v5p-slice", "topology": "2x2x1"})
    said = refusal(own, 2, parallel__platform="tpu")
    assert "--nodes 2: a slice 2x2x1 of tpu-v5p-slice has one host, and a pod has all" in said
    assert said.endswith("valid: --nodes 1")
    own = kubernetes(tpu={"accelerator": "tpu-v6e-slice", "topology": "2x4"})
    plans = {"devices": 8, "platform": "tpu", "decoder": {"data": 8}}
    plans |= {"encoders": {"vision": {"data": 8}, "audio": {"data": 8}}}
    said = refusal(own, 4, parallel=plans, data__rows=8)
    assert "--nodes 4: a slice 2x4 of tpu-v6e-slice has 4 chips on each of 2 hosts" in said
    assert said.endswith("valid: --nodes 1 or 2")
    with pytest.raises(ValueError, match="topology 2x3: 6 chips are no whole hosts; valid: at mo"):
        TpuSlice(accelerator="tpu-v6e-slice", topology="2x3")


def test_gpus_are_asked_for_where_the_plan_uses_them() -> None:
    unused = "but the plan, parallel.platform cpu, uses no GPUs; valid: left out, or parallel.platf"
    assert f"gpu_type: h100, {unused}" in refusal(slurm(gpu_type="h100"))
    for option in ("--gres=gpu:8", "--gpus-per-node=8", "--gpu-bind=none", "--mem-per-gpu=1G"):
        for key in ("options", "launch_options"):
            assert f"{key}: {option}, {unused}" in refusal(slurm(**{key: (option,)}))
    assert f"gpu_resource: nvidia.com/gpu, {unused}" in refusal(
        kubernetes(gpu_resource="nvidia.com/gpu")
    )
    job(slurm(options=("--gres=nvme:1", "--gid=5"), launch_options=("--cpu-bind=none",)))
    said = refusal(slurm(options=("--gres=gpu:8",)), parallel__platform="gpu")
    assert "options: --gres=gpu:8: the job asks for the GPUs of the plan itself" in said
    assert "valid: left out, with gpu_type for their type" in said
    job(slurm(options=("--gpu-bind=none",), gpu_type="h100"), parallel__platform="gpu")
    job(kubernetes(gpu_resource="amd.com/gpu"), parallel__platform="gpu")


def test_the_grace_fits_the_checkpoint() -> None:
    size = checkpoint_bytes(config())
    assert job(slurm()).grace == STEP_SECONDS + 1
    slow = job(slurm(write_bandwidth=100.0))
    assert slow.grace == STEP_SECONDS + math.ceil(size / 200)
    assert job(slurm(grace_seconds=200)).grace == 200
    for cluster in (slurm, kubernetes):
        said = refusal(cluster(grace_seconds=30))
        assert (
            f"grace_seconds: 30 s, but {STEP_SECONDS + 1} s are needed: 120 s for a step, " in said
        )
        assert "valid: at least 121 s, or left out" in said
    said = refusal(slurm(write_bandwidth=1.0))
    assert f"{STEP_SECONDS + math.ceil(size / 2)} s are needed" in said
    assert "valid: at most 65535 s" in said
    said = refusal(slurm(grace_seconds=200, time_limit="3:00"))
    assert "time_limit: 180 s, of which grace_seconds 200" in said
    assert "valid: at least 400 s" in said


def test_the_longest_grace_is_that_of_slurm() -> None:
    said = refusal(slurm(grace_seconds=86400))
    assert (
        "grace_seconds: 86400 s, of which Slurm takes 65535 at most; valid: 121 to 65535 s" in said
    )
    assert job(kubernetes(grace_seconds=86400)).grace == 86400


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_the_checkpoint_has_every_parameter_with_its_moments(kind: str) -> None:
    own = config(train__optimizer={"kind": kind})
    counts = [
        leaf.size for leaf in jax.tree.leaves(build_train_step(own).abstract_state) if leaf.ndim
    ]
    assert checkpoint_bytes(own) == sum(counts) * 4


def test_the_checkpoint_is_as_large_with_budgets_that_the_job_chooses() -> None:
    assert checkpoint_bytes(config(data__budgets="auto")) == checkpoint_bytes(config())


def test_the_checkpoint_has_no_moments_of_frozen_layers() -> None:
    own = config(train__freeze=["audio", "vision"])
    exact = (
        sum(
            leaf.size for leaf in jax.tree.leaves(build_train_step(own).abstract_state) if leaf.ndim
        )
        * 4
    )
    assert exact < checkpoint_bytes(own) < min(1.5 * exact, checkpoint_bytes(config()))


def test_runs_of_pods_are_kept_on_volumes() -> None:
    said = refusal(kubernetes(volumes={"/data": "runs"}))
    assert "/workspace/runs/test lies in none of the volumes" in said
    assert "valid: run.directory=/data" in said
    job(kubernetes(volumes={"/data": "runs"}), run__directory="/data/mine")
    assert "/workspace/elsewhere/test lies in none" in refusal(
        kubernetes(), run__directory="runs/../elsewhere"
    )


def test_pods_keep_compiled_programs_beside_their_runs() -> None:
    def kept(cluster: Any, **changes: Any) -> str | None:
        return yaml.safe_load(job(cluster, **changes).config)["run"]["compilation_cache"]

    own = kubernetes(volumes={"/data": "runs"})
    assert kept(own, run__directory="/data/mine") == "/data/mine/.compiled"
    assert kept(own, run__directory="/data/mine", run__compilation_cache=None) is None
    assert kept(slurm()) == "auto"


def test_hosts_that_may_be_missing_are_refused() -> None:
    """Slurm and JobSet start the whole job again."""
    for cluster in (slurm(), kubernetes()):
        assert "run.min_hosts 1: the cluster starts the whole job again" in refusal(
            cluster, run__min_hosts=1
        )


@pytest.mark.parametrize("character", ['"', "'", "\\", "\n"])
def test_folders_that_sbatch_does_not_take_are_refused(character: str) -> None:
    said = refusal(slurm(), run__directory=f"/data/a{character}b")
    assert "has quotes, a backslash or a control character, which sbatch does not take" in said


def test_a_run_that_saves_nothing_is_refused() -> None:
    assert "checkpoint.enabled false" in refusal(slurm(), checkpoint__enabled=False)


def test_a_configuration_that_holds_a_secret_is_refused() -> None:
    """By its form; addresses that hold one are refused in every configuration."""
    source = {"kind": "llava", "path": "/data/hf_abc1230123456789.jsonl", "media": "media"}
    said = refusal(slurm(), data__source=source)
    assert "data.source.path: the text holds a secret" in said
    assert "abc123" not in said
    tagged: dict[str, Any] = {
        "run__loggers": ["wandb"],
        "run__wandb": {"tags": ["a", "hf_abc1230123456789"]},
    }
    assert "run.wandb.tags.1: the text holds a secret" in refusal(kubernetes(), **tagged)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", fullmatch=True))
def test_every_name_has_a_label(name: str) -> None:
    label = nearest_label(name)
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", label)
    assert len(label) <= LONGEST_NAME
    assert nearest_label(label) == label
    assert [*name_problems(label)] == []
    assert len([*name_problems(name)]) == (label != name)


def test_a_name_that_is_no_label_is_refused_with_one_that_is() -> None:
    assert job(slurm(), run__name="My_Run.2").name == "My_Run.2"
    said = refusal(kubernetes(), run__name="My_Run.2")
    assert "run.name My_Run.2: no label of Kubernetes, which takes a to z, 0 to 9 and -" in said
    assert said.endswith("valid: run.name=my-run-2")
    assert job(kubernetes(), run__name="my-run-2").name == "my-run-2"


def test_what_attempts_read_does_not_change_with_another_submission(tmp_path: Any) -> None:
    first = job(slurm(), output=tmp_path)
    second = job(slurm(), output=tmp_path, train__steps=5)
    assert first.config_file != second.config_file
    first.config_file.write_text(first.config)
    assert load_config(first.config_file) == config()


def test_one_node_needs_no_coordinator() -> None:
    def words(own: ClusterJob) -> tuple[str, ...]:
        return (*own.training_command("python", "launch.py", "c.yaml"), *own.process_options)

    assert words(job(slurm(), 1)) == ("python", "launch.py", "train", "--config", "c.yaml")
    assert words(job(slurm(), 2))[-4:] == ("--processes", "2", "--join-seconds", "600")
