"""The listeners of the training loop; this module alone knows all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from data.waits import SOURCE
from mllm_jax.config.run import RunConfig
from mllm_jax.runtime.asked import Asked
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import RoomError
from mllm_jax.runtime.part import peers
from mllm_jax.train.events import (
    Copying,
    Evaluating,
    Event,
    Listener,
    Placed,
    Read,
    Reading,
    Saving,
    Taken,
)
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import Figures
from mllm_jax.train.listeners.goodput.listener import Goodput
from mllm_jax.train.listeners.goodput.record import Record
from mllm_jax.train.listeners.notices import FirstLines, Notices
from mllm_jax.train.listeners.stragglers.compare import Comparing
from mllm_jax.train.listeners.stragglers.garbage import collected_together
from mllm_jax.train.listeners.stragglers.heat import PICTURE, draw, heat_maps, kept_times
from mllm_jax.train.listeners.stragglers.probe import Probes
from mllm_jax.train.listeners.stragglers.timing import Timing
from mllm_jax.train.phases import Profile
from mllm_jax.train.records.dashboards.open import dashboards
from mllm_jax.train.records.metrics import StepRecord
from mllm_jax.train.records.recorder import own_name
from mllm_jax.train.records.samples import SampleList
from mllm_jax.train.records.sinks import Metrics, write_summary
from mllm_jax.train.records.skips import LIST
from mllm_jax.train.state.progress import Progress


class Listeners:
    """All listeners of a run as one.

    Args:
        figures: the one that knows the run's summary.
        goodput: the one that knows what its time went into.
        others: listeners that hear an event before these do.
    """

    def __init__(
        self, console: Console, figures: Figures, goodput: Goodput, others: Sequence[Listener]
    ) -> None:
        self._console, self._figures, self._goodput = console, figures, goodput
        self._all: Sequence[Listener] = (*others, goodput, figures)

    def __call__(self, event: Event) -> None:
        """Send an event to every listener."""
        for listener in self._all:
            listener(event)

    @property
    def record(self) -> StepRecord:
        """Figures of the step that was taken last."""
        return self._figures.record

    def finish(self, folder: Path, result: Mapping[str, Any]) -> dict[str, Any]:
        """Write `summary.json`, on process 0, and return its content.

        Args:
            result: result of the evaluation after the last step.

        Raises:
            RoomError: `summary.json` cannot be written.
        """
        summary, path = self._figures.summary(result), folder / "summary.json"
        if found := self._goodput.summary():
            summary["goodput"] = found
        if is_primary():
            try:
                if maps := heat_maps(kept_times(folder)):
                    draw(maps, folder / PICTURE)
                write_summary(path, summary)
            except OSError as error:
                raise RoomError(
                    f"the run is done, but {path} cannot be written: {error}"
                ) from error
            self._console.print(f"summary in {path}", soft_wrap=True)
        return summary


@contextmanager
def listeners(
    experiment: Experiment, progress: Progress, console: Console, record: Record
) -> Iterator[Listeners]:
    """The listeners of a run that continues after `progress.step`; they close their files."""
    config = experiment.config
    folder = config.run.path
    progress.skipped.listed_in(folder / f"{own_name(LIST)}.jsonl", progress.step)
    notices = Notices(experiment)

    def notice(event: Event) -> None:
        if isinstance(event, Read):
            notices(event.microbatches)

    opened = Metrics.open(
        folder,
        console,
        tensorboard=config.run.tensorboard,
        primary=is_primary(),
        resumed_step=progress.step,
        others=partial(dashboards, config),
    )
    with opened as metrics, ExitStack() as closed:
        asked = closed.enter_context(Asked(config.run.profile_on_signal is not None))
        profile = closed.enter_context(closing(Profile(config.run, progress, asked.taken)))
        collect = closed.enter_context(collected_together(config.run.gc_every))
        times = _times(config.run, progress)
        others: list[Listener] = [tell_peers, notice, profile, *times, collect]
        others.append(FirstLines(config, console))
        if config.run.list_samples:
            samples = closed.enter_context(closing(SampleList(folder, progress.step)))
            others.append(lists_samples(samples))
        goodput = Goodput(record, progress)
        yield Listeners(console, Figures(experiment, progress, metrics), goodput, others)


def lists_samples(samples: SampleList) -> Listener:
    """Notes the samples of every step."""

    def listener(event: Event) -> None:
        if isinstance(event, Taken):
            samples.note(event.step, event.microbatches)

    return listener


def _times(run: RunConfig, progress: Progress) -> list[Listener]:
    """The listeners that time this process, and on process 0 compare all of them."""
    if not run.stragglers:
        return []
    timing = Timing(run.log_every, Probes())
    return [timing, Comparing(run.path, progress.step)] if is_primary() else [timing]


def tell_peers(event: Event) -> None:
    """Tells the other processes the activity of this one."""
    match event:
        case Reading():
            peers().note(f"waiting for the data of step {event.step}", key=SOURCE)
        case Placed():
            peers().note(f"step {event.step}")
        case Taken():
            peers().took(event.step)
        case Copying():
            peers().note(f"copying the state after step {event.step}")
        case Saving():
            peers().note(f"saving after step {event.step}")
        case Evaluating():
            peers().note(f"evaluating after step {event.step}", limited=False, key=SOURCE)
