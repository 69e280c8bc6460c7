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

from mllm_jax.runtime.agreement import check_agreement
from mllm_jax.runtime.compiled.precompiled import PrecompiledPrograms, program_digest
from mllm_jax.runtime.run_peers import current_peers


class SynchronizedProgram:
    """A jitted function that begins on all processes at once with every new shape.

    All processes compare what they have traced, and one that differs is named. A process without
    devices of the program has nothing to compare: its `lower` returns None.

    Args:
        name: name of the program, for messages.
        program: the jitted function, or one that starts several: these compile as they are started,
            on all processes in the same order.
        precompiled: programs that were compiled ahead of time, among which it may be.
    """

    def __init__(
        self, name: str, program: Any, precompiled: PrecompiledPrograms | None = None
    ) -> None:
        self._name, self._program, self._precompiled = name, program, precompiled
        self._ready: dict[Any, Callable[..., Any]] = {}

    def prepare(self, *arguments: Any) -> Callable[..., Any]:
        """Return the program that runs for arguments of these shapes, compiled on all processes.

        Raises:
            AgreementError: the processes have traced different programs.
        """
        signature = _shape_signature(arguments)
        if signature not in self._ready:
            self._ready[signature] = _prepare_program(
                self._name, self._program, self._precompiled, arguments
            )
        return self._ready[signature]

    def __call__(self, *arguments: Any) -> Any:
        """Run the program.

        Raises:
            AgreementError: as of `_prepare_program`.
        """
        is_one = hasattr(self._program, "lower")
        if (current_peers().count > 1 and is_one) or self._precompiled is not None:
            return self.prepare(*arguments)(*arguments)
        signature = _shape_signature(arguments)
        if signature in self._ready:
            return self._ready[signature](*arguments)
        self._ready[signature] = self._program
        with current_peers().noting_activity(f"compiling {self._name}", limited=False):
            return self._program(*arguments)


def synchronize_program(
    name: str, program: Any, precompiled: PrecompiledPrograms | None = None
) -> SynchronizedProgram:
    """Wrap the jitted function `program` as a `SynchronizedProgram`."""
    return SynchronizedProgram(name, program, precompiled)


def _prepare_program(
    name: str, program: Any, precompiled: PrecompiledPrograms | None, arguments: Any
) -> Callable[..., Any]:
    """Return what runs the next call: the precompiled program, or `program`, compiled by now.

    JAX keeps a compiled program for the call of `program`.
    """
    with current_peers().noting_activity(f"tracing {name}", limited=False):
        lowered = program.lower(*arguments)
    if current_peers().count > 1:
        text = None if lowered is None else {f"program of {name}": program_digest(lowered)}
        check_agreement(f"program of {name}", text)
    with current_peers().noting_activity(f"compiling {name}", limited=False):
        stored = precompiled.load_program(name, lowered) if precompiled else None
        if stored is None and lowered is not None:
            lowered.compile()
    current_peers().gather_values(f"{name} is compiled", None)
    return stored or program


def _shape_signature(arguments: Any) -> Any:
    leaves, tree = jax.tree.flatten(arguments)
    return tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
