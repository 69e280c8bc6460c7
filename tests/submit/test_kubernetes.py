"""Objects of Kubernetes, against the published schema of JobSet and by what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mllm_jax.config.load import load_config
from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.lock import JOBSET
from mllm_jax.submit.backends import KubernetesBackend, backend_names, load_backend
from mllm_jax.submit.job import LONGEST_NAME, make_job
from mllm_jax.submit.kubernetes import make_manifests
from tests.configs import config
from tests.submit.jobs import job, kubernetes
from tests.submit.openapi import errors

SCHEMA = json.loads(Path(__file__).with_name("jobset.json").read_text())
V5P = {"accelerator": "tpu-v5p-slice", "topology": "2x2x1"}


def jobset(cluster: KubernetesBackend, nodes: int = 2, **changes: Any) -> dict[str, Any]:
    *_, found = make_manifests(job(cluster, nodes, **changes), cluster)
    return found


def pod(found: dict[str, Any]) -> dict[str, Any]:
    (replicated,) = found["spec"]["replicatedJobs"]
    spec: dict[str, Any] = replicated["template"]["spec"]["template"]["spec"]
    return spec


def container(found: dict[str, Any]) -> dict[str, Any]:
    (own,) = pod(found)["containers"]
    return own


def refused(found: dict[str, Any]) -> list[str]:
    return list(errors(found, SCHEMA["schema"]))


RICH = {
    "devices_per_node": 2,
    "namespace": "training",
    "environment": {"A": "1", "B": "$(C)"},
    "secrets": {"HF_TOKEN": "hub/token"},
    "cpus_per_node": 32,
    "memory_per_node": 200,
    "shared_memory": 64,
    "node_selector": {"example.com/pool": "big"},
    "tolerations": ("nvidia.com/gpu", "team=ml:NoSchedule", "spot:NoExecute", "old="),
    "queue": "team",
    "service_account": "trainer",
    "resources": {"rdma/ib": 8, "ephemeral-storage": "100Gi"},
    "host_network": True,
    "annotations": {"k8s.v1.cni.cncf.io/networks": '[{"name": "ib"}]'},
    "priority_class": "batch",
    "image_pull_secrets": ("registry", "other"),
}


@pytest.mark.parametrize(
    ("keys", "nodes"),
    [({}, 1), ({}, 2), (RICH, 1), (RICH, 2), (RICH | {"tpu": V5P}, 1)],
    ids=["least", "least2", "gpu", "gpu2", "tpu"],
)
def test_jobsets_are_as_their_schema_says(keys: dict[str, Any], nodes: int) -> None:
    platform = "tpu" if "tpu" in keys else "gpu"
    cluster = kubernetes(**keys | ({"devices_per_node": 4 // nodes} if keys else {}))
    found = jobset(cluster, nodes, parallel__platform=platform)
    assert found["apiVersion"] == SCHEMA["apiVersion"]
    assert not refused(found)


@settings(max_examples=30)
@given(st.data())
def test_the_schema_refuses_a_field_that_it_does_not_know_anywhere(data: st.DataObject) -> None:
    """The check itself can fail, at every place."""
    found = deepcopy(jobset(kubernetes(**RICH), parallel__platform="gpu"))
    open_ones = ("metadata", "nodeSelector", "limits", "requests", "labels", "annotations")
    places = [own for key, own in _objects(found) if key not in open_ones]
    own = data.draw(st.sampled_from(places))
    own["surprise"] = 1
    assert any("surprise: unknown field" in error for error in refused(found))
    del own["surprise"]
    key = data.draw(st.sampled_from(sorted(own)))
    own[key] = 1.5
    assert refused(found)


def _objects(value: Any, key: str = "") -> list[tuple[str, dict[str, Any]]]:
    """All mappings within a value that have keys, with their own keys."""
    if isinstance(value, list):
        return [pair for item in value for pair in _objects(item, key)]
    if not isinstance(value, dict) or key in ("metadata", "nodeSelector"):
        return []
    inner = [pair for name, own in value.items() for pair in _objects(own, name)]
    return [(key, value), *inner] if value else inner


def test_devices_are_asked_for() -> None:
    found_all = jobset(kubernetes(), parallel__platform="gpu")
    assert container(found_all)["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    chips = jobset(kubernetes(tpu=V5P), 1, parallel__platform="tpu")
    assert container(chips)["resources"]["limits"] == {"google.com/tpu": "4"}
    assert pod(chips)["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
        "cloud.google.com/gke-tpu-topology": "2x2x1",
    }
    assert container(jobset(kubernetes()))["resources"] == {}
    assert chips["metadata"]["annotations"] == {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"
    }
    assert "annotations" not in found_all["metadata"]


def test_further_keys_arrive_where_kubernetes_looks_for_them() -> None:
    found = jobset(kubernetes(**RICH), parallel__platform="gpu")
    limits = container(found)["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "2", "rdma/ib": "8", "ephemeral-storage": "100Gi"}
    own = pod(found)
    assert own["priorityClassName"] == "batch"
    assert own["imagePullSecrets"] == [{"name": "registry"}, {"name": "other"}]
    assert (own["hostNetwork"], own["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    (replicated,) = found["spec"]["replicatedJobs"]
    template = replicated["template"]["spec"]["template"]
    assert template["metadata"]["annotations"] == RICH["annotations"]


def test_a_pod_under_the_network_of_its_node_waits_for_the_name_of_the_first(
    tmp_path: Path,
) -> None:
    """Without an /etc/hosts of its own, process 0 could not listen."""
    (tmp_path / "getent").write_text(
        f'#!/bin/sh\necho "$2" >>{tmp_path}/asked; [ "$(wc -l <{tmp_path}/asked)" -gt 2 ]\n'
    )
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    for name in ("getent", "sleep"):
        (tmp_path / name).chmod(0o755)
    words = container(jobset(kubernetes(host_network=True)))["command"]
    at = words.index("python3")
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = [*words[:at], "echo", *words[at:]]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == words[at:]
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["test-train-0-0.test.default.svc.cluster.local"] * 3


def test_pods_have_what_the_description_asks_for() -> None:
    found = jobset(kubernetes(**RICH), parallel__platform="gpu")
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert found["metadata"]["labels"]["app.kubernetes.io/instance"] == "test"
    assert found["metadata"]["namespace"] == "training"
    assert "kueue.x-k8s.io/queue-name" not in jobset(kubernetes())["metadata"]["labels"]
    own, resources = pod(found), container(found)["resources"]
    assert own["serviceAccountName"] == "trainer"
    assert own["nodeSelector"] == {"example.com/pool": "big"}
    assert resources["requests"] == {"cpu": "32", "memory": "200Gi"}
    volumes = {volume["name"]: volume for volume in own["volumes"]}
    places = {
        mount["mountPath"]: volumes[mount["name"]] for mount in container(found)["volumeMounts"]
    }
    assert places["/dev/shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}
    assert places["/workspace/runs"]["persistentVolumeClaim"] == {"claimName": "runs"}
    assert len(places) == len(volumes)


def test_processes_find_process_0_by_the_headless_service() -> None:
    cluster = kubernetes()
    service, _, found = make_manifests(job(cluster), cluster)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["metadata"]["name"] == found["spec"]["network"]["subdomain"] == "test"
    assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "test"}
    words = container(found)["command"]
    # <jobset>-<replicated job>-<number of the job>-<number of the pod>.<subdomain>, and what the
    # kubelet writes after it into the pod's /etc/hosts.
    whole = "test-train-0-0.test.default.svc.cluster.local:12355"
    assert words[words.index("--coordinator") + 1] == whole
    variable = words[words.index("--process") + 1].removeprefix("$(").removesuffix(")")
    (index,) = (own for own in container(found)["env"] if own["name"] == variable)
    annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == annotation
    alone = container(jobset(cluster, 1))["command"]
    assert "--coordinator" not in alone
    assert "--supervise" in words
    assert "--supervise" in alone


def test_taints_are_tolerated_as_kubectl_writes_them() -> None:
    assert pod(jobset(kubernetes(**RICH)))["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
        {"key": "old", "operator": "Equal", "value": ""},
    ]


def test_another_configuration_leaves_that_of_a_running_job_and_changes_its_pods() -> None:
    """So the API server, which changes no pods of a JobSet, refuses a second apply."""
    cluster = kubernetes()
    made = job(cluster)
    others = job(cluster, train__steps=5), replace(made, environment="{}")
    sent = [make_manifests(own, cluster) for own in (made, *others)]
    maps = [own[1]["metadata"]["name"] for own in sent]
    assert len({*maps}) == 3
    assert sent[0][1]["immutable"]
    for own, name in zip(sent, maps, strict=True):
        (volume,) = (each for each in pod(own[2])["volumes"] if each["name"] == "config")
        assert volume["configMap"]["name"] == name
        assert own[2]["metadata"]["name"] == "test"


def action(found: dict[str, Any], code: int) -> str:
    """What JobSet does after a pod has ended with `code`, as its controller decides."""
    (replicated,) = found["spec"]["replicatedJobs"]
    spec = replicated["template"]["spec"]
    reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    for number, rule in enumerate(spec["podFailurePolicy"]["rules"]):
        if code in rule["onExitCodes"]["values"]:
            reason = "PodFailurePolicy"
            message = (
                f"Container train for pod default/test-train-0-1-abcde failed with exit code "
                f"{code} matching FailJob rule at index {number}"
            )
            break
    for rule in found["spec"]["failurePolicy"]["rules"]:
        patterns = rule["onJobFailureMessagePatterns"]
        if reason in rule["onJobFailureReasons"] and any(
            re.search(pattern, message) for pattern in patterns
        ):
            return str(rule["action"])
    return "RestartJobSet"


def test_exit_codes_decide_what_is_started_again() -> None:
    found = jobset(kubernetes(restarts=3))
    finals = (ExitCode.BAD_INPUT, ExitCode.BAD_DATA, ExitCode.DIVERGED, ExitCode.DAMAGED)
    assert {action(found, code) for code in finals} == {"FailJobSet"}
    assert action(found, ExitCode.INTERRUPTED) == "RestartJobSetAndIgnoreMaxRestarts"
    others = {*ExitCode} - {*finals, ExitCode.OK, ExitCode.INTERRUPTED} | {137, 143, 139}
    assert {action(found, code) for code in others} == {"RestartJobSet"}
    assert found["spec"]["failurePolicy"]["maxRestarts"] == 3
    assert pod(found)["restartPolicy"] == "Never"
    (replicated,) = found["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["backoffLimit"] == 0


def test_graces_and_probes_fit_the_run() -> None:
    found = jobset(kubernetes(grace_seconds=150, join_seconds=100), run__hang_seconds=45.5)
    assert pod(found)["terminationGracePeriodSeconds"] == 150
    start, live = container(found)["startupProbe"], container(found)["livenessProbe"]
    assert live["exec"]["command"] == ["python3", "-m", "mllm_jax.submit.liveness", "46"]
    assert start["failureThreshold"] * start["periodSeconds"] >= 100 + 600
    assert live["terminationGracePeriodSeconds"] < 150


def test_secrets_are_references() -> None:
    found = jobset(kubernetes(secrets={"HF_TOKEN": "hub/token"}))
    (own,) = (one for one in container(found)["env"] if one["name"] == "HF_TOKEN")
    assert own["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert "value" not in own


def test_the_longest_name_leaves_room_for_the_names_of_pods() -> None:
    name = "x" * LONGEST_NAME
    found = jobset(kubernetes(), run__name=name)
    (replicated,) = found["spec"]["replicatedJobs"]
    assert len(f"{name}-{replicated['name']}-0-9999-abcde") <= 63


def test_the_configuration_arrives_as_it_is(tmp_path: Path) -> None:
    cluster = kubernetes(environment={"ZERO": "0", "YES": "yes", "TIME": "12:30", "SCI": "1e3"})
    text = "---\n".join(map(write_yaml, make_manifests(job(cluster), cluster)))
    _, config_map, found = yaml.safe_load_all(text)
    content, record = (config_map["data"][name] for name in ("config.yaml", "environment.json"))
    assert json.loads(record)["runs_in"] == {"image": "mllm-jax:1"}
    path = tmp_path / "config.yaml"
    path.write_text(content)
    assert load_config(path) == config(run__compilation_cache="runs/.compiled")
    values = {own["name"]: own.get("value") for own in container(found)["env"]}
    assert values[JOBSET] == "default/test"  # by which a lock tells its jobs apart
    assert {name: values[name] for name in cluster.environment} == dict(cluster.environment)
    assert "  config.yaml: |\n" in text


@pytest.mark.parametrize("name", [own for own in backend_names() if own.startswith("kubernetes")])
def test_shipped_descriptions_make_valid_objects(name: str) -> None:
    cluster = load_backend(name)
    assert isinstance(cluster, KubernetesBackend)
    each = cluster.devices_per_node or 2
    nodes = cluster.tpu.chips // each if cluster.tpu else 2
    platform = "tpu" if cluster.tpu else "gpu"
    devices = each * nodes
    data = {"devices": devices, "platform": platform, "decoder": {"data": devices}}
    plans = {"vision": {"data": devices}, "audio": {"data": devices}}
    own = config(parallel=data | {"encoders": plans}, data__rows=devices)
    *_, found = make_manifests(make_job(own, cluster, name, nodes, None), cluster)
    assert not refused(found)
