"""The place of a supervisor that a cluster has started."""

from __future__ import annotations

import pytest

from mllm_jax.runtime.backends.place import place_from_environment
from mllm_jax.runtime.run_peers import JoinError

SLURM = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_JOB_ID": "4100",
}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a,b,c", "a"), ("gpu-[07-09]", "gpu-07"), ("rack1-gpu[3,5-6]", "rack1-gpu3"), ("n1", "n1")],
)
def test_slurm_tells_the_first_node(nodes, first):
    place = place_from_environment({**SLURM, "SLURM_STEP_NODELIST": nodes}, 60.0)
    assert (place.index, place.count) == (2, 3)
    assert place.coordinator == f"{first}:61444"


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("8192.0;tcp://10.0.0.7,192.168.1.1:9999", "10.0.0.7"),
        ("8192.0;tcp6://[fe80::1,fe80::2]:9999", "[fe80::1]"),
    ],
)
def test_open_mpi_tells_its_launcher(uri, host):
    place = place_from_environment({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": uri}, 60.0)
    assert (place.index, place.count, place.coordinator) == (1, 2, f"{host}:61442")


def test_open_mpi_within_slurm_tells_which_process_this_is():
    # The processes of a node are one task of Slurm, whose number they all inherit.
    told = {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "8192.0;tcp://10.0.0.7:9999"}
    place = place_from_environment({**SLURM, "SLURM_STEP_NODELIST": "a,b,c", **told}, 60.0)
    assert (place.index, place.count) == (1, 2)


def test_gke_tells_the_workers_of_a_slice():
    told = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "t-0.tpu,t-1.tpu,t-2.tpu"}
    place = place_from_environment(told, 60.0)
    assert (place.index, place.count, place.coordinator) == (1, 3, "t-0.tpu:8475")
    alone = place_from_environment({"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "t-0.tpu"}, 60.0)
    assert (alone.count, alone.coordinator) == (1, None)


def test_several_processes_of_a_node_are_refused():
    told = {**SLURM, "SLURM_STEP_NODELIST": "a", "SLURM_STEP_NUM_NODES": "1"}
    with pytest.raises(JoinError, match=r"3 processes on 1 nodes of Slurm; valid: one a node"):
        place_from_environment(told, 60.0)


def test_an_environment_that_tells_nothing_is_refused():
    with pytest.raises(JoinError, match="valid: --coordinator, --processes and --process"):
        place_from_environment({"PATH": "/bin"}, 60.0)
