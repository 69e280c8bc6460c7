"""Benchmark of a moving mixture: one program that follows it, compared with programs made for it.

The work of the decoder is the same in all phases, and the encoder's goes from a ninth of it to nine
times as much. All programs are compiled first; then their steps are timed in turns over all phases
(`bench.rotation`), in which every phase gets about the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from operator import itemgetter
from typing import Any

import jax
import numpy as np

from benchmarks.pipeline import (
    PrintLine,
    Row,
    encoder_share,
    init_parameters,
    on_every_device,
    with_section,
)
from benchmarks.rotation import TimedGroup, Turn, in_turns, median_of
from data.batch import PackedBatch
from data.rows.pack import empty_rows, write_medium
from mllm_jax.config.inputs import media_specs, token_spec
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step
from sharding.routes import runs_of

#: Tenths of the work that are images, by phase.
TENTHS = range(1, 10)
#: Turns; the phase with the shortest steps takes part in all of them.
TURNS = 6
#: Outputs of an image.
OUTPUTS = 4
#: The group of what is the same in all phases, and runs in every turn.
BESIDE = "all"
#: The event that JAX records for a compilation.
COMPILATION = "/jax/core/compile/backend_compile_duration"


@dataclass(frozen=True)
class MixturePhase:
    """A mixture of images and text.

    Attributes:
        name: image work to text work, in tenths.
        images: images of a microbatch.
        share: share of the FLOPs that are the images'.
    """

    name: str
    images: int
    share: float


def bench_mixture(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Useful tokens per second while image work to text work goes from 1:9 to 9:1.

    - `first_stage`: the encoder on the first stage, each phase compiled by itself;
    - `fixed`: rows and schedule of the mean mixture; of other mixtures a step takes as much as
      these rows hold;
    - `ours`: `config`, compiled once;
    - `replanned`: each phase planned and compiled by itself. Phases that need the same room share
      a program, which for the phase with the most images is that of `ours`.

    All of them compute rows of the same size. `bound` is the speed of all work divided by all
    devices, see `bound_seconds`. Speeds are of median seconds. `ours_over` has medians of ratios of
    speeds within a turn, which slow moments of the machine change less. `compilations` counts the
    programs that were compiled for `ours` in the phase.
    """
    phases, programs = phases_of(config), _Programs(config, print_line)
    ours = programs.made_for(max(phase.images for phase in phases))
    mean = programs.made_for(_mean_phase(phases).images)
    baselines = _one_device_each(config, print_line) | {
        "fixed": mean.run(_mean_phase(phases).images)
    }
    compiled: dict[str, list[str]] = {phase.name: [] for phase in phases}
    groups = [
        TimedGroup(
            phase.name,
            {
                "first_stage": programs.made_for(phase.images, "first_stage").run(phase.images),
                "ours": _count_compilations(ours.run(phase.images), compiled[phase.name]),
                "replanned": programs.made_for(phase.images).run(phase.images),
            },
            # Of a step twice as long there are half as many.
            (1 - phases[0].share) / (1 - phase.share),
        )
        for phase in phases
    ]
    turns = in_turns([TimedGroup(BESIDE, baselines), *groups], TURNS, print_line)
    counts = {name: len(names) for name, names in compiled.items()}
    counts[phases[0].name] += ours.compilations
    return rows_of(config, phases, turns, counts)


def phases_of(config: ExperimentConfig) -> list[MixturePhase]:
    """The phases, in their order."""
    images = [images_of(config, tenths / 10) for tenths in TENTHS]
    return [
        MixturePhase(f"{tenths}:{10 - tenths}", count, share_of(config, count))
        for tenths, count in zip(TENTHS, images, strict=True)
    ]


def _mean_phase(phases: Sequence[MixturePhase]) -> MixturePhase:
    return phases[len(phases) // 2]


def rows_of(
    config: ExperimentConfig,
    phases: Sequence[MixturePhase],
    turns: Sequence[Turn],
    compiled: Mapping[str, int],
) -> list[Row]:
    """What the turns say of every phase.

    Args:
        turns: seconds of the programs; those of a phase are in a group of its name.
        compiled: programs that were compiled in a phase for `ours`.
    """
    return [
        _make_row(config, turns, phase, _mean_phase(phases))
        | {"compilations": compiled[phase.name]}
        for phase in phases
    ]


def _make_row(
    config: ExperimentConfig, turns: Sequence[Turn], phase: MixturePhase, mean: MixturePhase
) -> Row:
    """What the turns say of a phase, without compilations."""
    # Rows for the mean mixture hold fewer tokens of one with more images.
    fitting_share = min(1.0, mean.images / phase.images)
    seconds: dict[str, Callable[[Turn], float]] = {
        "first_stage": itemgetter((phase.name, "first_stage")),
        "fixed": lambda turn: turn[BESIDE, "fixed"] / fitting_share,
        "ours": itemgetter((phase.name, "ours")),
        "replanned": itemgetter((phase.name, "replanned")),
    }
    bound = partial(bound_seconds, config, images=phase.images)
    others = {name: of for name, of in seconds.items() if name != "ours"} | {"bound": bound}

    def median_value(value: Callable[[Turn], float]) -> float:
        return median_of(turns, value, (phase.name, "ours"))

    def median_ratio(other: Callable[[Turn], float]) -> float:
        return median_value(lambda turn: other(turn) / seconds["ours"](turn))

    return {
        "phase": phase.name,
        "share": phase.share,
        "tokens_per_second": {
            name: useful_tokens(config) / median_value(of) for name, of in seconds.items()
        },
        "bound": useful_tokens(config) / median_value(bound),
        "ours_over": {name: median_ratio(of) for name, of in others.items()},
    }


def useful_tokens(config: ExperimentConfig) -> int:
    """Useful tokens of a step: its rows are full."""
    return config.data.budgets["tokens"] * config.data.rows * config.train.accumulate


class _Programs:
    """The programs of a benchmark, which share their parameters.

    Args:
        config: configuration without a budget of images.
        print_line: prints a line of progress.
    """

    def __init__(self, config: ExperimentConfig, print_line: PrintLine) -> None:
        self._config, self._print_line = config, print_line
        self._made: dict[tuple[str, int], _Program] = {}
        self._params: Any = None

    def made_for(self, images: int, placement: str = "bubbles") -> _Program:
        """The program whose microbatches have room for so many images."""
        config = with_images(self._config, images)
        config = with_section(config, "schedule", placement=placement)
        (spec,) = media_specs(config.model)
        key = placement, config.data.budgets[spec.name]
        if key not in self._made:
            self._print_line(
                f"compiling program {len(self._made) + 1}: {placement}, {images} images"
            )
            self._made[key] = _Program(config, self._params)
            self._params = self._made[key].params
        return self._made[key]


class _Program:
    """The compiled gradients of a configuration, for steps of any number of images.

    Args:
        config: the configuration.
        params: initial parameters as its step stores them; None makes them.

    Attributes:
        params: the parameters.
        compilations: number of programs that were compiled for it.
    """

    def __init__(self, config: ExperimentConfig, params: Any = None) -> None:
        self._config = config
        self._step = build_gradient_step(config)
        self.params = init_parameters(config, self._step) if params is None else params
        batch = self._place_batch(1)
        lowered = self._step.gradients.lower(self.params, batch)
        with record_compilations() as compiled:
            self._program = lowered.compile()
        self.compilations = len(compiled)
        jax.block_until_ready(self._program(self.params, batch))  # the first run is slower

    def run(self, images: int) -> Callable[[], Any]:
        """A step whose microbatches have so many images each."""
        batch = self._place_batch(images)
        return lambda: self._program(self.params, batch)

    def _place_batch(self, images: int) -> Any:
        batches = make_microbatches(self._config, images)
        return self._step.prime_batch(self.params, place_microbatches(batches, self._step))


def _one_device_each(
    config: ExperimentConfig, print_line: PrintLine
) -> dict[str, Callable[[], Any]]:
    """Steps without stages, by every device for itself and all at once, for `bound_seconds`.

    A device alone would borrow the cores of the others.
    """
    images = images_of_row(config)
    budgets = config.data.budgets | {"tokens": 2 * OUTPUTS * images}
    little = with_section(config, "data", budgets=budgets)
    batches = [
        replace(batch, runs=None, places=None) for batch in make_microbatches(little, images)
    ]
    print_line("compiling the steps of single devices")
    runs = {
        "text": _text_step(config),
        "images": on_every_device(without_placement(with_images(little, images)), batches),
        "little": _text_step(little),
    }
    for run in runs.values():
        run()  # the first run is slower
    return runs


def bound_seconds(config: ExperimentConfig, turn: Turn, images: int) -> float:
    """Seconds of all work divided by all devices, for microbatches with so many images.

    What a row of the encoder takes is the difference of a step with one in every microbatch and of
    one without images, both with little text: much text would hide the difference in its noise.
    """
    count = config.train.accumulate
    row = (turn[BESIDE, "images"] - turn[BESIDE, "little"]) / count
    rows = ceil(count * images / images_of_row(config))
    return (turn[BESIDE, "text"] + rows * row) / config.parallel.devices


def _text_step(config: ExperimentConfig) -> Callable[[], Any]:
    """A step of the decoder alone by every device, without images."""
    alone = config.model_copy(
        update={
            "model": config.model.with_others({}),
            "parallel": config.parallel.with_modules(
                {config.model.backbone: config.parallel.backbone_plan}
            ),
        }
    )
    batches = [
        PackedBatch({config.model.backbone: replace(batch.text_rows, merges={})})
        for batch in make_microbatches(config, images_of_row(config))
    ]
    return on_every_device(without_placement(alone), batches)


def _count_compilations(run: Callable[[], Any], names: list[str]) -> Callable[[], Any]:
    """`run`, which adds the programs that it compiles to `found`."""

    def run_counted() -> Any:
        with record_compilations() as compiled:
            result = run()
        names.extend(compiled)
        return result

    return run_counted


@contextmanager
def record_compilations() -> Iterator[list[str]]:
    """The programs that are compiled meanwhile."""
    names: list[str] = []

    def note_compilation(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == COMPILATION and duration_secs >= 0:
            names.append(str(kwargs.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(note_compilation)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(note_compilation)


def images_of(config: ExperimentConfig, share: float) -> int:
    """Images of a microbatch that make the encoder's share of the FLOPs the nearest to `share`."""
    most = config.data.budgets["tokens"] // OUTPUTS
    return min(range(1, most + 1), key=lambda n: abs(share_of(config, n) - share))


def share_of(config: ExperimentConfig, images: int) -> float:
    """Share of the FLOPs that are the encoder's, in full rows of its own microbatches."""
    full = images_of_row(config)
    one = encoder_share(without_placement(with_images(config, full)))
    work = one / (1 - one) * images / full
    return work / (1 + work)


def images_of_row(config: ExperimentConfig) -> int:
    """Images that fill a row of the encoder's own microbatches."""
    (spec,) = media_specs(config.model)
    return config.schedule.independent_budgets[spec.name] // (OUTPUTS * spec.reduction)


def with_images(config: ExperimentConfig, images: int) -> ExperimentConfig:
    """`config` with room for so many images in a row of a microbatch."""
    (spec,) = media_specs(config.model)
    budget = max(images, images_of_row(config)) * OUTPUTS * spec.reduction
    return with_section(config, "data", budgets={**config.data.budgets, spec.name: budget})


def without_placement(config: ExperimentConfig) -> ExperimentConfig:
    """`config` whose encoders have the decoder's microbatches."""
    names = "independent_budgets", "independent_rows"
    usual: dict[str, Any] = {"independent_microbatches": False} | {name: {} for name in names}
    return with_section(config, "schedule", **usual)


def make_microbatches(config: ExperimentConfig, images: int) -> list[PackedBatch]:
    """The microbatches of a step, with so many images in every row."""
    return [make_microbatch(config, images, seed) for seed in range(config.train.accumulate)]


def make_microbatch(config: ExperimentConfig, images: int, seed: int) -> PackedBatch:
    """A microbatch of full rows: text with so many images in every row."""
    rng, rows = np.random.default_rng(seed), config.data.rows
    (spec,), tokens = media_specs(config.model), config.data.budgets["tokens"]
    budget, span = config.data.budgets[spec.name], OUTPUTS * spec.reduction
    encoder, places = empty_rows(spec, rows, max(budget, images * span)), []
    for row in range(rows):
        for i in range(images):
            medium = spec.sketch(rng, OUTPUTS)
            write_medium(encoder, spec, row, i * span, i + 1, medium)
            places.append((row, i * span, span, i + 1, 1))
    noise = rng.normal(size=encoder.inputs.shape).astype(np.float32)
    outputs = encoder.segment_ids.shape[1] // spec.reduction
    text = token_spec(config.model)
    decoder = text.empty_rows((rows, tokens), [spec.name])
    merged, here = decoder.merges[spec.name], np.arange(images * OUTPUTS)
    merged[:, : len(here)] = np.arange(rows)[:, None] * outputs + here
    learnt = decoder.next_token
    for words in (decoder.inputs, learnt.labels):
        words[:] = rng.integers(0, config.model.backbone_config.vocab_size, (rows, tokens))
    learnt.weights[:] = merged < 0
    for row in range(rows):
        text.write(decoder, row, 0, 1, tokens)
    return PackedBatch(
        {config.model.backbone: decoder, spec.name: replace(encoder, inputs=noise)},
        {spec.name: runs_of(merged, outputs)},
        {spec.name: np.array(places, np.int64).reshape(-1, 5)},
    )
