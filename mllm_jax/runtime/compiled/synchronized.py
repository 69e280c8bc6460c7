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


class Together:
    """A jitted function that begins on all processes at once with every new shape.

    All processes compare what they have traced, and one that differs is named.

    Args:
        name: name of the program, for messages.
        program: the jitted function.
        ahead: programs that were compiled ahead of time, among which it may be.
    """

    def __init__(self, name: str, program: Any, ahead: Precompiled | None = None) -> None:
        self._name, self._program, self._ahead = name, program, ahead
        self._ready: dict[Any, Callable[..., Any]] = {}

    def prepared(self, *arguments: Any) -> Callable[..., Any]:
        """What runs for arguments of these shapes, compiled on all processes.

        Raises:
            AgreementError: the processes have traced different programs.
        """
        signature = _signature(arguments)
        if signature not in self._ready:
            self._ready[signature] = _prepared(self._name, self._program, self._ahead, arguments)
        return self._ready[signature]

    def __call__(self, *arguments: Any) -> Any:
        """Run the program.

        Raises:
            AgreementError: as of `prepared`.
        """
        if peers().count > 1 or self._ahead is not None:
            return self.prepared(*arguments)(*arguments)
        signature = _signature(arguments)
        if signature in self._ready:
            return self._ready[signature](*arguments)
        self._ready[signature] = self._program
        with peers().doing(f"compiling {self._name}", limited=False):
            return self._program(*arguments)


def compiled_together(name: str, program: Any, ahead: Precompiled | None = None) -> Together:
    """`program`, a jitted function, as `Together`."""
    return Together(name, program, ahead)


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
