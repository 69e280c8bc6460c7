"""Programs that several processes run: compiled everywhere before any of them begins.

Gloo, which carries collectives between CPUs, gives processes 30 seconds to meet at the first
collective of a group of devices; XLA sets no other limit and has no option for it. A process that
compiles half a minute longer than another one ends both. So each compiles first, and begins when
all have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mllm_jax.runtime.agreement import agree
from mllm_jax.runtime.compiled.precompiled import Precompiled, digest_of
from mllm_jax.runtime.part import peers


def compiled_together(
    name: str, program: Any, ahead: Precompiled | None = None
) -> Callable[..., Any]:
    """`program`, a jitted function, that begins on all processes at once with every new shape.

    All processes compare what they have traced, and one that differs is named.

    Args:
        name: name of the program, for messages.
        ahead: programs that were compiled ahead of time, among which it may be.

    Raises:
        AgreementError: when called, the processes have traced different programs.
    """
    ready: dict[Any, Callable[..., Any]] = {}

    def run(*arguments: Any) -> Any:
        signature = _signature(arguments)
        if signature in ready:
            return ready[signature](*arguments)
        ready[signature] = program
        if peers().count > 1 or ahead is not None:
            ready[signature] = _prepared(name, program, ahead, arguments)
        if peers().count > 1:
            return ready[signature](*arguments)
        with peers().doing(f"compiling {name}", limited=False):
            return ready[signature](*arguments)

    return run


def _prepared(
    name: str, program: Any, ahead: Precompiled | None, arguments: Any
) -> Callable[..., Any]:
    """What runs the following call: the program that is stored ahead, or compiled by now.

    JAX keeps a compiled program for the call of `program`.
    """
    with peers().doing(f"tracing {name}", limited=False):
        lowered = program.lower(*arguments)
    if peers().count > 1:
        agree(f"program of {name}", {f"program of {name}": digest_of(lowered)})
    with peers().doing(f"compiling {name}", limited=False):
        stored = ahead.load(name, lowered) if ahead else None
        if stored is None:
            lowered.compile()
    peers().gather(f"{name} is compiled", None)
    return stored or program


def _signature(arguments: Any) -> Any:
    leaves, tree = jax.tree.flatten(arguments)
    return tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
