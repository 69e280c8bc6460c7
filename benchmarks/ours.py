"""Our side of `bench peers`: the loop's own steps, a few at a time.

A worker (`benchmarks.turns`). Takes the folder that the benchmark has written.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.turns import peak_bytes, serve_requests
from data.planning.stream import LoaderState
from data.sources.order import shuffle_samples
from mllm_jax.config.load import load_config
from mllm_jax.console import open_console
from mllm_jax.runtime.devices import start_devices
from mllm_jax.train.components.start import initial_state
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import StepRecorder
from mllm_jax.train.records.step_record import StepRecord
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.trainer import StepRunner


class OurTraining:
    """A run as `launch.py train` makes it, without checkpoints and logs.

    Args:
        folder: folder with `config.yaml` and the files that it names.
        samples: number of samples in the source.
    """

    def __init__(self, folder: Path, samples: int) -> None:
        config = load_config(folder / "config.yaml", [])
        start_devices(config.parallel)
        experiment = Experiment.build(config)
        state = initial_state(experiment, open_console(as_json=True))
        self._progress = Progress(0, LoaderState(config.train.seed))
        self._recorder = StepRecorder(experiment)
        self._trainer = StepRunner(experiment, state, self._progress, self._recorder)
        self._order = shuffle_samples(samples, config.train.seed)
        self._tokens, self._positions = 0, 0

    def opened(self) -> AbstractContextManager[None]:
        """Context in which steps can be taken."""
        return self._trainer.opened_run()

    def first(self) -> dict[str, Any]:
        """Take the first step; its loss, and its samples by their numbers in the source."""
        loss = float(self._take_step().loss)
        loader = self._progress.loader
        places = set(range(loader.position)) - set(loader.carry)
        return {"loss": loss, "samples": [self._order[place][0] for place in sorted(places)]}

    def turn(self, tokens: int) -> dict[str, float]:
        """Train on at least so many tokens; seconds, and how many tokens it was."""
        begin, done = time.perf_counter(), 0
        while done < tokens:
            record = self._take_step()
            done += record.used["tokens"]
        # Until the last step is over: the others have been waited for.
        float(record.loss)
        return {"seconds": time.perf_counter() - begin, "tokens": done}

    def _take_step(self) -> StepRecord:
        record = self._recorder.make_record(self._trainer.train_step())
        self._tokens += record.used["tokens"]
        self._positions += record.capacity["tokens"]
        return record

    def figures(self) -> dict[str, float]:
        """`peak_bytes` of this process, and `padding` of all steps so far."""
        return {"peak_bytes": peak_bytes(), "padding": 1 - self._tokens / self._positions}


def main() -> None:
    """Answer the benchmark's requests until there are no more."""
    folder, samples = sys.argv[1:]
    ours = OurTraining(Path(folder), int(samples))
    with ours.opened():
        serve_requests({"first": ours.first, "turn": ours.turn, "figures": ours.figures})


if __name__ == "__main__":
    main()
