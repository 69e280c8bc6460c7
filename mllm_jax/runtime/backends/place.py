"""The place of this host in a run whose processes a cluster has started (`parallel.distributed`).

JAX would find the other processes by itself, but only once it has started. Supervisors have to find
each other before, by what the cluster tells in the environment; JAX looks in this order, too::

    Open MPI    OMPI_COMM_WORLD_RANK of OMPI_COMM_WORLD_SIZE, the host of OMPI_MCA_orte_hnp_uri
    Slurm       SLURM_PROCID of SLURM_STEP_NUM_TASKS, the first of SLURM_STEP_NODELIST
    TPUs, GKE   TPU_WORKER_ID of TPU_WORKER_HOSTNAMES, the first of them
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mllm_jax.runtime.run_peers import JoinError, ProcessPlace
from mllm_jax.runtime.wire import HostAddress

#: First port of those that a job's number chooses among, and how many there are.
_FIRST, _PORTS = 61440, 4096
#: Port on TPUs, whose hosts a job has for itself.
_OF_TPUS = 8475
#: `node`, or `node[07-12,20]` with another beginning.
_NODES = re.compile(r"(?P<name>[^,\[]+)(\[(?P<first>\d+)[^\]]*\])?")
_LAUNCHER = re.compile(r"tcp://(?P<host>[^,:]+)|tcp6://\[(?P<host6>[^,\]]+)")


def place_from_environment(environment: Mapping[str, str], join_seconds: float) -> ProcessPlace:
    """Return the place of this process that the environment states.

    Raises:
        JoinError: it states none, or one of several processes of a host.
    """
    for read in (_place_in_open_mpi, _place_in_slurm, _place_on_tpus):
        place = read(environment)
        if place is not None:
            index, count, address = place
            coordinator_address = str(address) if count > 1 else None
            return ProcessPlace(count, index, coordinator_address, join_seconds)
    raise JoinError(
        "parallel.distributed true with --supervise: neither Slurm (srun) nor Open MPI (mpirun) "
        "nor GKE (TPU_WORKER_ID) tells in the environment which process this is; valid: "
        "--coordinator, --processes and --process"
    )


def coordinator_address(environment: Mapping[str, str]) -> HostAddress | None:
    """The address that JAX gives its coordinator under Open MPI and Slurm; None elsewhere."""
    return _open_mpi_launcher(environment) or _first_slurm_node(environment)


_Place = tuple[int, int, HostAddress]


def _place_in_open_mpi(environment: Mapping[str, str]) -> _Place | None:
    address = _open_mpi_launcher(environment)
    if address is None or "OMPI_COMM_WORLD_RANK" not in environment:
        return None
    place = environment["OMPI_COMM_WORLD_RANK"], environment["OMPI_COMM_WORLD_SIZE"]
    return int(place[0]), int(place[1]), address


def _open_mpi_launcher(environment: Mapping[str, str]) -> HostAddress | None:
    uri = environment.get("OMPI_MCA_orte_hnp_uri", "")
    match = _LAUNCHER.search(uri)
    if match is None:
        return None
    # The number of a job is a multiple of 2^12.
    port = _FIRST + int(uri.partition(".")[0]) // _PORTS % _PORTS
    return HostAddress(match["host"] or match["host6"], port)


def _place_in_slurm(environment: Mapping[str, str]) -> _Place | None:
    address = _first_slurm_node(environment)
    if address is None or "SLURM_PROCID" not in environment:
        return None
    count = int(environment["SLURM_STEP_NUM_TASKS"])
    nodes = int(environment["SLURM_STEP_NUM_NODES"])
    if count != nodes:
        raise JoinError(
            f"--supervise: {count} processes on {nodes} nodes of Slurm; valid: one a node, which "
            "has all of its devices (srun --ntasks-per-node=1)"
        )
    return int(environment["SLURM_PROCID"]), count, address


def _first_slurm_node(environment: Mapping[str, str]) -> HostAddress | None:
    if "SLURM_STEP_NODELIST" not in environment:
        return None
    match = _NODES.match(environment["SLURM_STEP_NODELIST"])
    assert match is not None, "Slurm lists at least one node"
    host = match["name"] + (match["first"] or "")
    return HostAddress(host, _FIRST + int(environment["SLURM_JOB_ID"]) % _PORTS)


def _place_on_tpus(environment: Mapping[str, str]) -> _Place | None:
    if "TPU_WORKER_ID" not in environment or "TPU_WORKER_HOSTNAMES" not in environment:
        return None
    hosts = environment["TPU_WORKER_HOSTNAMES"].split(",")
    return int(environment["TPU_WORKER_ID"]), len(hosts), HostAddress(hosts[0], _OF_TPUS)
