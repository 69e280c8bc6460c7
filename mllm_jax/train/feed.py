"""The loader of an experiment: what the data pipeline must know of the training that it feeds."""

from __future__ import annotations

import jax

from data.lengths import LengthTable, open_lengths
from data.loader import Loader, StepLoader
from data.on_read import ReadingLoader
from data.plan import Consumer, LoaderState
from data.sources import Source, make_source
from mllm_jax.devices import is_primary
from mllm_jax.models.work import tower_works
from mllm_jax.train.batch import everywhere, process_rows, row_hosts
from mllm_jax.train.experiment import Experiment
from sharding.hosts import ProcessCluster


def open_loader(experiment: Experiment, state: LoaderState) -> StepLoader:
    """The training batches of this process from `state` on; close it.

    Raises:
        DataError: the source, the budgets or the measured lengths cannot be used.
    """
    config = experiment.config
    source = make_source(config.data, "train")
    common = source, experiment.processor, config.data, config.train.seed
    rows, own = process_rows(experiment.step, config.data.rows), consumer(experiment)
    if config.data.lengths == "on_read":
        return ReadingLoader(*common, rows, state, own, ProcessCluster())
    here = rows[jax.process_index()]
    return Loader(*common, here, state, own, shared_lengths(experiment, source))


def consumer(experiment: Experiment) -> Consumer:
    """What plans of batches must know of `experiment`."""
    config = experiment.config
    return Consumer(
        tower_works(config.model),
        row_hosts(experiment.step, config.data.rows),
        config.train.accumulate,
        config.budget_units,
    )


def shared_lengths(experiment: Experiment, source: Source) -> LengthTable:
    """Lengths of the samples, which one process measures for all that see its folder."""
    arguments = source, experiment.processor, experiment.config.data
    if jax.process_count() == 1:
        return open_lengths(*arguments)
    first = open_lengths(*arguments) if is_primary() else None
    everywhere(True)
    return first or open_lengths(*arguments)
