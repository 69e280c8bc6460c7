"""`python -m tests.data.loading.left_workers FOLDER [RUN]` tells the ids of a loader's workers."""

from __future__ import annotations

import multiprocessing
import sys
import time

from data.loading import shared_memory
from data.loading.loader import DataLoader
from data.loading.shared_memory import loaders_of_run
from data.processing.processor import make_processor
from data.sources.make import make_source
from mllm_jax.config.buckets import planning_specs
from tests.configs import config


def main(folder: str, run: str = "none") -> None:
    """Take a microbatch, and wait."""
    experiment = config(
        data__source={"kind": "synthetic", "samples": 64, "scale": 0.02},
        data__cache=folder,
        data__workers=1,
        data__balance="none",
    )
    source, processor = (
        make_source(experiment.data),
        make_processor(experiment.data, planning_specs(experiment)),
    )
    rows = dict.fromkeys(("decoder", "vision", "audio"), range(experiment.data.rows))
    shared_memory.SMALL = 1  # of elements as small as these, too
    with loaders_of_run(run), DataLoader(source, processor, experiment.data, 0, rows) as loader:
        next(loader)
        workers = [process.pid for process in multiprocessing.active_children()]
        print(*workers, flush=True)  # noqa: T201 - for the test
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
