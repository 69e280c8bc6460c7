"""Bytes between the processes of a run, over connections whose both ends have shown the secret.

Messages are JSON, as everywhere (`mllm_jax.runtime.wire`), with their length before them; the bytes
that a message announces follow it as they are. A connection begins so::

    server -- nonce -->                      a number that was never used
           <-- nonce, proof --  client       HMAC of both numbers
           -- proof -->                      HMAC of both numbers the other way round

Nothing is encrypted, as between processes of JAX: the cluster's network is trusted to carry
bytes, not to connect only who belongs here.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from mllm_jax.runtime.messages.secret import compute_proof, is_proof
from mllm_jax.runtime.wire import LONGEST, HostAddress, Message

logger = logging.getLogger(__name__)

#: Bytes of the longest message of an end that has not shown the secret.
STRANGE = 4096
#: Connections of ends that have not shown the secret which may be open; of more, the oldest is
#: closed. Who knows the secret needs milliseconds.
STRANGERS = 1024
#: Seconds without a byte after which a connection counts as lost.
SILENT = 60.0
_LENGTH = struct.Struct(">Q")


class MessageChannel:
    """One end of a connection.

    Every method raises OSError if the connection is lost, or silent for too long.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._longest = connection, STRANGE
        connection.settimeout(SILENT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Message) -> None:
        """Send a message."""
        text = json.dumps(message).encode()
        self._connection.sendall(_LENGTH.pack(len(text)) + text)

    def send_bytes(self, part: memoryview) -> None:
        """Send bytes that a message has announced."""
        self._connection.sendall(part)

    def receive(self, *, patient: bool = False) -> Message:
        """The next message; an OSError also if it is none.

        Args:
            patient: wait for its beginning as long as it takes.
        """
        self._connection.settimeout(None if patient else SILENT)
        beginning = self._receive_bytes(1)
        self._connection.settimeout(SILENT)
        (length,) = _LENGTH.unpack(beginning + self._receive_bytes(_LENGTH.size - 1))
        if length > self._longest:
            raise ConnectionError(f"a message of {length} bytes; {self._longest} are allowed")
        try:
            message = json.loads(self._receive_bytes(length))
        except ValueError as error:
            raise ConnectionError(f"what was received is no JSON: {error}") from error
        if not isinstance(message, dict):
            raise ConnectionError("what was received is no JSON object")
        return message

    def receive_into(self, part: memoryview) -> None:
        """Fill `part` with the bytes after a message."""
        while part:
            got = self._connection.recv_into(part)
            if not got:
                raise ConnectionError("the other end has closed the connection")
            part = part[got:]

    def trust_peer(self) -> None:
        """The other end has shown the secret."""
        self._longest = LONGEST

    def close(self) -> None:
        """Close; a thread that waits for the other end is woken."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _receive_bytes(self, length: int) -> bytearray:
        received = bytearray(length)
        self.receive_into(memoryview(received))
        return received


class RequestServer:
    """Answers the requests of other processes, each connection in a thread of its own.

    Args:
        host: address of this machine at which it listens; no other.
        secret: secret of the run.
        answer: answers one request; an OSError of its own ends the connection.

    Raises:
        OSError: the address cannot be listened at.
    """

    def __init__(
        self, host: str, secret: str, answer: Callable[[MessageChannel, Message], None]
    ) -> None:
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        self._listening = socket.create_server((host, 0), family=family)
        self._secret, self._answer = secret, answer
        self._open: set[MessageChannel] = set()
        self._strange: dict[MessageChannel, None] = {}
        self.address = HostAddress(host, self._listening.getsockname()[1])
        threading.Thread(target=self._accept_connections, name="snapshots", daemon=True).start()

    def close(self) -> None:
        """Listen no more, and end all connections."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for channel in list(self._open):
            channel.close()

    def _accept_connections(self) -> None:
        while True:
            try:
                connection, (host, *_) = self._listening.accept()
            except OSError:  # it was closed
                return
            channel = MessageChannel(connection)
            self._open.add(channel)
            self._strange[channel] = None
            for oldest in list(self._strange)[:-STRANGERS]:
                self._strange.pop(oldest, None)
                oldest.close()
            threading.Thread(target=self._serve_requests, args=(channel, host), daemon=True).start()

    def _serve_requests(self, channel: MessageChannel, host: str) -> None:
        try:
            if not self._shares_secret(channel):
                logger.warning("refused: %s has connected without the secret of this run", host)
                return
            self._strange.pop(channel, None)
            while True:
                self._answer(channel, channel.receive(patient=True))
        except OSError:  # who has asked sees it, too, and says what it means
            return
        finally:
            self._strange.pop(channel, None)
            self._open.discard(channel)
            channel.close()

    def _shares_secret(self, channel: MessageChannel) -> bool:
        """Show the secret to who has shown it."""
        nonce = secrets.token_hex(16)
        channel.send({"nonce": nonce})
        answer = channel.receive()
        other = str(answer.get("nonce"))
        if not is_proof(str(answer.get("proof")), self._secret, nonce, other):
            return False
        channel.send({"proof": compute_proof(self._secret, other, nonce)})
        channel.trust_peer()
        return True


def connect_to(address: HostAddress, secret: str) -> MessageChannel:
    """A connection to the server at `address`, which has shown the secret.

    Raises:
        OSError: there is none, or it has another secret.
    """
    channel = MessageChannel(socket.create_connection((address.host, address.port), timeout=SILENT))
    try:
        other, nonce = str(channel.receive().get("nonce")), secrets.token_hex(16)
        channel.send({"nonce": nonce, "proof": compute_proof(secret, other, nonce)})
        if not is_proof(str(channel.receive().get("proof")), secret, nonce, other):
            raise ConnectionError(f"{address} has another secret: it is of another run")
    except BaseException:
        channel.close()
        raise
    channel.trust_peer()
    return channel
