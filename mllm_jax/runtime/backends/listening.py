"""Where JAX's coordinator listens, for processes that JAX finds by itself.

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

from mllm_jax.runtime.backends.place import coordinator
from mllm_jax.runtime.part import JoinError
from mllm_jax.runtime.wire import Address, hold_port

#: Names under which JAX looks up its settings.
_BIND, _ADDRESS, _PORT = (
    "JAX_COORDINATOR_BIND_ADDRESS",
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_PORT",
)
#: Port where the cluster tells none: its machines, or pods, are of one job.
_OF_PODS = 8482


@dataclass(frozen=True)
class Listening:
    """Addresses of JAX's coordinator.

    Attributes:
        bind: where it listens on process 0.
        coordinator: where processes look for it; None if JAX knows by itself.
    """

    bind: str
    coordinator: str | None = None


def listening(environment: MutableMapping[str, str]) -> Listening:
    """Where JAX's coordinator listens, and is looked for.

    Args:
        environment: gets the port, where JAX is to ask the cluster for the rest of the address.

    Raises:
        JoinError: it tells an address or a port that is none.
    """
    if own := environment.get(_BIND):
        return Listening(own)
    if told := environment.get(_ADDRESS):
        return _at(_address(_ADDRESS, told))
    found = coordinator(environment)
    port = environment.get(_PORT, str(found.port if found else _OF_PODS))
    address = _address(_PORT, str(Address(found.host if found else outward(), 1))[:-1] + port)
    if found is None:
        environment[_PORT] = port
        return Listening(str(address))
    return _at(address)


def _address(name: str, text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise JoinError(f"{name}: {error}") from error


def _at(told: Address) -> Listening:
    """At an address which all are told; it may be a loopback address on its own machine alone."""
    address = replace(told, host=outward()) if told.is_own_name else told
    # JAX crashes where it cannot listen, as at the address of a service that leads to this machine.
    bind = address if _is_here(address.host) else replace(address, host=outward())
    return Listening(str(bind), str(address))


def _is_here(host: str) -> bool:
    """Whether an interface of this machine has that address."""
    try:
        hold_port(host).close()
    except OSError:
        return False
    return True


def outward() -> str:
    """This machine's address on the way to others; a loopback address where there is no way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent; the network is one for documentation
        except OSError:  # there is no way to anywhere, as those who are to connect will say
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address
