"""Programs of groups, which processes with devices of the group alone compile and start.

All processes start the tasks of a step in the same order. A process that has none of a program's
devices does not compile it: the program's results are arrays without shards there, which have the
shapes and layouts that transfers read.

Programs are compiled when they first run, or ahead of time: then a step runs on shapes, every
program is compiled and stored, and what it would return are shapes again, with which the next one
is compiled. A run finds each of them in the folder by the digest of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import jax
from jax.sharding import Mesh, NamedSharding

from mllm_jax.config.overlap import NO_OPTIONS
from mllm_jax.runtime.compiled.precompiled import PrecompiledPrograms, program_digest
from sharding.mesh import named_shardings

#: Name of a program of a group, for messages and for where it is stored.
NAME = "a program of the train step"


class ProgramStore(Protocol):
    """Where programs come from, or go to."""

    def prepare(self, lowered: Any, devices: Sequence[jax.Device]) -> Callable[..., Any]:
        """What runs for arguments as those of the lowered program."""


_STORE: ContextVar[ProgramStore | None] = ContextVar("program store", default=None)


@contextmanager
def use_store(store: ProgramStore) -> Iterator[None]:
    """Context in which programs of groups come from a store, or go to it."""
    token = _STORE.set(store)
    try:
        yield
    finally:
        _STORE.reset(token)


def runs_on_shapes() -> bool:
    """Whether programs are compiled ahead of time, and arrays are shapes."""
    return isinstance(_STORE.get(), SavedPrograms)


class GroupProgram:
    """A function of arrays of one group of devices, compiled.

    Args:
        jitted: the jitted function.
        mesh: the mesh of the group.
    """

    def __init__(self, jitted: Any, mesh: Mesh) -> None:
        self._jitted = jitted
        self._devices = [*mesh.devices.flat]
        self._ready: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run the program; arguments of one structure have the same shapes in every call."""
        store = _STORE.get()
        if store is None:
            return self._jitted(*arguments)
        structure = jax.tree.structure(arguments)
        if structure not in self._ready:
            self._ready[structure] = store.prepare(self._jitted.lower(*arguments), self._devices)
        return self._ready[structure](*arguments)


@dataclass(frozen=True)
class SavedPrograms:
    """A folder to which programs are compiled.

    Attributes:
        folder: the folder.
        facts: of every program, all that it depends on.
    """

    folder: Path
    facts: list[dict[str, str]] = field(default_factory=list)

    def prepare(self, lowered: Any, devices: Sequence[jax.Device]) -> Callable[..., Any]:
        """Compile and store a program; what it returns are shapes."""
        programs, compiled = (
            PrecompiledPrograms(self.folder, NO_OPTIONS, devices),
            lowered.compile(),
        )
        programs.save_program(_name_of(lowered), lowered, compiled)
        self.facts.append(programs.program_facts(lowered))
        shapes = jax.tree.map(
            lambda x, layout: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout),
            lowered.out_info,
            compiled.output_shardings,
        )
        return lambda *_: shapes


@dataclass(frozen=True)
class LoadedPrograms:
    """A folder of programs that were compiled ahead of time; others are compiled."""

    folder: Path

    def prepare(self, lowered: Any, devices: Sequence[jax.Device]) -> Callable[..., Any]:
        """The stored program, or the program compiled, with a warning of the reason."""
        programs = PrecompiledPrograms(self.folder, NO_OPTIONS, devices)
        program = programs.load_program(_name_of(lowered), lowered)
        compiled: Callable[..., Any] = lowered.compile() if program is None else program
        return compiled

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with programs of this folder."""

        def run(*arguments: Any) -> Any:
            with use_store(self):
                return function(*arguments)

        return run


def _name_of(lowered: Any) -> str:
    return f"{NAME}, {program_digest(lowered)}"


def compile_on(
    mesh: Mesh,
    function: Callable[..., Any],
    out_specs: Any,
    *,
    donated: tuple[int, ...] = (),
    placed: bool = False,
) -> Callable[..., Any]:
    """A program on the devices of a mesh.

    Args:
        mesh: mesh of the group.
        function: function of arrays on these devices.
        out_specs: layouts of the results, or of subtrees of them.
        donated: numbers of the arguments whose memory is taken.
        placed: whether the results have to be laid out so, as the function does not say how.
    """
    layouts = named_shardings(mesh, out_specs)
    if not mesh.local_devices:
        return AbsentProgram(function, layouts)
    if placed:
        return jax.jit(function, donate_argnums=donated, out_shardings=layouts)
    return GroupProgram(jax.jit(function, donate_argnums=donated), mesh)


class AbsentProgram:
    """A program on devices of other processes.

    Args:
        function: function of arrays on these devices.
        layouts: layouts of the results, or of subtrees of them.
    """

    def __init__(self, function: Callable[..., Any], layouts: Any) -> None:
        self._function, self._layouts = function, layouts
        self._results: dict[Any, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The results, without shards."""
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if shapes not in self._results:
            self._results[shapes] = self._make_results(arguments)
        return self._results[shapes]

    def lower(self, *arguments: Any) -> None:
        """Nothing, as other processes compile the program."""

    def _make_results(self, arguments: Any) -> Any:
        shapes = jax.eval_shape(self._function, *arguments)

        def without_shards(layout: NamedSharding, part: Any) -> Any:
            return jax.tree.map(
                lambda x: jax.make_array_from_single_device_arrays(
                    x.shape, layout, [], dtype=x.dtype
                ),
                part,
            )

        return jax.tree.map(without_shards, self._layouts, shapes)
