"""Addresses of JAX's coordinator, for processes that JAX finds by itself.

By default it listens at all addresses of its machine. Here it listens at the one by which the
others find it::

    JAX_COORDINATOR_BIND_ADDRESS    that one
    JAX_COORDINATOR_ADDRESS         that one, if it is this machine's
    Open MPI, Slurm                 the one that their environment tells, if it is this machine's
    anything else (TPUs, pods)      this machine's address on the way to others; JAX asks the
                                    cluster for its name
"""

from __future__ import annotations

import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, replace

from mllm_jax.runtime.backends.place import coordinator_address
from mllm_jax.runtime.run_peers import JoinError
from mllm_jax.runtime.wire import HostAddress, hold_port

#: Names under which JAX looks up its settings.
_BIND, _ADDRESS, _PORT = (
    "JAX_COORDINATOR_BIND_ADDRESS",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_PORT",
)
#: Port where the cluster tells none: its machines, or pods, are of one job.
_OF_PODS = 8482


@dataclass(frozen=True)
class CoordinatorAddresses:
    """Addresses of JAX's coordinator.

    Attributes:
        bind: where it listens on process 0.
        coordinator: where processes look for it; None if JAX knows by itself.
    """

    bind: str
    coordinator: str | None = None


def coordinator_addresses(environment: MutableMapping[str, str]) -> CoordinatorAddresses:
    """Return where JAX's coordinator listens, and where processes look for it.

    Args:
        environment: gets the port, where JAX is to ask the cluster for the rest of the address.

    Raises:
        JoinError: it tells an address or a port that is none.
    """
    if bind := environment.get(_BIND):
        return CoordinatorAddresses(bind)
    if stated := environment.get(_ADDRESS):
        return _addresses_at(_parse_address(_ADDRESS, stated))
    default = coordinator_address(environment)
    port = environment.get(_PORT, str(default.port if default else _OF_PODS))
    address = _parse_address(
        _PORT, str(HostAddress(default.host if default else outward_address(), 1))[:-1] + port
    )
    if default is None:
        environment[_PORT] = port
        return CoordinatorAddresses(str(address))
    return _addresses_at(address)


def _parse_address(name: str, text: str) -> HostAddress:
    try:
        return HostAddress.parse(text)
    except ValueError as error:
        raise JoinError(f"{name}: {error}") from error


def _addresses_at(stated: HostAddress) -> CoordinatorAddresses:
    """Addresses for one that all processes know; it may be a loopback address here only."""
    address = replace(stated, host=outward_address()) if stated.is_loopback_name else stated
    # JAX crashes where it cannot listen, as at the address of a service that leads to this machine.
    bind = address if _is_local(address.host) else replace(address, host=outward_address())
    return CoordinatorAddresses(str(bind), str(address))


def _is_local(host: str) -> bool:
    """Whether an interface of this machine has that address."""
    try:
        hold_port(host).close()
    except OSError:
        return False
    return True


def outward_address() -> str:
    """This machine's address on the way to others; a loopback address where there is no way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent; the network is one for documentation
        except OSError:  # there is no way to anywhere, as those who are to connect will say
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address
