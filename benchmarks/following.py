"""Benchmark of independent microbatches of encoders beside the decoder's, at a constant mixture.

What follows the workload (`schedule.independent_microbatches: true`) should cost nothing where
nothing moves. Both programs get the same rows, filled alike in all microbatches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.mixture import (
    OUTPUTS,
    images_of,
    images_of_row,
    microbatches,
    plain,
    share_of,
    with_images,
)
from benchmarks.pipeline import SHARES, Compiled, Row, Tell, changed, compile_gradients
from benchmarks.rotation import Group, Turn, in_turns, median_of
from mllm_jax.config.inputs import modalities
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.step.build import gradient_step

#: Compilations of each program, of which the fastest counts, and turns of the steps.
COMPILATIONS, TURNS = 3, 15
#: Whose microbatches an encoder's are, values of `schedule.independent_microbatches`.
WHOSE = ("decoder", "own")


def bench_following(config: ExperimentConfig, tell: Tell) -> list[Row]:
    """Seconds of compiling, temporary memory and seconds of a step, for shares of encoder work.

    `own_over` has the ratios of the encoder's own microbatches to the decoder's: of the fastest
    compilations, of the bytes, and the median of the ratios within a turn for steps.
    """
    shapes = {share: with_rows(config, images_of(config, share)) for share in SHARES}
    seconds: dict[tuple[float, str], list[float]] = {}
    compiled: dict[tuple[float, str], Compiled] = {}
    for repetition in range(COMPILATIONS):
        for share, own in shapes.items():
            for whose in WHOSE:
                tell(f"encoder share {share:.0%}: {whose}, compilation {repetition + 1}")
                program = _compiled(own, whose)
                seconds.setdefault((share, whose), []).append(program.seconds)
                compiled[share, whose] = program
    groups = [
        Group(_name(share), {whose: compiled[share, whose].run for whose in WHOSE})
        for share in SHARES
    ]
    turns = in_turns(groups, 1 + TURNS, tell)[1:]  # the first run is slower
    fastest = {key: min(taken) for key, taken in seconds.items()}
    return [
        {"encoder_share": share_of(own, images_of_row(own))}
        | compared(
            {whose: fastest[share, whose] for whose in WHOSE},
            {whose: compiled[share, whose].temporary_bytes for whose in WHOSE},
            _name(share),
            turns,
        )
        for share, own in shapes.items()
    ]


def compared(
    compiling: Mapping[str, float], memory: Mapping[str, int], group: str, turns: Sequence[Turn]
) -> Row:
    """The row of a share."""

    def median(whose: str) -> float:
        return median_of(turns, lambda turn: turn[group, whose], (group, whose))

    def ratio(turn: Turn) -> float:
        return turn[group, "own"] / turn[group, "decoder"]

    return {
        "compile_seconds": dict(compiling),
        "temporary_mib": {whose: used / 2**20 for whose, used in memory.items()},
        "seconds": {whose: median(whose) for whose in WHOSE},
        "own_over": {
            "compile_seconds": compiling["own"] / compiling["decoder"],
            "temporary": memory["own"] / memory["decoder"],
            "seconds": median_of(turns, ratio, (group, "own")),
        },
    }


def _name(share: float) -> str:
    return f"{share:.0%}"


def with_rows(config: ExperimentConfig, images: int) -> ExperimentConfig:
    """`config` with so many images in an encoder's row, whosever microbatches it has."""
    (modality,) = modalities(config.model)
    budget = images * OUTPUTS * modality.reduction
    sized = changed(config, "schedule", budgets={modality.name: budget})
    return with_images(sized, images)


def _compiled(config: ExperimentConfig, whose: str) -> Compiled:
    batches = microbatches(config, images_of_row(config))
    if whose == "decoder":
        config = plain(config)
        batches = [replace(batch, places=None) for batch in batches]
    return compile_gradients(config, gradient_step(config), batches)
