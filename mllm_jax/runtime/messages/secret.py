"""The secret that the processes of a run may share, and the beginning of a connection.

Who starts the processes gives all of them the same secret in the environment. A connection begins
so, before anything else is said; without a secret it is empty, and proves nothing::

    process 0 -- nonce -->                          a number that was never used
              <-- proof -- process 1                another one, and the HMAC of both
              -- shown -->                          the HMAC of both the other way round

Nothing is encrypted, as between JAX's own processes: the cluster's network is trusted to carry
bytes, not to connect only who belongs here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass

from mllm_jax.runtime.messages.typed import MessageError, content
from mllm_jax.runtime.wire import Line

#: Name of the environment variable.
VARIABLE = "MLLM_JAX_SECRET"


class RefusedError(Exception):
    """The other end refuses this process; the message says why."""


@dataclass(frozen=True)
class Nonce:
    """See above."""

    nonce: str


@dataclass(frozen=True)
class Proof:
    """See above."""

    nonce: str
    proof: str


@dataclass(frozen=True)
class Shown:
    """See above."""

    proof: str


def proof(secret: str, first: str, second: str) -> str:
    """What shows that one knows the secret: the HMAC of two numbers."""
    return hmac.new(secret.encode(), f"{first} {second}".encode(), hashlib.sha256).hexdigest()


def proves(told: str, secret: str, first: str, second: str) -> bool:
    """Whether `told` is the `proof`."""
    return hmac.compare_digest(told.encode(errors="replace"), proof(secret, first, second).encode())


async def ask(line: Line) -> None:
    """See that who has connected knows the secret, and show it then.

    Raises:
        MessageError: it does not; it is told so. The connection is to be closed.
    """
    secret, own = os.environ.get(VARIABLE, ""), secrets.token_hex(16)
    line.send("nonce", nonce=own)
    told = content(Proof, await line.receive())
    if not proves(told.proof, secret, own, told.nonce):
        line.send("refused", why=f"its {VARIABLE} is not that of this process", wrong=True)
        raise MessageError(f"it has connected without the secret of this run ({VARIABLE})")
    line.send("shown", proof=proof(secret, told.nonce, own))


async def show(line: Line) -> None:
    """Show the secret to whom this process has connected to, who must know it.

    Raises:
        RefusedError: this process is refused.
        MessageError: the other end does not know the secret, or is none of a run.
    """
    secret, own = os.environ.get(VARIABLE, ""), secrets.token_hex(16)
    asked = content(Nonce, await line.receive())
    line.send("proof", nonce=own, proof=proof(secret, asked.nonce, own))
    answer = await line.receive()
    if answer is not None and answer.get("kind") == "refused":
        raise RefusedError(str(answer.get("why")))
    if not proves(content(Shown, answer).proof, secret, own, asked.nonce):
        raise MessageError(f"it has another secret ({VARIABLE}): it is of another run")
