"""Samples of unequal lengths, drawn for a mixture, and how systems distribute them.

A sample is text alone, or media of one encoder with a little text. Its length is log-normal, from a
32nd of a row of the decoder to a full row. All systems run the same samples, packed into the same
full rows:

    arrived    a row goes to a microbatch and a replica in its order, and its media go with it
    distributed      rows of like work in every microbatch, and every encoder's media over its own
    rows,
               as `data.planning` distributes the steps of a training run
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np

from benchmarks.known_lengths import KnownLengths
from benchmarks.systems.loads import Load, UnevenLoads
from data.config import DataConfig
from data.planning.independent_microbatches import plan_independent_microbatches
from data.planning.layout import media_of_plan
from data.planning.packing import make_capacity
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand
from data.rows.spec import MediaRowSpec
from data.sample import Lengths, MediumLengths
from mllm_jax.config.inputs import longest_medium, media_specs, row_specs
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.work.flops import module_works
from scheduling.costs.workload import Workload
from scheduling.schedules.tasks import Consumers

#: Steps that are drawn for a mixture.
STEPS = 4
#: Usual spread of lengths: standard deviation of their logarithm. One sample in twenty is 27 times
#: as long as another one in twenty, if none is cut.
SIGMA = 1.0
#: The longest sample, a row of the decoder, over the shortest one.
RANGE = 32
#: Share of the tokens of a sample with media at which their outputs are merged, at least.
MEDIA = 0.9
#: Samples on offer for each row of a step: few, so that they come about as they arrive.
OFFER = 8


@dataclass(frozen=True)
class SampleDraw:
    """How samples are drawn.

    Attributes:
        sigma: spread of their lengths, the standard deviation of the logarithm.
        seed: seed of the draw.
    """

    sigma: float = SIGMA
    seed: int = 0


@dataclass(frozen=True, eq=False)
class DrawnMixture:
    """The samples of `STEPS` steps of a mixture.

    Attributes:
        config: configuration whose rows hold them.
        rows: rows of a step.
        samples: lengths of the samples, in the order in which they arrive.
    """

    config: ExperimentConfig
    rows: int
    samples: Sequence[Lengths]

    @classmethod
    def draw_samples(cls, config: ExperimentConfig, share: float, draw: SampleDraw) -> DrawnMixture:
        """Samples of whose tokens a share are outputs of encoders; all encoders have as many."""
        rows = config.data.rows * config.train.accumulate
        return cls(config, rows, list(_draw_samples(config, share, draw, OFFER * rows * STEPS)))

    @cached_property
    def _row_specs(self) -> tuple[MediaRowSpec, ...]:
        return tuple(media_specs(self.config.model))

    @cached_property
    def _arrived_positions(self) -> dict[str, np.ndarray]:
        """By encoder, `[steps, rows]`: input positions of each row's media, as they arrive."""
        planner = self._make_planner(
            {"balance": "none", "balancing": {}}, self.rows, TrainingDemand()
        )
        media = [self._media_of(planner.plan()) for _ in range(STEPS)]
        return {
            spec.name: np.array(
                [np.bincount(m[spec.name][:, 0], m[spec.name][:, 2], self.rows) for m in media]
            )
            for spec in self._row_specs
        }

    @property
    def load(self) -> Load:
        """Input positions that a row brings in the mean."""
        return {name: ceil(arrived.mean()) for name, arrived in self._arrived_positions.items()}

    @property
    def uneven(self) -> UnevenLoads:
        """The rows of systems that run samples as they arrive, over `load`."""
        load = self.load
        return UnevenLoads(
            {name: arrived / load[name] for name, arrived in self._arrived_positions.items()}
        )

    def draw_consumers(
        self, workload: Workload, microbatches: int
    ) -> list[list[dict[str, Consumers]]]:
        """By step, what the encoders' own microbatches feed, of samples that are distributed anew.

        First if every row fills by itself, and then if rows go on together, as in a training run.

        Args:
            workload: rows of the encoders' own microbatches.
            microbatches: number of the decoder's microbatches.
        """
        rows, works = self.rows // microbatches, module_works(self.config.model)
        consumer = TrainingDemand(works, microbatches=microbatches)
        planner = self._make_planner({"balance": "per_phase"}, rows, consumer)
        steps = []
        for _ in range(STEPS):
            media = [self._media_of(planner.plan()) for _ in range(microbatches)]
            steps.append(
                [_plan_consumers(workload, media, rows, together) for together in (False, True)]
            )
        return steps

    def _make_planner(
        self, changes: Mapping[str, object], rows: int, consumer: TrainingDemand
    ) -> BatchPlanner:
        """Plans the steps of a run over the samples."""
        update = {"rows": rows, "batch": "tokens", "lookahead": OFFER * self.rows, **changes}
        data: DataConfig = self.config.data.model_copy(update=update)
        capacity, source = (
            make_capacity(data.budgets, row_specs(self.config.model)),
            KnownLengths(self.samples),
        )
        state = LoaderState(self.config.train.seed)
        return BatchPlanner(source, source, data, capacity, state, consumer)

    def _media_of(self, plan: MicrobatchPlan) -> dict[str, np.ndarray]:
        return media_of_plan(plan.placements, self._row_specs)


def _plan_consumers(
    workload: Workload, media: Sequence[Mapping[str, np.ndarray]], rows: int, together: bool
) -> dict[str, Consumers]:
    """What the encoders' own microbatches feed, from the media of a step's microbatches."""
    return {
        name: plan_independent_microbatches(
            [of_modules[name] for of_modules in media],
            rows,
            workload.positions[name],
            spread=workload.spread.get(name, 1),
            together=together,
        ).feeds
        for name in workload.sources
    }


def _draw_samples(
    config: ExperimentConfig, share: float, draw: SampleDraw, count: int
) -> Iterator[Lengths]:
    """So many samples."""
    rng, tokens = np.random.default_rng(draw.seed), config.data.budgets["tokens"]
    backbone = config.model.backbone
    middle = tokens / RANGE**0.5
    drawn = np.clip(middle * rng.lognormal(0.0, draw.sigma, count), tokens / RANGE, tokens)
    draws = [_MediaDraw.for_encoder(config, spec) for spec in media_specs(config.model)]
    rounding, own_share = rng.random(count), max(MEDIA, share)
    drawn_samples = [
        draws[i % len(draws)].draw_sample(length, own_share, more)
        for i, (length, more) in enumerate(zip(drawn.tolist(), rounding.tolist(), strict=True))
    ]
    order, text_tokens = rng.permutation(count), np.rint(drawn).astype(np.int64)
    # So many samples have media that the share of all tokens is the wanted one.
    media_tokens = np.array([outputs for _, outputs in drawn_samples])[order]
    longer = (
        np.array([lengths.total(backbone) for lengths, _ in drawn_samples])[order]
        - text_tokens[order]
    )
    below_share = np.cumsum(media_tokens) - share * np.cumsum(longer) < share * text_tokens.sum()
    chosen = set(order[: 1 + int(below_share.sum())].tolist())
    for i, (lengths, _) in enumerate(drawn_samples):
        yield lengths if i in chosen else _sample_lengths(backbone, int(text_tokens[i]), {})


@dataclass(frozen=True)
class _MediaDraw:
    """Samples with media of one encoder, all as long as can be.

    Attributes:
        backbone, encoder: names of the backbone and of the encoder.
        positions, outputs: input positions and outputs of a medium.
        row: tokens of a row of the backbone.
    """

    backbone: str
    encoder: str
    positions: int
    outputs: int
    row: int

    @classmethod
    def for_encoder(cls, config: ExperimentConfig, spec: MediaRowSpec) -> _MediaDraw:
        positions = longest_medium(config, spec.name)
        tokens = config.data.budgets["tokens"]
        outputs = positions // spec.reduction
        return cls(config.model.backbone, spec.module, positions, outputs, tokens)

    def draw_sample(self, tokens: float, share: float, more: float) -> tuple[Lengths, int]:
        """A sample of about so many tokens, with a medium at least, and its outputs.

        Args:
            more: of a part of a medium, the part that is left out.
        """
        most = int(share * self.row / self.outputs)
        count = max(1, min(int(share * tokens / self.outputs + more), most))
        media_tokens = count * self.outputs
        starts = tuple(range(0, media_tokens, self.outputs))
        media = {self.encoder: (MediumLengths(self.positions),) * count}
        total = max(round(tokens), ceil(media_tokens / share))
        lengths = _sample_lengths(self.backbone, total, media)
        return replace(lengths, starts={self.encoder: starts}), media_tokens


def _sample_lengths(
    backbone: str, tokens: int, media: Mapping[str, tuple[MediumLengths, ...]]
) -> Lengths:
    """Lengths of a sample of so many tokens."""
    return Lengths({backbone: (MediumLengths(tokens),), **media})
