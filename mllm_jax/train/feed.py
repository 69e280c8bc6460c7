"""The loader of an experiment: what the data pipeline must know of the training that it feeds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from data.config import DataConfig
from data.identity import Identities, check_same_data, identities
from data.lengths import LengthTable, open_lengths
from data.loader import Loader, StepLoader
from data.on_read import ReadingLoader
from data.plan import Consumer, LoaderState
from data.sample import DataError
from data.sources import Source, make_source
from mllm_jax.config import ExperimentConfig
from mllm_jax.devices import is_primary
from mllm_jax.models.work import tower_works
from mllm_jax.train.batch import everywhere, process_rows, row_hosts
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.progress import Progress
from sharding.hosts import ProcessCluster

logger = logging.getLogger(__name__)

T = TypeVar("T")


def open_loader(experiment: Experiment, state: LoaderState) -> StepLoader:
    """The training batches of this process from `state` on; close it.

    Raises:
        DataError: the source, the budgets or the measured lengths cannot be used.
    """
    config = experiment.config
    source = shared_source(config.data)
    common = source, experiment.processor, config.data, config.train.seed
    rows, own = process_rows(experiment.step, config.data.rows), consumer(experiment)
    if config.data.lengths == "on_read":
        return together(lambda: ReadingLoader(*common, rows, state, own, ProcessCluster()))
    here, lengths = rows[jax.process_index()], shared_lengths(experiment, source)
    return together(lambda: Loader(*common, here, state, own, lengths))


def check_sources(config: ExperimentConfig) -> Identities:
    """See that there are the samples that a run wants; before what takes long.

    Returns:
        What tells the training data from others.

    Raises:
        DataError: a source cannot be used.
    """
    source = shared_source(config.data)
    if config.evaluate.enabled:
        together(lambda: make_source(config.data, "heldout"))
    return together(lambda: identities(source))


def go_on_with(config: ExperimentConfig, progress: Progress, sources: Identities) -> None:
    """See that a run goes on with the data that it was trained on, and note which they are.

    Raises:
        DataError: they are others, and `data.accept_changes` does not allow that.
    """
    if progress.sources:
        for change in together(lambda: check_same_data(progress.sources, sources, config.data)):
            logger.warning("going on with other data: %s", change)
    progress.sources = sources


def consumer(experiment: Experiment) -> Consumer:
    """What plans of batches must know of `experiment`."""
    config = experiment.config
    return Consumer(
        tower_works(config.model),
        row_hosts(experiment.step, config.data.rows),
        config.train.accumulate,
        config.budget_units,
        jax.process_count() if config.data.lengths == "on_read" else 1,
    )


def shared_source(config: DataConfig) -> Source:
    """The training split, whose index one process makes for all that see its folder."""
    if jax.process_count() == 1:
        return make_source(config, "train")
    first = together(lambda: make_source(config, "train") if is_primary() else None)
    return together(lambda: make_source(config, "train") if first is None else first)


def shared_lengths(experiment: Experiment, source: Source) -> LengthTable:
    """Lengths of the samples, which one process measures for all that see its folder."""
    arguments = source, experiment.processor, experiment.config.data
    if jax.process_count() == 1:
        return open_lengths(*arguments)
    first = together(lambda: open_lengths(*arguments) if is_primary() else None)
    table = together(lambda: first or open_lengths(*arguments))
    check_same(table)
    return table


def together(action: Callable[[], T]) -> T:
    """What `action` gives, on every process; an error on one of them ends all.

    Raises:
        DataError: it failed here or elsewhere.
    """
    error: DataError | None = None
    try:
        result = action()
    except DataError as failed:
        error = failed
    if not everywhere(error is None):
        raise error or DataError("another process cannot read the data; see its message")
    return result


def check_same(table: LengthTable) -> None:
    """See that all processes plan from the same lengths.

    Raises:
        DataError: they do not.
    """
    digests = multihost_utils.process_allgather(np.array(table.digest)).tolist()
    for process, digest in enumerate(digests):
        if digest != digests[0]:
            raise DataError(
                f"processes 0 and {process} have measured other lengths of the samples: their data "
                f"or their files differ; this process has read {table.folder}"
            )
