"""The objects of a job of Kubernetes: a JobSet, its headless service, its configuration.

A pod runs one process on one node. All pods are started again together, by what the pod's end was:

    exit code 2, 3, 4, 5 ............... the JobSet has failed for good
    130 (a node is drained, preempted) . started again, whenever that happens
    1, 6, 137, a probe, a lost node .... started again, at most `restarts` times

Objects are plain dicts, as the API takes them. Sources: the API of JobSet v1alpha2 and its failure
policy (jobset.sigs.k8s.io), pod failure policies of Jobs, labels of TPUs on GKE.
"""

from __future__ import annotations

import math
import re
from typing import Any

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.lock import JOBSET
from mllm_jax.submit.backends import (
    CONFIG_FOLDER,
    LIVENESS_FOLDER,
    PROCESS,
    TPU_RESOURCE,
    KubernetesBackend,
)
from mllm_jax.submit.forms import TAINT
from mllm_jax.submit.job import FINAL, ClusterJob
from mllm_jax.submit.liveness import LIVENESS_VARIABLE, TOUCH_SECONDS
from mllm_jax.supervise.agent import SUPERVISE

Object = dict[str, Any]

#: Name of the one kind of pods, and of their container.
TRAIN = "train"
CONFIG_NAME, RECORD_NAME = "config.yaml", "environment.json"
#: The file that a process touches while it lives.
LIVENESS_FILE = f"{LIVENESS_FOLDER}/liveness"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
#: Annotation by which the pods of a slice have its node pool, and no others, to themselves.
_EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
#: Seconds between two probes, and of one of them at most.
PERIOD, TIMEOUT = 10, 10
#: Seconds in which all processes have found their devices once they have met.
FOUND = 600
#: Probes in a row that fail before a process counts as dead.
FAILURES = 3
#: Seconds for a process that is dead by its probe: it saves nothing.
DEAD_GRACE = 10


def make_manifests(job: ClusterJob, cluster: KubernetesBackend) -> list[Object]:
    """All objects of a job, in the order in which they are made."""
    return [make_service(job, cluster), make_config_map(job, cluster), make_jobset(job, cluster)]


def make_service(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    """The headless service, by which pods find each other's addresses before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _make_metadata(job, cluster),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"jobset.sigs.k8s.io/jobset-name": job.name},
            "ports": [{"name": "coordinator", "port": job.port}],
        },
    }


def make_config_map(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    """The configuration of the run and the record of its environment, named by their content.

    Another `kubectl apply` of the run leaves it as it is: that one's JobSet names another
    ConfigMap, and is refused, as the pods of a JobSet cannot be changed.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _make_metadata(job, cluster) | {"name": _config_name(job)},
        "immutable": True,
        "data": {CONFIG_NAME: job.config, RECORD_NAME: job.environment},
    }


def make_jobset(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    """The JobSet: one indexed Job whose pods are the processes of the run."""
    labels = {"kueue.x-k8s.io/queue-name": cluster.queue} if cluster.queue else {}
    metadata = _make_metadata(job, cluster)
    metadata["labels"] |= labels
    if cluster.tpu:
        metadata["annotations"] = dict(_EXCLUSIVE)
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "subdomain": job.name,
                "publishNotReadyAddresses": True,
            },
            "failurePolicy": {"maxRestarts": job.restarts, "rules": _restart_rules()},
            "successPolicy": {"operator": "All"},
            "replicatedJobs": [
                {"name": TRAIN, "replicas": 1, "template": {"spec": _make_job(job, cluster)}}
            ],
        },
    }


def coordinator_address(job: ClusterJob, cluster: KubernetesBackend) -> str:
    """Address of process 0: the whole name of the first pod.

    The headless service resolves it for the other pods. The pod itself has it in its /etc/hosts, so
    that process 0 listens before the service knows of it.
    """
    domain = f"{cluster.namespace}.svc.{cluster.cluster_domain}"
    return f"{job.name}-{TRAIN}-0-0.{job.name}.{domain}:{job.port}"


def _make_metadata(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    labels = {"app.kubernetes.io/name": "mllm-jax", "app.kubernetes.io/instance": job.name}
    return {"name": job.name, "namespace": cluster.namespace, "labels": labels}


def _config_name(job: ClusterJob) -> str:
    return f"{job.name}-{job.digest}"


# ---- failures ------------------------------------------------------------------------------------


def _end_rules() -> list[Object]:
    """Rules by which a pod's end fails its Job, with the number of the rule in the message."""
    rules = (FINAL, (ExitCode.INTERRUPTED,))
    return [
        {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": TRAIN,
                "operator": "In",
                "values": [int(code) for code in codes],
            },
        }
        for codes in rules
    ]


def _restart_rules() -> list[Object]:
    """The action after a failure of the Job, by the rule that has matched.

    Ends without a rule are failures with the reason BackoffLimitExceeded, which start all pods
    again and count.
    """
    actions = {"final": "FailJobSet", "interrupted": "RestartJobSetAndIgnoreMaxRestarts"}
    return [
        {
            "name": name,
            "action": action,
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [f"matching FailJob rule at index {number}$"],
        }
        for number, (name, action) in enumerate(actions.items())
    ]


# ---- pods ----------------------------------------------------------------------------------------


def _make_job(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    return {
        "completionMode": "Indexed",
        "parallelism": job.nodes,
        "completions": job.nodes,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": _end_rules()},
        "template": _template_metadata(cluster) | {"spec": _make_pod(job, cluster)},
    }


def _template_metadata(cluster: KubernetesBackend) -> Object:
    annotations = dict(cluster.annotations)
    return {"metadata": {"annotations": annotations}} if annotations else {}


def _make_pod(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    volumes, mounts = _make_volumes(job, cluster)
    spec: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": job.grace,
        "containers": [_make_container(job, cluster, mounts)],
        "volumes": volumes,
    }
    selector = dict(cluster.node_selector)
    if cluster.tpu:
        selector["cloud.google.com/gke-tpu-accelerator"] = cluster.tpu.accelerator
        selector["cloud.google.com/gke-tpu-topology"] = cluster.tpu.topology
    further = {
        "nodeSelector": selector,
        "tolerations": [_make_toleration(taint) for taint in cluster.tolerations],
        "serviceAccountName": cluster.service_account,
        "priorityClassName": cluster.priority_class,
        "imagePullSecrets": [{"name": name} for name in cluster.image_pull_secrets],
        # Names of the cluster's services are known under a node's network with this policy alone.
        "hostNetwork": cluster.host_network,
        "dnsPolicy": "ClusterFirstWithHostNet" if cluster.host_network else None,
    }
    return spec | {key: value for key, value in further.items() if value}


def _make_toleration(taint: str) -> Object:
    match = re.fullmatch(TAINT.pattern, taint)
    assert match is not None  # by the type of the key
    parts = {key: text for key, text in match.groupdict().items() if text is not None}
    return parts | {"operator": "Equal" if "value" in parts else "Exists"}


def _make_container(job: ClusterJob, cluster: KubernetesBackend, mounts: list[Object]) -> Object:
    container: Object = {
        "name": TRAIN,
        "image": cluster.image,
        "imagePullPolicy": cluster.pull_policy,
        "workingDir": cluster.directory,
        "command": _make_command(job, cluster),
        "env": _make_environment(job, cluster),
        "ports": [{"name": "coordinator", "containerPort": job.port}],
        "resources": _make_resources(job, cluster),
        "volumeMounts": mounts,
        "startupProbe": _make_probe(job, cluster, math.ceil((job.join_seconds + FOUND) / PERIOD)),
        "livenessProbe": _make_probe(job, cluster, FAILURES)
        | {"terminationGracePeriodSeconds": DEAD_GRACE},
    }
    return container


def _make_command(job: ClusterJob, cluster: KubernetesBackend) -> list[str]:
    """The training's command, in which Kubernetes inserts the number of the process."""
    words = job.training_command(cluster.python, "launch.py", f"{CONFIG_FOLDER}/{CONFIG_NAME}")
    words = (*words, SUPERVISE)
    if job.nodes == 1:
        return list(words)
    place = ("--coordinator", coordinator_address(job, cluster), "--process", f"$({PROCESS})")
    words = (*words, *job.process_options, *place)
    return [*(_wait_command(job, cluster) if cluster.host_network else ()), *words]


def _wait_command(job: ClusterJob, cluster: KubernetesBackend) -> tuple[str, ...]:
    """Words before a command that wait until the name of the first pod is known.

    Under the network of its node a pod has no /etc/hosts of its own, so that process 0, too, has
    its name from the service alone.
    """
    host = coordinator_address(job, cluster).rpartition(":")[0]
    known = f'getent hosts "$0" >/dev/null || [ $((try += 1)) -gt {job.join_seconds} ]'
    return "sh", "-c", f'try=0; until {known}; do sleep 1; done; exec "$@"', host


def _make_environment(job: ClusterJob, cluster: KubernetesBackend) -> list[Object]:
    variables = {
        LIVENESS_VARIABLE: LIVENESS_FILE,
        JOBSET: f"{cluster.namespace}/{job.name}",
    } | dict(cluster.environment)
    values: list[Object] = [{"name": name, "value": value} for name, value in variables.items()]
    index = {"name": PROCESS, "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
    secrets = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for name, (secret, key) in (
            (n, reference.split("/")) for n, reference in cluster.secrets.items()
        )
    ]
    return [*values, *([index] if job.nodes > 1 else []), *secrets]


def _make_resources(job: ClusterJob, cluster: KubernetesBackend) -> Object:
    """The resources that the node must have; limits of devices are also requests."""
    devices = {"gpu": cluster.gpu_resource, "tpu": TPU_RESOURCE}.get(job.platform)
    others = {name: str(amount) for name, amount in cluster.resources.items()}
    requests = {
        "cpu": str(cluster.cpus_per_node) if cluster.cpus_per_node else None,
        "memory": f"{cluster.memory_per_node}Gi" if cluster.memory_per_node else None,
    }
    resources = {
        "limits": ({devices: str(job.devices)} if devices else {}) | others,
        "requests": {name: value for name, value in requests.items() if value},
    }
    return {name: value for name, value in resources.items() if value}


def _make_volumes(job: ClusterJob, cluster: KubernetesBackend) -> tuple[list[Object], list[Object]]:
    """Volumes of a pod, and where its container mounts them."""
    volumes: list[Object] = [
        {"name": "config", "configMap": {"name": _config_name(job)}},
        {"name": "liveness", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
    mounts: list[Object] = [
        {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
        {"name": "liveness", "mountPath": LIVENESS_FOLDER},
    ]
    if cluster.shared_memory:
        size = f"{cluster.shared_memory}Gi"
        volumes.append({"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
        mounts.append({"name": "memory", "mountPath": "/dev/shm"})
    for number, (mount, claim) in enumerate(cluster.volumes.items()):
        name = f"volume-{number}"
        volumes.append({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": name, "mountPath": mount})
    return volumes, mounts


def _make_probe(job: ClusterJob, cluster: KubernetesBackend, failures: int) -> Object:
    """A liveness probe of the process, which touches its file as soon as its devices are found."""
    age = str(math.ceil(max(job.hang_seconds, 2 * TOUCH_SECONDS)))
    return {
        "exec": {"command": [cluster.python, "-m", "mllm_jax.submit.liveness", age]},
        "periodSeconds": PERIOD,
        "timeoutSeconds": TIMEOUT,
        "failureThreshold": failures,
    }
