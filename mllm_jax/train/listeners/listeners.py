"""The listeners of training; this module alone knows all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from data.waits import SOURCE
from mllm_jax.config.run import RunConfig
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import UnwritableError
from mllm_jax.runtime.profile_request import ProfileRequest
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.events import Event, Listener, Phase, StepEnded
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import StepFigures
from mllm_jax.train.listeners.goodput.listener import GoodputListener
from mllm_jax.train.listeners.goodput.record import TimeRecord
from mllm_jax.train.listeners.notices import FirstLines, StepNotices
from mllm_jax.train.listeners.profile import StepProfile
from mllm_jax.train.listeners.stragglers.compare import TimeComparison
from mllm_jax.train.listeners.stragglers.garbage import collect_together
from mllm_jax.train.listeners.stragglers.heat import PICTURE, draw_maps, heat_maps, load_times
from mllm_jax.train.listeners.stragglers.probe import DeviceProbes
from mllm_jax.train.listeners.stragglers.timing import StepTimer
from mllm_jax.train.records.dashboards.open import open_dashboards
from mllm_jax.train.records.recorder import name_by_process
from mllm_jax.train.records.samples import SampleList
from mllm_jax.train.records.sinks import MetricSinks, write_summary
from mllm_jax.train.records.skips import LIST
from mllm_jax.train.records.step_record import StepRecord
from mllm_jax.train.state.progress import Progress


class RunListeners:
    """All listeners of a run as one.

    Args:
        figures: the one that knows the run's summary.
        goodput: the one that knows what its time went into.
        others: listeners that hear an event before these do.
    """

    def __init__(
        self,
        console: Console,
        figures: StepFigures,
        goodput: GoodputListener,
        others: Sequence[Listener],
    ) -> None:
        self._console, self._figures, self._goodput = console, figures, goodput
        self._all: Sequence[Listener] = (*others, goodput, figures)

    def __call__(self, event: Event) -> None:
        """Send an event to every listener."""
        for listener in self._all:
            listener(event)

    @property
    def record(self) -> StepRecord:
        """Figures of the last step that has ended."""
        return self._figures.record

    def write_summary(self, folder: Path, result: Mapping[str, Any]) -> dict[str, Any]:
        """Write `summary.json`, on process 0, and return its content.

        Args:
            result: result of the evaluation after the last step.

        Raises:
            UnwritableError: `summary.json` cannot be written.
        """
        summary, path = self._figures.make_summary(result), folder / "summary.json"
        if goodput := self._goodput.make_summary():
            summary["goodput"] = goodput
        if is_primary():
            try:
                if maps := heat_maps(load_times(folder)):
                    draw_maps(maps, folder / PICTURE)
                write_summary(path, summary)
            except OSError as error:
                raise UnwritableError(
                    f"the run is done, but {path} cannot be written: {error}"
                ) from error
            self._console.print(f"summary in {path}", soft_wrap=True)
        return summary


@contextmanager
def open_listeners(
    experiment: Experiment, progress: Progress, console: Console, record: TimeRecord
) -> Iterator[RunListeners]:
    """Context with the listeners of a run that continues after `progress.step`.

    Files of the listeners are closed at its end.

    Args:
        record: record of what the time of this process goes into.
    """
    config = experiment.config
    folder = config.run.path
    progress.skipped.listed_in(folder / f"{name_by_process(LIST)}.jsonl", progress.step)
    metrics = MetricSinks.open(
        folder,
        console,
        tensorboard=config.run.tensorboard,
        primary=is_primary(),
        resumed_step=progress.step,
        others=partial(open_dashboards, config),
    )
    with metrics, ExitStack() as stack:
        signals = stack.enter_context(ProfileRequest(config.run.profile_on_signal is not None))
        profile = stack.enter_context(closing(StepProfile(config.run, progress, signals.consume)))
        collect = stack.enter_context(collect_together(config.run.gc_every))
        timers = _open_timers(config.run, progress)
        others: list[Listener] = [note_activity, StepNotices(experiment), profile, *timers, collect]
        others.append(FirstLines(config, console))
        if config.run.list_samples:
            samples = stack.enter_context(closing(SampleList(folder, progress.step)))
            others.append(list_samples(samples))
        goodput = GoodputListener(record, progress)
        yield RunListeners(console, StepFigures(experiment, progress, metrics), goodput, others)


def list_samples(samples: SampleList) -> Listener:
    """A listener that notes the samples of every step."""

    def listen_for_samples(event: Event) -> None:
        if isinstance(event, StepEnded):
            samples.note_step(event.step, event.microbatches)

    return listen_for_samples


def _open_timers(run: RunConfig, progress: Progress) -> list[Listener]:
    """The listeners that time this process, and on process 0 compare all of them."""
    if not run.stragglers:
        return []
    timer = StepTimer(run.log_every, DeviceProbes())
    return [timer, TimeComparison(run.path, progress.step)] if is_primary() else [timer]


def note_activity(event: Event) -> None:
    """Tell the other processes the activity of this one."""
    match event:
        case Phase("read", step, seconds=None):
            current_peers().note_activity(f"waiting for the data of step {step}", key=SOURCE)
        case Phase("place", step) if event.is_over:
            current_peers().note_activity(f"step {step}")
        case StepEnded():
            current_peers().note_step(event.step)
        case Phase("copy", step, seconds=None):
            current_peers().note_activity(f"copying the state after step {step}")
        case Phase("save", step, seconds=None):
            current_peers().note_activity(f"saving after step {step}")
        case Phase("evaluate", step, seconds=None):
            current_peers().note_activity(
                f"evaluating after step {step}", limited=False, key=SOURCE
            )
