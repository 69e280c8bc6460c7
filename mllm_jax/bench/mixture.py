"""Benchmark of a moving mixture: one program that follows it, beside programs made for it.

The work of the decoder is the same in all phases, and the encoder's goes from a ninth of it to nine
times as much. Times are medians over interleaved repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from data.kinds.rows import DECODER, empty_rows, write_medium
from mllm_jax.bench.pipeline import (
    Row,
    Tell,
    changed,
    compile_gradients,
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
    - `fixed`: bubbles, rows and schedule of the mean mixture; of other mixtures a step takes as
      much as these rows hold;
    - `ours`: `config`, compiled once;
    - `replanned`: bubbles, each phase planned and compiled by itself.

    `bound` is that of all work divided by all devices: every device does a step without stages at
    the same time. `compilations` counts the programs that were compiled in the phase for `ours`.
    """
    images = [images_of(config, tenths / 10) for tenths in TENTHS]
    ours = _Ours(with_images(config, max(images), own=True), tell)
    rows: list[Row] = []
    mean = images[len(images) // 2]
    for tenths, count in zip(TENTHS, images, strict=True):
        tell(f"images to text {tenths}:{10 - tenths}: compiling")
        batches = [
            {key: whole[key] for key in ("decoder", "encoders")}
            for whole in microbatches(config, count)
        ]
        own = with_images(config, count)
        placed = {
            "first_stage": changed(own, "schedule", encoder_placement="first_stage"),
            "replanned": own,
        }
        runs = {
            name: compile_gradients(one, gradient_step(one), batches).run
            for name, one in placed.items()
        }
        runs["bound"] = on_every_device(own, batches)
        tell(f"images to text {tenths}:{10 - tenths}: timing")
        with compilations() as compiled:
            runs["ours"] = ours.run(count)
            runs["ours"]()
        seconds = medians(runs, REPETITIONS)
        seconds["bound"] /= config.parallel.devices
        tokens = config.data.budgets["tokens"] * config.train.accumulate
        speed = {name: tokens / taken for name, taken in seconds.items()}
        rows.append(
            {
                "phase": f"{tenths}:{10 - tenths}",
                "share": encoder_share(own),
                "tokens_per_second": speed,
                "bound": speed.pop("bound"),
                "compilations": len(compiled),
            }
        )
    rows[0]["compilations"] += ours.compilations
    fixed = rows[images.index(mean)]["tokens_per_second"]["replanned"]
    for row, count in zip(rows, images, strict=True):
        # Rows for `mean` images hold fewer tokens of a mixture with more images.
        row["tokens_per_second"]["fixed"] = fixed * min(1.0, mean / count)
    return rows


class _Ours:
    """The program that follows the mixture.

    Attributes:
        compilations: number of programs that were compiled for it.
    """

    def __init__(self, config: ExperimentConfig, tell: Tell) -> None:
        tell("compiling the program that follows the mixture")
        self._config = config
        self._step = gradient_step(config)
        self._params = parameters(config, self._step)
        batch = self._placed(1)
        with compilations() as compiled:
            self._program = self._step.gradients.lower(self._params, batch).compile()
        self.compilations = len(compiled)

    def run(self, images: int) -> Callable[[], Any]:
        """A step whose microbatches have so many images each."""
        batch = self._placed(images)
        return lambda: self._program(self._params, batch)

    def _placed(self, images: int) -> Any:
        batches = microbatches(self._config, images)
        return self._step.primed(self._params, place(batches, self._step))


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
    counts = range(1, most + 1)
    return min(counts, key=lambda n: abs(encoder_share(with_images(config, n)) - share))


def with_images(config: ExperimentConfig, images: int, *, own: bool = False) -> ExperimentConfig:
    """`config` with room for so many images in a row.

    Args:
        own: whether encoder microbatches are as `config` says; else they are the decoder's.
    """
    (modality,) = modalities(config.model)
    budgets = {**config.data.budgets, modality.name: images * OUTPUTS * modality.reduction}
    config = changed(config, "data", budgets=budgets)
    if own:
        return config
    return changed(config, "schedule", encoder_microbatches="decoder", encoder_budgets={})


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
    landed = np.full((rows, tokens), -1, np.int32)
    landed[:, : images * OUTPUTS] = np.arange(rows)[:, None] * outputs + np.arange(images * OUTPUTS)
    vocabulary = config.model.decoder.vocab_size
    decoder = {
        "tokens": rng.integers(0, vocabulary, (rows, tokens)),
        "targets": rng.integers(0, vocabulary, (rows, tokens)),
        "loss_weight": landed < 0,
        "segment_ids": np.ones((rows, tokens)),
        "positions": np.broadcast_to(np.arange(tokens), (rows, tokens)),
    }
    return {
        "decoder": {name: decoder[name].astype(dtype) for name, dtype in DECODER.items()}
        | {"media": {modality.name: landed}},
        "encoders": {modality.name: encoder},
        "runs": {modality.name: runs_of(landed, outputs)},
        "places": {modality.name: np.array(places, np.int64).reshape(-1, 5)},
    }
