"""Programs that several processes run: compiled everywhere before any of them begins.

Gloo, which carries collectives between CPUs, gives processes 30 seconds to meet at the first
collective of a group of devices; XLA sets no other limit and has no option for it. A process that
compiles half a minute longer than another one ends both. So each compiles first, and begins when
all have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import jax

from mllm_jax.runtime.agreement import agree
from mllm_jax.runtime.part import peers


def compiled_together(name: str, program: Any) -> Callable[..., Any]:
    """`program`, a jitted function, that begins on all processes at once with every new shape.

    All processes compare what they have traced, and one that differs is named.

    Args:
        name: name of the program, for messages.

    Raises:
        AgreementError: when called, the processes have traced different programs.
    """
    seen: set[Any] = set()

    def run(*arguments: Any) -> Any:
        signature = _signature(arguments)
        if signature in seen:
            return program(*arguments)
        seen.add(signature)
        if peers().count > 1:
            _compile(name, program, arguments)
            return program(*arguments)
        with peers().doing(f"compiling {name}", limited=False):
            return program(*arguments)

    return run


def _compile(name: str, program: Any, arguments: Any) -> None:
    """Compile as the following call would; JAX keeps the compiled program for it."""
    with peers().doing(f"tracing {name}", limited=False):
        lowered = program.lower(*arguments)
        digest = hashlib.sha256(lowered.as_text().encode()).hexdigest()[:12]
    agree(f"program of {name}", {f"program of {name}": digest})
    with peers().doing(f"compiling {name}", limited=False):
        lowered.compile()
    peers().gather(f"{name} is compiled", None)


def _signature(arguments: Any) -> Any:
    leaves, tree = jax.tree.flatten(arguments)
    return tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
