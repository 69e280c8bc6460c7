"""Messages between the processes of a run: JSON objects, one a line, over TCP."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

#: Bytes of the longest line: the facts of a process's configuration, times the processes.
LONGEST = 2**28
#: Bytes of the longest line of who is not known to belong to the run.
STRANGE = 2**14
#: Bytes that are read at once.
CHUNK = 2**16


@dataclass(frozen=True)
class HostAddress:
    """An address that a process listens on.

    Attributes:
        host: name or number, the latter without brackets.
        port: TCP port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> HostAddress:
        """`host:port`; a number of IPv6 stands in brackets.

        Raises:
            ValueError: the text is no such address.
        """
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise ValueError(f"{text} is not HOST:PORT, e.g. localhost:1234")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback_name(self) -> bool:
        """Whether the host is a name that stands for this machine alone, where it is looked up.

        Debian gives the name of a machine the address 127.0.1.1; `localhost` is meant to be that.
        """
        if self.host == "localhost" or _is_number(self.host):
            return False
        try:
            addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError:  # whoever listens or connects there will say so
            return False
        return all(ipaddress.ip_address(address[4][0]).is_loopback for address in addresses)

    def reachability_warning(self) -> str:
        """A warning, if other machines may not reach the address; it is looked up meanwhile."""
        if not self.is_loopback_name:
            return ""
        return (
            f"; {self.host} is a loopback address here, which other machines cannot reach: with "
            "several machines give --coordinator the number of an address of process 0's network"
        )


def hold_port(host: str) -> socket.socket:
    """A free port at `host`, which is held until the socket is closed.

    Nobody is given that port meanwhile, but for a server that asks for that very one and allows
    others (`SO_REUSEPORT`), as gRPC's do; it gets all connections, as the socket does not listen.
    """
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    reserved = socket.socket(family)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reserved.bind((host, 0))
    except OSError:
        reserved.close()
        raise
    return reserved


def describe_error(error: OSError) -> str:
    """An error in words; asyncio puts several errors into one."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error)
    return os.strerror(error.errno).lower()


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Connection:
    """One end of a connection.

    Args:
        reader, writer: both ways; the reader holds few bytes by itself.
        longest: bytes of the longest line that is taken from the other end; a longer one is no
            valid message.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        longest: int = STRANGE,
    ) -> None:
        self._reader, self._writer, self._longest = reader, writer, longest
        self._buffer = bytearray()
        self._ended, self._finished = asyncio.Event(), False

    def trust_peer(self, longest: int = LONGEST) -> None:
        """Take lines of so many bytes from now on: the other end belongs to the run."""
        self._longest = longest

    @property
    def local_host(self) -> str:
        """Address of this end: of the interface that leads to the other one."""
        host: str = self._writer.get_extra_info("sockname")[0]
        return host

    @property
    def other_host(self) -> str:
        """Address of the other end."""
        host: str = self._writer.get_extra_info("peername")[0]
        return host

    async def receive(self) -> Message | None:
        """The next message; None if the other end is gone or sends no valid message."""
        try:
            text = await self._read_line()
            message = json.loads(text) if text else None
        except (OSError, ValueError):
            message = None
        if not isinstance(message, dict):
            self._ended.set()
            return None
        return message

    async def _read_line(self) -> bytes:
        """The next line, or what has come before the end.

        Raises:
            ValueError: it is too long.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and searched <= self._longest:
            searched = len(self._buffer)
            more = await self._reader.read(CHUNK)
            if not more:
                break
            self._buffer += more
        size = len(self._buffer) if end < 0 else end + 1
        if size > self._longest:
            raise ValueError(f"a line of more than {self._longest} bytes")
        line = bytes(self._buffer[:size])
        del self._buffer[:size]
        return line

    def send(self, kind: str, **content: Any) -> None:
        """Begin to send a message, unless the other end is gone or last words were sent."""
        if not self._finished and not self._writer.is_closing():
            self._writer.write(json.dumps({"kind": kind, **content}).encode() + b"\n")

    async def finish(self) -> None:
        """Say that nothing more comes, and wait a second for the other end to close.

        A process that ends without that may lose its last words: its system resets connections on
        which unread data have arrived. A task must be receiving meanwhile.
        """
        if self._finished or self._writer.is_closing():
            return
        self._finished = True
        try:
            self._writer.write_eof()
            async with asyncio.timeout(1):
                await self._ended.wait()
        except (OSError, TimeoutError):
            return

    def close(self) -> None:
        """Close; messages already written are still sent."""
        self._writer.close()
