"""Connections of peers that have not proved yet that they belong to the run: few and short.

Whoever reaches an address may connect there. What it sends is read up to `STRANGE` bytes, it has
`BEGINNING` seconds to say who it is, and of too many such connections the oldest is closed: who
belongs to the run needs milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, TypeVar

from mllm_jax.runtime.messages.secret import request_secret
from mllm_jax.runtime.messages.typed import MessageError, parse_content
from mllm_jax.runtime.wire import Connection

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds for the beginning of a connection.
BEGINNING = 60.0
#: Most open connections of strangers, in addition to those of all who are expected.
MAX_STRANGERS = 64
#: Seconds in which who is refused may hang up.
PARTING = 2.0


class StrangerConnections:
    """The connections of strangers that are open.

    Args:
        expected: number of those who belong to the run, and may connect at the same time.
    """

    def __init__(self, expected: int) -> None:
        self._limit = expected + MAX_STRANGERS
        self._open: dict[Connection, None] = {}

    async def read_introduction(self, kind: type[T], connection: Connection) -> T | None:
        """The first message of who has shown the secret of the run.

        Args:
            kind: kind of the message.

        Returns:
            None for who does not belong here, whose connection is closed, with a warning.
        """
        self._open[connection] = None
        if len(self._open) > self._limit:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.close()
        try:
            async with asyncio.timeout(BEGINNING):
                await request_secret(connection)
                return parse_content(kind, await connection.receive())
        except (MessageError, TimeoutError) as error:
            why = str(error) or "it says nothing"
            logger.warning("refused: a connection from %s: %s", connection.other_host, why)
            connection.close()
            return None
        finally:
            self._open.pop(connection, None)


async def refuse_connection(connection: Connection, why: str, **more: Any) -> None:
    """Tell who has connected why it does not belong here, and close the connection."""
    logger.warning("refused: %s", why)
    connection.send("refused", why=why, **more)
    with suppress(TimeoutError):
        async with asyncio.timeout(PARTING):
            await asyncio.gather(connection.finish(), connection.receive())
    connection.close()
