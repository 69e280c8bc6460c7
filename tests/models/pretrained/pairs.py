"""Images with captions, as a model learns them that compares the two; nothing here loads jax.

`tests/parity/pairs.py` makes expected values of these samples, in the order of their numbers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from data.processing.processor import Processor, make_processor
from data.sources.make import make_source
from data.sources.shapes import write_example
from mllm_jax.config.inputs import released_of, row_specs, target_specs
from mllm_jax.config.load import ExperimentConfig, load_config
from tests.configs import ROOT

#: Samples of a step, of two microbatches.
SAMPLES = 16
WIDTHS = {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 32}


def experiment(folder: Path) -> ExperimentConfig:
    """`configs/pairs.yaml` with a small model, on data below a folder, where they are drawn."""
    if not (folder / "shapes").exists():
        write_example(folder / "shapes", SAMPLES, seed=0)
    place = folder / "shapes"
    narrow = [f"model.{name}.{key}={value}" for name in MODULES for key, value in WIDTHS.items()]
    changes = [
        f"data.source.path={place / 'train_pairs.json'}",
        f"data.source.media={place / 'media'}",
        f"data.source.heldout={place / 'heldout_pairs.json'}",
        f"data.cache={folder / 'cache'}",
        "data.batch=samples",
        f"data.samples={SAMPLES}",
        "data.ladder=[1.0]",
        "data.budgets={tokens: 256, segments: 4, image: 68}",
        "model.decoder.max_positions=256",
        "model.objectives.pairs.dimensions=8",
        f"run.directory={folder / 'runs'}",
    ]
    return load_config(ROOT / "configs" / "pairs.yaml", [*narrow, *changes])


MODULES = ("decoder", "encoders.image")


def processor(config: ExperimentConfig) -> Processor:
    """The processor of a configuration."""
    model = config.model
    most, targets = model.decoder.max_positions, target_specs(model)
    return make_processor(config.data, row_specs(model), most, targets, released_of(config.data))


def inputs(config: ExperimentConfig) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tokens and patches of every sample, the class token's position left out."""
    source, make = make_source(config.data, "train"), processor(config)
    examples = [make.process(source[number, 0]) for number in range(SAMPLES)]
    return [(own.tokens, own.media["image"][0].inputs[1:]) for own in examples]
