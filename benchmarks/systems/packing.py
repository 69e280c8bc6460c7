"""Encoder microbatches in the bubbles of a decoder's pipeline, packed as Optimus does.

After Feng et al., arXiv 2408.03505: outside the decoder's run, and one by one inside it; see
`optimus.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from benchmarks.systems.chain import ROUNDING

#: Seconds after a step that no encoder needs.
FAR = 1e6


@dataclass(frozen=True, eq=False)
class PipelineDirection:
    """One direction of time on all stages of a decoder's pipeline.

    Attributes:
        room: `[stages]`: seconds before the first decoder task of a stage.
        points, free: by stage, times in seconds, and the bubble seconds inside the decoder's run
            that encoders can fill until each time.
        deadlines: `[microbatches]`, rising: seconds at which the decoder needs its inputs.
    """

    room: tuple[float, ...]
    points: tuple[np.ndarray, ...]
    free: tuple[np.ndarray, ...]
    deadlines: np.ndarray

    @cached_property
    def with_open_end(self) -> PipelineDirection:
        """The side with unlimited room after the last bubble of every stage."""
        far = float(self.deadlines.max(initial=0.0)) + FAR
        points = tuple(np.append(values, values[-1] + far) for values in self.points)
        free = tuple(np.append(values, values[-1] + far) for values in self.free)
        return replace(self, points=points, free=free)

    def time_after(self, stage: int, start: float, seconds: float) -> float:
        """The time at which `seconds` of bubbles from `start` on have gone by on a stage."""
        points, free = self.points[stage], self.free[stage]
        target = float(np.interp(start, points, free)) + seconds
        index = int(np.searchsorted(free, target))
        if index == len(free):
            return float("inf")
        if index == 0:
            return max(start, float(points[0]))
        share = (free[index] - free[index - 1]) / (points[index] - points[index - 1])
        return max(start, float(points[index] - (free[index] - target) / share))


@dataclass(frozen=True)
class StageWork:
    """Work of one stage of an encoder pipeline for a microbatch, in one direction.

    Attributes:
        seconds: seconds outside the decoder's run, collectives included.
        compute: seconds in bubbles, where collectives run during the decoder's compute.
    """

    seconds: float
    compute: float


@dataclass(frozen=True)
class EncoderPacking:
    """Microbatches of every encoder pipeline: outside the decoder's run, and inside it.

    Attributes:
        side: the room for encoders.
        work: work of one microbatch on one stage.
        stages: number of stages of an encoder pipeline.
        outside, inside: by pipeline, the number of microbatches placed there.
        weights: by pipeline, work of each of its microbatches, those outside first, over `work`;
            None: all have the same.
    """

    side: PipelineDirection
    work: StageWork
    stages: int
    outside: tuple[int, ...]
    inside: tuple[int, ...]
    weights: tuple[np.ndarray, ...] | None = field(default=None, compare=False)

    def _first_stage(self, pipeline: int) -> int:
        """The first decoder stage of a pipeline."""
        return pipeline % (len(self.side.room) // self.stages) * self.stages

    def exposed_seconds(self, pipeline: int) -> float:
        """Seconds by which the work outside exceeds the room there."""
        if not self.outside[pipeline]:
            return 0.0
        base, stages = self._first_stage(pipeline), range(self.stages)
        ends = [self._stage_ends(pipeline, k)[-1] - self.side.room[base + k] for k in stages]
        return float(max(0.0, *ends))

    def _stage_ends(self, pipeline: int, stage: int) -> np.ndarray:
        """Times at which the microbatches outside leave a stage of their pipeline.

        Each has equal work on all stages, so the longest so far holds up every further stage.
        """
        count = self.outside[pipeline]
        if self.weights is None:
            return (np.arange(1, count + 1) + stage) * self.work.seconds
        weights = self.weights[pipeline][:count]
        ends: np.ndarray = np.cumsum(weights) + stage * np.maximum.accumulate(weights)
        return ends * self.work.seconds

    @cached_property
    def longest_exposed(self) -> float:
        """The most seconds that any pipeline exposes, by which the decoder starts later."""
        ends = np.sort(_join_times(self._outside_ends()))
        late = float((ends - self.side.deadlines[: len(ends)]).max(initial=0.0))
        return max(late, *map(self.exposed_seconds, range(len(self.outside))))

    def _outside_ends(self) -> list[np.ndarray]:
        """By pipeline, times at which the microbatches outside are encoded."""
        return [self._stage_ends(q, self.stages - 1) for q in range(len(self.outside))]

    def _inside_ends(self) -> list[list[float]]:
        """By pipeline, times at which the microbatches inside are encoded, in turn."""
        return [list(self._pack_inside(q)) for q in range(len(self.inside))]

    def _pack_inside(self, pipeline: int) -> Iterator[float]:
        base, count = self._first_stage(pipeline), self.inside[pipeline]
        weights = [1.0] * count
        if self.weights is not None:
            weights = self.weights[pipeline][self.outside[pipeline] :].tolist()
        next_free = {base + k: self.side.room[base + k] for k in range(self.stages)}
        for weight in weights:
            done = 0.0
            for stage in next_free:
                start = max(done, next_free[stage])
                done = next_free[stage] = self.side.time_after(
                    stage, start, weight * self.work.compute
                )
            yield done

    @property
    def _all_ends(self) -> list[np.ndarray]:
        """By pipeline, times from the decoder's start at which all microbatches are encoded."""
        pairs = zip(self._outside_ends(), self._inside_ends(), strict=True)
        return [
            np.concatenate([outside - self.longest_exposed, inside]) for outside, inside in pairs
        ]

    @cached_property
    def microbatch_numbers(self) -> list[np.ndarray]:
        """By pipeline, which of the decoder's microbatches its own ones are, as they end."""
        ends = self._all_ends
        ranks = np.argsort(np.argsort(_join_times(ends), kind="stable"), kind="stable")
        return np.split(ranks, np.cumsum([len(of_pipeline) for of_pipeline in ends])[:-1])

    @property
    def meets_deadlines(self) -> bool:
        """Whether the finish times, sorted, keep the deadlines, sorted.

        The decoder's run, with the work inside it, starts later by `longest` seconds.
        """
        ends = np.sort(_join_times(self._all_ends))
        return bool((ends <= self.side.deadlines * (1 + ROUNDING) + ROUNDING).all())

    @property
    def delay(self) -> float:
        """Seconds by which the decoder's run takes longer, with all microbatches where they are.

        Work inside that has outgrown its bubbles keeps the decoder waiting.
        """
        ends = np.sort(_join_times(replace(self, side=self.side.with_open_end)._all_ends))
        return self.longest_exposed + float((ends - self.side.deadlines).max(initial=0.0))

    def move_inside(self, pipeline: int) -> EncoderPacking:
        """The packing with one more microbatch of `pipeline` inside."""
        outside, inside = list(self.outside), list(self.inside)
        outside[pipeline] -= 1
        inside[pipeline] += 1
        return replace(self, outside=tuple(outside), inside=tuple(inside))

    def find_finest(self) -> EncoderPacking:
        """The packing after moving microbatches inside, from the pipeline that exposes most."""
        best, now = self, self
        while now.longest_exposed > 0 and any(now.outside):
            worst = max(
                range(len(now.outside)), key=lambda q: (now.exposed_seconds(q), now.outside[q])
            )
            now = now.move_inside(worst)
            if not now.meets_deadlines:
                break
            best = min(best, now, key=lambda packing: packing.longest_exposed)
        return best


def _join_times(ends: Iterable[np.ndarray]) -> np.ndarray:
    """The times of all pipelines, of which there may be none."""
    return np.concatenate([np.zeros(0), *ends])
