"""Modules of a step that depend on each other: what a planner of groups of devices divides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class GraphModule:
    """A module, or a bucket of an encoder.

    Attributes:
        name: its name.
        targets: modules that read its outputs; none if only losses do.
        has_backward: whether gradients go through it: it trains, or a module that feeds it.
        gradient_bytes: bytes of the gradients of its parameters, which replicas sum.
        state_bytes: bytes of its parameters, their gradients and what the optimizer keeps.
        saved_bytes: bytes that the forward of a microbatch leaves for its backward, of all rows.
    """

    name: str
    targets: tuple[str, ...] = ()
    has_backward: bool = True
    gradient_bytes: float = 0.0
    state_bytes: float = 0.0
    saved_bytes: float = 0.0


@dataclass(frozen=True)
class ModuleGraph:
    """The modules of a step.

    Attributes:
        modules: all modules, the backbone first, each after its targets.
        microbatches: number of microbatches of a step.
        rows: rows of a microbatch, which the devices of a group divide.
        waits: whether losses of the step wait for all forwards, as contrastive ones do.
        together: names of modules that are in one group, as buckets of an encoder are, which share
            its parameters.
        gradient_caching: whether one program for all modules runs forwards twice if losses wait.
    """

    modules: tuple[GraphModule, ...]
    microbatches: int = 1
    rows: int = 1
    waits: bool = False
    together: tuple[tuple[str, ...], ...] = ()
    gradient_caching: bool = False

    @cached_property
    def by_name(self) -> Mapping[str, GraphModule]:
        """The modules by name."""
        return {module.name: module for module in self.modules}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the modules, the backbone's first."""
        return tuple(self.by_name)

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """By module, the modules whose outputs it reads."""
        return {
            target: tuple(m.name for m in self.modules if target in m.targets)
            for target in self.names
        }
