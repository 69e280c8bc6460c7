"""The secret that the processes of a run may share, and the beginning of a connection.

Who starts the processes gives all of them the same secret in the environment. A connection begins
so, before anything else is said; without a secret it is empty, and proves nothing::

    process 0 -- nonce -->                          a number that was never used
              <-- proof -- process 1                another one, and the HMAC of both
              -- shown -->                          the HMAC of both the other way round

Nothing is encrypted, as between processes of JAX: the cluster's network is trusted to carry
bytes, not to connect only who belongs here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass

from mllm_jax.runtime.messages.typed import MessageError, parse_content
from mllm_jax.runtime.wire import Connection

#: Name of the environment variable.
VARIABLE = "MLLM_JAX_SECRET"


class SecretRefusedError(Exception):
    """The other end refuses this process; the message says why."""


@dataclass(frozen=True)
class NonceMessage:
    """See above."""

    nonce: str


@dataclass(frozen=True)
class ProofMessage:
    """See above."""

    nonce: str
    proof: str


@dataclass(frozen=True)
class ShownMessage:
    """See above."""

    proof: str


def compute_proof(secret: str, first: str, second: str) -> str:
    """Return what proves knowledge of the secret: the HMAC of two numbers."""
    return hmac.new(secret.encode(), f"{first} {second}".encode(), hashlib.sha256).hexdigest()


def is_proof(candidate: str, secret: str, first: str, second: str) -> bool:
    """Whether `candidate` is the `proof`."""
    return hmac.compare_digest(
        candidate.encode(errors="replace"), compute_proof(secret, first, second).encode()
    )


async def request_secret(connection: Connection) -> None:
    """Check that who has connected knows the secret, and show it then.

    Raises:
        MessageError: it does not; it gets an answer that says so. The connection is to be closed.
    """
    secret, nonce = os.environ.get(VARIABLE, ""), secrets.token_hex(16)
    connection.send("nonce", nonce=nonce)
    answer = parse_content(ProofMessage, await connection.receive())
    if not is_proof(answer.proof, secret, nonce, answer.nonce):
        connection.send("refused", why=f"its {VARIABLE} is not that of this process", wrong=True)
        raise MessageError(f"it has connected without the secret of this run ({VARIABLE})")
    connection.send("shown", proof=compute_proof(secret, answer.nonce, nonce))


async def present_secret(connection: Connection) -> None:
    """Show the secret to whom this process has connected to, who must know it.

    Raises:
        SecretRefusedError: this process is refused.
        MessageError: the other end does not know the secret, or is none of a run.
    """
    secret, nonce = os.environ.get(VARIABLE, ""), secrets.token_hex(16)
    challenge = parse_content(NonceMessage, await connection.receive())
    connection.send("proof", nonce=nonce, proof=compute_proof(secret, challenge.nonce, nonce))
    answer = await connection.receive()
    if answer is not None and answer.get("kind") == "refused":
        raise SecretRefusedError(str(answer.get("why")))
    if not is_proof(parse_content(ShownMessage, answer).proof, secret, nonce, challenge.nonce):
        raise MessageError(f"it has another secret ({VARIABLE}): it is of another run")
