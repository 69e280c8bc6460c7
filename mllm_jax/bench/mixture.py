"""Benchmark of a moving mixture: one program that follows it, beside programs made for it.

The work of the decoder is the same in all phases, and the encoder's goes from a ninth of it to nine
times as much. Times are medians over interleaved repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Any

import jax
import numpy as np

from data.kinds.rows import empty_decoder, empty_rows, write_medium
from mllm_jax.bench.pipeline import (
    Row,
    Tell,
    changed,
    encoder_share,
    on_every_device,
    parameters,
)
from mllm_jax.calibrate.timing import medians
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.modalities import modalities
from mllm_jax.train.step.batch import place
from mllm_jax.train.step.build import gradient_step
from sharding.routes import runs_of

#: Tenths of the work that are images, by phase.
TENTHS = range(1, 10)
#: Timed repetitions of a step.
REPETITIONS = 5
#: Outputs of an image.
OUTPUTS = 4
#: The event that JAX records for a compilation.
COMPILATION = "/jax/core/compile/backend_compile_duration"


def bench_mixture(config: ExperimentConfig, tell: Tell) -> list[Row]:
    """Useful tokens per second while image work to text work goes from 1:9 to 9:1.

    - `first_stage`: the encoder on the first stage, each phase compiled by itself;
    - `fixed`: rows and schedule of the mean mixture; of other mixtures a step takes as much as
      these rows hold;
    - `ours`: `config`, compiled once;
    - `replanned`: each phase planned and compiled by itself.

    All of them compute rows of the same size. `bound` is that of all work divided by all devices,
    see `_Bound`. `compilations` counts the programs that were compiled in the phase for `ours`.
    """
    images = [images_of(config, tenths / 10) for tenths in TENTHS]
    tell("compiling the program that follows the mixture, and the steps of single devices")
    ours = _Program(with_images(config, max(images)))
    bound = _Bound(config)
    rows: list[Row] = []
    for tenths, count in zip(TENTHS, images, strict=True):
        tell(f"images to text {tenths}:{10 - tenths}: compiling")
        own = with_images(config, count)
        first = changed(own, "schedule", encoder_placement="first_stage")
        runs = {"first_stage": _Program(first).run(count), "replanned": _Program(own).run(count)}
        tell(f"images to text {tenths}:{10 - tenths}: timing")
        with compilations() as more:
            runs["ours"] = ours.run(count)
            runs["ours"]()
        seconds = medians(runs | bound.runs, REPETITIONS)
        speed = {name: tokens(config) / seconds[name] for name in runs}
        rows.append(
            {
                "phase": f"{tenths}:{10 - tenths}",
                "share": share_of(config, count),
                "tokens_per_second": speed,
                "bound": tokens(config) / bound.seconds(seconds, count),
                "compilations": len(more) + (0 if rows else ours.compilations),
            }
        )
    mean = len(images) // 2
    fixed = rows[mean]["tokens_per_second"]["replanned"]
    for row, count in zip(rows, images, strict=True):
        # Rows for the mean mixture hold fewer tokens of one with more images.
        row["tokens_per_second"]["fixed"] = fixed * min(1.0, images[mean] / count)
    return rows


def tokens(config: ExperimentConfig) -> int:
    """Useful tokens of a step: its rows are full."""
    return config.data.budgets["tokens"] * config.data.rows * config.train.accumulate


class _Program:
    """The compiled gradients of a configuration, for steps of any number of images.

    Attributes:
        compilations: number of programs that were compiled for it.
    """

    def __init__(self, config: ExperimentConfig) -> None:
        self._config = config
        self._step = gradient_step(config)
        self._params = parameters(config, self._step)
        lowered = self._step.gradients.lower(self._params, self._placed(1))
        with compilations() as compiled:
            self._program = lowered.compile()
        self.compilations = len(compiled)

    def run(self, images: int) -> Callable[[], Any]:
        """A step whose microbatches have so many images each."""
        batch = self._placed(images)
        return lambda: self._program(self._params, batch)

    def _placed(self, images: int) -> Any:
        batches = microbatches(self._config, images)
        return self._step.primed(self._params, place(batches, self._step))


class _Bound:
    """Seconds of all work divided by the devices, each of which does a step without stages.

    All devices work at the same time, as one alone would borrow the cores of the others. What a row
    of the encoder takes is the difference of a step with one in every microbatch and of one without
    images.

    Attributes:
        runs: both steps.
    """

    def __init__(self, config: ExperimentConfig) -> None:
        self._config, self._images = config, images_of_row(config)
        one = plain(with_images(config, self._images))
        batches = [
            {key: batch[key] for key in ("decoder", "encoders")}
            for batch in microbatches(config, self._images)
        ]
        text = [{"decoder": batch["decoder"] | {"media": {}}, "encoders": {}} for batch in batches]
        alone = one.model_copy(
            update={
                "model": one.model.model_copy(update={"encoders": {}}),
                "parallel": one.parallel.model_copy(update={"encoders": {}}),
            }
        )
        self.runs = {
            "images": on_every_device(one, batches),
            "text": on_every_device(alone, text),
        }

    def seconds(self, seconds: Mapping[str, float], images: int) -> float:
        """The bound for microbatches with so many images, from the seconds of `runs`."""
        count = self._config.train.accumulate
        row = (seconds["images"] - seconds["text"]) / count
        rows = ceil(count * images / self._images)
        return (seconds["text"] + rows * row) / self._config.parallel.devices


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The programs that are compiled meanwhile."""
    found: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == COMPILATION and duration_secs >= 0:
            found.append(str(kwargs.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def images_of(config: ExperimentConfig, share: float) -> int:
    """Images of a microbatch that make the encoder's share of the FLOPs the nearest to `share`."""
    most = config.data.budgets["tokens"] // OUTPUTS
    return min(range(1, most + 1), key=lambda n: abs(share_of(config, n) - share))


def share_of(config: ExperimentConfig, images: int) -> float:
    """Share of the FLOPs that are the encoder's, in full rows of its own microbatches."""
    full = images_of_row(config)
    one = encoder_share(plain(with_images(config, full)))
    work = one / (1 - one) * images / full
    return work / (1 + work)


def images_of_row(config: ExperimentConfig) -> int:
    """Images that fill a row of the encoder's own microbatches."""
    (modality,) = modalities(config.model)
    return config.schedule.encoder_budgets[modality.name] // (OUTPUTS * modality.reduction)


def with_images(config: ExperimentConfig, images: int) -> ExperimentConfig:
    """`config` with room for so many images in a row of a microbatch."""
    (modality,) = modalities(config.model)
    budget = max(images, images_of_row(config)) * OUTPUTS * modality.reduction
    return changed(config, "data", budgets={**config.data.budgets, modality.name: budget})


def plain(config: ExperimentConfig) -> ExperimentConfig:
    """`config` whose encoders have the decoder's microbatches."""
    usual = {"encoder_microbatches": "decoder", "encoder_budgets": {}, "encoder_rows": {}}
    return changed(config, "schedule", **usual)


def microbatches(config: ExperimentConfig, images: int) -> list[dict[str, Any]]:
    """The microbatches of a step, with so many images in every row."""
    return [microbatch(config, images, seed) for seed in range(config.train.accumulate)]


def microbatch(config: ExperimentConfig, images: int, seed: int) -> dict[str, Any]:
    """A microbatch of full rows: text with so many images in every row."""
    rng, rows = np.random.default_rng(seed), config.data.rows
    (modality,), tokens = modalities(config.model), config.data.budgets["tokens"]
    budget, span = config.data.budgets[modality.name], OUTPUTS * modality.reduction
    encoder, places = empty_rows(modality, rows, max(budget, images * span)), []
    for row in range(rows):
        for i in range(images):
            medium = modality.sketch(rng, OUTPUTS)
            write_medium(encoder, modality, row, i * span, i + 1, medium)
            places.append((row, i * span, span, i + 1, 1))
    encoder["inputs"] = rng.normal(size=encoder["inputs"].shape).astype(np.float32)
    outputs = encoder["segment_ids"].shape[1] // modality.reduction
    decoder = empty_decoder((rows, tokens), [modality.name])
    landed, here = decoder["media"][modality.name], np.arange(images * OUTPUTS)
    landed[:, : len(here)] = np.arange(rows)[:, None] * outputs + here
    for name in ("tokens", "targets"):
        decoder[name][:] = rng.integers(0, config.model.decoder.vocab_size, (rows, tokens))
    decoder["loss_weight"][:] = landed < 0
    decoder["segment_ids"][:] = 1
    decoder["positions"][:] = np.arange(tokens)
    return {
        "decoder": decoder,
        "encoders": {modality.name: encoder},
        "runs": {modality.name: runs_of(landed, outputs)},
        "places": {modality.name: np.array(places, np.int64).reshape(-1, 5)},
    }
