"""What a run tells of its batches, once, on process 0: what makes steps slow or small."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from data.loader import Step
from mllm_jax.devices import is_primary
from mllm_jax.train.experiment import Experiment

logger = logging.getLogger(__name__)

#: Samples that are named because no balancing helps them.
GIANTS = 10


@dataclass
class Notices:
    """Looks at the microbatches of every step; nothing is told twice."""

    experiment: Experiment
    told: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, microbatches: Sequence[Step]) -> None:
        """Tell what is new of a step."""
        if not is_primary():
            return
        self._giants(microbatches)
        self._shapes(microbatches[0])
        self._samples(microbatches)

    def _once(self, kind: str, name: str = "") -> bool:
        """Whether this has not been told yet; it will then have been."""
        new = (kind, name) not in self.told
        self.told.add((kind, name))
        return new

    def _giants(self, microbatches: Sequence[Step]) -> None:
        """Name samples that alone are more than the mean work of a rank in some phase."""
        for name, view in self.experiment.step.views.items():
            ranks = view.degree(view.batch)
            for stats in (microbatch.stats for microbatch in microbatches):
                rows, (work, sample, row) = stats.loads[name].after, stats.dearest[name]
                mean, rank = rows.sum() / ranks, row * ranks // len(rows)
                # With fewer items than ranks some rank waits whatever they are.
                if ranks == 1 or len(stats.lengths[name]) < ranks or work <= mean:
                    continue
                if len(self.told) < GIANTS and self._once(name, sample):
                    logger.warning(
                        "sample %s alone is %.2f times the mean work of a rank of %s; rank %d, "
                        "which has it, makes the others wait: no balancing helps",
                        sample,
                        work / mean,
                        name,
                        rank,
                    )

    def _shapes(self, microbatch: Step) -> None:
        """Say that a step takes long because its rows have lengths that none had before."""
        shape, compiled = tuple(microbatch.stats.capacity.items()), self.experiment.shapes
        if compiled and shape not in compiled:
            budgets = ", ".join(f"{name} {n}" for name, n in shape)
            logger.info("compiling the step for positions of a microbatch: %s", budgets)
        compiled.add(shape)

    def _samples(self, microbatches: Sequence[Step]) -> None:
        """Say that steps hold fewer samples than they should, or than they could."""
        config = self.experiment.config.data
        held = sum(microbatch.stats.samples for microbatch in microbatches)
        if config.samples is not None and held < config.samples and self._once("fewer"):
            logger.warning(
                "a step holds %d of its %d samples, the others wait for room in its rows; raise "
                "data.budgets, or lower data.samples",
                held,
                config.samples,
            )
        every = config.samples is None and not microbatches[-1].state.carry
        if every and self._once("lookahead"):
            logger.warning(
                "all %d samples on offer had room in one step; raise data.lookahead, and its rows "
                "will be fuller",
                held,
            )
