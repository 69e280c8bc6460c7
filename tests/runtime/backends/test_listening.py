"""Addresses of JAX's coordinator, for processes that JAX finds by itself."""

from __future__ import annotations

import pytest

from mllm_jax.runtime.backends import listening as module
from mllm_jax.runtime.backends.listening import CoordinatorAddresses, coordinator_addresses
from mllm_jax.runtime.run_peers import JoinError

OPEN_MPI = {"OMPI_MCA_orte_hnp_uri": "8192.0;tcp://10.0.0.7,192.168.1.1:9999"}
SLURM = {"SLURM_STEP_NODELIST": "10.0.0.8", "SLURM_JOB_ID": "4100"}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "outward_address", lambda: "10.0.0.9")
    monkeypatch.setattr(module, "_is_local", lambda host: True)


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        (OPEN_MPI, "10.0.0.7:61442"),
        (SLURM, "10.0.0.8:61444"),
        (SLURM | OPEN_MPI, "10.0.0.7:61442"),
        (SLURM | {"JAX_COORDINATOR_PORT": "7"}, "10.0.0.8:7"),
        (SLURM | {"JAX_COORDINATOR_ADDRESS": "[::1]:80"}, "[::1]:80"),
        ({"OMPI_MCA_orte_hnp_uri": "0.0;tcp6://[fe80::1]:9"}, "[fe80::1]:61440"),
    ],
)
def test_the_coordinator_listens_where_all_are_told_to_look_for_it(environment, address):
    assert coordinator_addresses(environment) == CoordinatorAddresses(address, address)


def test_a_machine_whose_own_name_is_a_loopback_address_has_one_for_others(monkeypatch):
    def looked_up(*_: object, **__: object) -> list[object]:
        return [(0, 0, 0, "", ("127.0.1.1", 0))]

    monkeypatch.setattr("socket.getaddrinfo", looked_up)
    own = coordinator_addresses({"SLURM_STEP_NODELIST": "node[1-2]", "SLURM_JOB_ID": "0"})
    assert own == CoordinatorAddresses("10.0.0.9:61440", "10.0.0.9:61440")


def test_an_address_that_is_none_of_this_machine_is_looked_for_and_not_listened_at(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(module, "outward_address", lambda: "127.0.0.1")
    own = coordinator_addresses({"JAX_COORDINATOR_ADDRESS": "192.0.2.7:9000"})
    assert own == CoordinatorAddresses("127.0.0.1:9000", "192.0.2.7:9000")


def test_where_jax_asks_the_cluster_it_is_told_the_port():
    environment = {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "t-0,t-1"}
    assert coordinator_addresses(environment) == CoordinatorAddresses("10.0.0.9:8482")
    assert environment["JAX_COORDINATOR_PORT"] == "8482"
    assert coordinator_addresses({"JAX_COORDINATOR_PORT": "99"}) == CoordinatorAddresses(
        "10.0.0.9:99"
    )


def test_an_interface_that_is_configured_is_taken():
    own = {"JAX_COORDINATOR_BIND_ADDRESS": "192.168.0.1:5", "JAX_COORDINATOR_ADDRESS": "a:5"}
    assert coordinator_addresses(own | SLURM) == CoordinatorAddresses("192.168.0.1:5")


@pytest.mark.parametrize(
    "environment",
    [{"JAX_COORDINATOR_ADDRESS": "node1"}, SLURM | {"JAX_COORDINATOR_PORT": "https"}],
)
def test_what_is_no_address_is_refused(environment):
    with pytest.raises(JoinError, match=r"^JAX_COORDINATOR_\w+: .* is not HOST:PORT"):
        coordinator_addresses(environment)
