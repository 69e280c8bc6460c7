"""A way to JAX's coordinator that outlives it.

A client of JAX's coordination service aborts its process in C++ as soon as its connection to
process 0 is gone, before anybody could say what has happened. So it connects to this relay in its
own process, which never closes its side; whether process 0 lives is watched elsewhere
(`mllm_jax.runtime.peers`).
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

from mllm_jax.runtime.wire import HostAddress

LOOPBACK = "127.0.0.1"
CHUNK = 2**16


class CoordinatorRelay:
    """Carries bytes between local clients and `target`."""

    def __init__(self, target: HostAddress) -> None:
        self._target = target

    async def start_listening(self) -> HostAddress:
        """Begin; where clients are to connect to."""
        server = await asyncio.start_server(self._serve_client, LOOPBACK, 0)
        return HostAddress(LOOPBACK, server.sockets[0].getsockname()[1])

    async def _serve_client(self, reader: StreamReader, writer: StreamWriter) -> None:
        # Cancelled at the end of the process, of which asyncio would make an error.
        with suppress(asyncio.CancelledError):
            await self._carry_connection(reader, writer)

    async def _carry_connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        target_reader, target_writer = await self._connect_to_target()
        back = asyncio.create_task(_pump(target_reader, writer))
        await _pump(reader, target_writer)
        back.cancel()
        target_writer.close()
        writer.close()

    async def _connect_to_target(self) -> tuple[StreamReader, StreamWriter]:
        """A connection to the target, as soon as it listens; the client has a deadline."""
        while True:
            try:
                return await asyncio.open_connection(self._target.host, self._target.port)
            except OSError:
                await asyncio.sleep(0.1)


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    """Carry bytes one way until there are no more, or nobody takes them."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        return
