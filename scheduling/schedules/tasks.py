"""What the stages of a pipeline do: tasks, and how modules are divided into stages and chunks.

A module's layers are divided into chunks, which are numbered along the module. A chunk runs on one
stage: a module whose stages each hold one run of chunks fills them one after the other, a *looped*
one goes around all stages as often as a stage has chunks::

    6 chunks over 3 stages     stage 0    stage 1    stage 2
                               0 1        2 3        4 5
    looped                     0 3        1 4        2 5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.task_kinds import TaskKind
from sharding.plan import divisors_of

#: Name of the module whose microbatches count a step, unless another one is said.
BACKBONE = "decoder"


class Task(NamedTuple):
    """A forward, a backward or weight gradients of one microbatch in one chunk.

    Attributes:
        kind: kind of the task; one of `KINDS`.
        module: name of the module.
        microbatch: number of the microbatch among those of the module.
        chunk: number of the chunk along the module.
    """

    kind: TaskKind
    module: str
    microbatch: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.module} {self.kind}({self.microbatch}, {self.chunk})"


#: A chunk, or several.
Chunk = TypeVar("Chunk", int, NDArray[np.intp])
#: Tasks of one stage in one tick, the backbone's first, then ordered as `KINDS`: at most one of
#: each kind of the backbone, and one of each kind of all other modules.
FusedTask = tuple[Task, ...]
#: First and last microbatch of the target that each microbatch of the source feeds.
Consumers = tuple[tuple[int, int], ...]


class Observer(Protocol):
    """A callback for the start and the end of fused tasks, called while devices run."""

    def __call__(self, end: bool, device: int, tick: int, tasks: tuple[Task, ...]) -> None:
        """A fused task starts or ends.

        Args:
            end: whether it ends; False at its start.
            device: number of the device in the grid, the slowest axis first.
            tick: tick of the schedule.
            tasks: its tasks, in the order of `FusedTask`.
        """


@dataclass(frozen=True)
class ModuleStages:
    """How a module's work is divided.

    Attributes:
        name: name of the module.
        stages: stages of the module's plan, a divisor of the backbone's. Stage s of the
            backbone is stage `s % stages` of pipeline `s // stages` of the module; all chunks of a
            microbatch run in one pipeline.
        chunks: number of runs of its layers, over all stages.
        looped: whether chunk c runs on stage `c % stages`, rather than `c // (chunks / stages)`.
        shared_ends: whether its embedding and its output are split over all stages, which run them
            together where the stages meet; else they are part of its first and its last chunk.
        first_backward: the first chunk that has a backward: 0 if the module trains, its last chunk
            if only its connectors train, `chunks` if nothing of it does.
        prefetch: number of microbatches of the next step that this step already runs, for modules
            without a backward: of M microbatches the schedule holds `F(M + i, j)` in place of
            `F(i, j)` for i < prefetch.
    """

    name: str
    stages: int = 1
    chunks: int = 1
    looped: bool = False
    shared_ends: bool = False
    first_backward: int = 0
    prefetch: int = 0

    def stage_of(self, chunk: Chunk) -> Chunk:
        """Stage of the module's pipeline that runs `chunk`, or one of each of several."""
        return chunk % self.stages if self.looped else chunk // self.stage_chunks

    def local_chunk(self, chunk: Chunk) -> Chunk:
        """Number of `chunk` among those of its stage, or one of each of several."""
        return chunk // self.stages if self.looped else chunk % self.stage_chunks

    @property
    def stage_chunks(self) -> int:
        """Number of chunks of a stage."""
        return self.chunks // self.stages

    @property
    def keeps_activations(self) -> bool:
        """Whether the next chunk of some chunk runs on the same stage."""
        return self.stage_chunks > 1 and (self.stages == 1 or not self.looped)

    @property
    def sends_activations(self) -> bool:
        """Whether the next chunk of some chunk runs on another stage."""
        return self.stages > 1

    @property
    def trains(self) -> bool:
        """Whether any chunk has a backward."""
        return self.first_backward < self.chunks

    def chunks_with(self, kind: TaskKind) -> range:
        """Chunks that have a task of a kind."""
        return range(0 if kind.forward else self.first_backward, self.chunks)


@dataclass(frozen=True)
class Feed:
    """Which microbatches of a module wait for which of another one.

    Attributes:
        source, target: names of the modules; outputs of the source enter the target.
        consumers: the first and the last microbatch of the target that each microbatch of the
            source feeds; None: microbatch e feeds the target's microbatch `e // per_target`.
        per_target: number of the source's microbatches that hold all that one of the target's can
            bring.
    """

    source: str
    target: str = BACKBONE
    consumers: Consumers | None = None
    per_target: int = 1

    def source_count(self, targets: int) -> int:
        """Number of the source's microbatches in a step of so many of the target."""
        return targets * self.per_target if self.consumers is None else len(self.consumers)

    def consumer_spans(self, targets: int) -> NDArray[np.intp]:
        """`[sources, 2]`: first and last microbatch of the target that each of the source feeds."""
        if self.consumers is None:
            consumers = np.repeat(np.arange(targets), self.per_target)
            return np.stack([consumers, consumers], axis=1)
        return np.array(self.consumers, np.intp).reshape(-1, 2)

    def reduce_consumers(self, values: NDArray[np.intp], choose: np.ufunc) -> NDArray[np.intp]:
        """`[sources]`: of the `values` `[targets]` of those that each feeds, the chosen one.

        Args:
            choose: `np.minimum` or `np.maximum`.
        """
        if self.consumers is None:
            return np.repeat(values, self.per_target)
        # From each first to after its last, and what lies between two spans, which is left out.
        bounds = np.add(self.consumer_spans(len(values)), [0, 1]).ravel()
        if not len(bounds):
            return bounds
        return np.asarray(choose.reduceat(np.append(values, 0), bounds)[::2], np.intp)

    def microbatch_pairs(self, targets: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pairs of a microbatch of the source and one of the target that it feeds, `[pairs]`."""
        first, last = self.consumer_spans(targets).T
        counts = last - first + 1
        sources = np.repeat(np.arange(len(first)), counts)
        begins = np.cumsum(counts) - counts
        return sources, np.arange(len(sources)) - np.repeat(begins - first, counts)


def valid_chunks(layers: int, stages: int) -> list[int]:
    """Numbers of chunks on each stage into which a module's layers can be divided evenly."""
    return [] if layers % stages else divisors_of(layers // stages)
