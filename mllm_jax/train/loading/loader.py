"""The loader of an experiment, with the facts of the training that batches are planned for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import jax

from data.config import DataConfig
from data.loading.assemble import capacity_of
from data.loading.evaluation import check_heldout, heldout_indices
from data.loading.identity import (
    Identities,
    check_same_data,
    check_same_processing,
    processing_identity,
    source_identities,
)
from data.loading.loader import DataLoader, MicrobatchLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.loading.turns import GroupTurnLoader
from data.planning.groups.group import WHOLE, HostGroupSpec, RowNumbers, sizes_of_groups
from data.planning.lengths import LengthTable, open_lengths
from data.planning.row_assignment import Hosts
from data.planning.stream import LoaderState, TrainingDemand
from data.planning.unusable import refuse, unusable_samples
from data.processing.processor import Processor
from data.sample import DataError, Lengths, SampleError, UnreachableError
from data.sources.make import make_source
from data.sources.mixture import SourceMixture
from data.sources.source import Source
from data.waits import SOURCE
from mllm_jax.config.buckets import configured_processor
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.work.flops import module_works
from mllm_jax.runtime.agreement import check_agreement, flatten_config
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.run_peers import current_peers, waiting_for_peers
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.group_size import choose_group_size
from mllm_jax.train.loading.groups import find_group, gather_from_groups
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.batch_placement import process_rows, row_hosts
from sharding.hosts import ProcessGroup

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Number of samples by which the size of groups is chosen: most that are drawn from samples with
#: measured lengths, and those that are read where lengths are not measured.
DRAWN_FROM, READ = 4096, 128
#: How reading the data may end: well, for a reason that may pass, or for another one.
_READ, _AWAY, _UNUSABLE = "read", "away", "unusable"


def open_loader(experiment: Experiment, state: LoaderState) -> MicrobatchLoader:
    """The training batches of this process from `state` on; close it.

    Raises:
        DataError: the source, the budgets or the measured lengths cannot be used.
    """
    config = experiment.config
    current_peers().note_activity("indexing and measuring the data", limited=False, key=SOURCE)
    rows = process_rows(experiment.step, config.data.rows)
    if isinstance(config.data.balance_group, int):
        find_group(config.data, rows, config.data.balance_group)  # refused before data are measured
    source = shared_source(config.data)
    common = source, experiment.processor, config.data, config.train.seed
    if config.data.lengths == "on_read":
        group = _choose_group(experiment, rows, lambda: _read_lengths(*common[:2]))
        demand = training_demand(experiment, group)
        hosts = ProcessGroup(synchronize_program, group.hosts or None, waiting_for_peers)
        group_rows = [rows[host] for host in hosts.members]
        start = _start_of_group(state, group)
        reading = run_on_all(lambda: MeasuringDataLoader(*common, group_rows, start, demand, hosts))
        return _take_turns(reading, state, demand, source)
    local_rows = rows[jax.process_index()]
    is_drawn = experiment.processor.is_drawn  # lengths are known once a step is planned
    lengths = None if is_drawn else shared_lengths(config, experiment.processor, source)
    samples = partial(_read_lengths, *common[:2])
    if lengths is not None:
        samples = partial(_draw_lengths, lengths)
    group = _choose_group(experiment, rows, samples)
    demand = training_demand(experiment, group)
    start = _start_of_group(state, group)
    loader = run_on_all(lambda: DataLoader(*common, local_rows, start, demand, lengths))
    return _take_turns(loader, state, demand, source)


def _start_of_group(state: LoaderState, group: HostGroupSpec) -> LoaderState:
    """The state that a group's loader begins from, if all begin from `state`.

    Of several groups some may wait in a step, so that it is not known here who has begun it.
    """
    return state if group.count == 1 else replace(state, done=0)


def _take_turns(
    loader: MicrobatchLoader, state: LoaderState, demand: TrainingDemand, source: Source
) -> MicrobatchLoader:
    """The microbatches of a group's loader, in turn with those of the other groups."""
    group = demand.group
    if group.count == 1:
        return loader
    mixed, gather = isinstance(source, SourceMixture), partial(gather_from_groups, group)
    return GroupTurnLoader(loader, state, group, demand.microbatches, mixed, gather)


def _choose_group(
    experiment: Experiment, rows: Sequence[RowNumbers], samples: Callable[[], list[Lengths]]
) -> HostGroupSpec:
    """The group of this process; process 0 chooses how large groups are, if that is `auto`.

    Args:
        rows: by process, the rows of a batch that it holds, by module.
        samples: gives lengths of some samples, by encoder.
    """
    config = experiment.config
    if config.data.balance_group != "auto":
        return find_group(config.data, rows, config.data.balance_group)
    sizes = sizes_of_groups(config.data, rows)

    def choose_size() -> int:
        capacity = capacity_of(config.data, experiment.processor)
        views = experiment.step.program.views.items()
        ranks = {name: view.degree_of(view.batch_axes) for name, view in views}
        return choose_group_size(config, capacity, samples(), ranks, len(rows), sizes).hosts

    size = run_on_all(lambda: choose_size() if is_primary() else None)
    return find_group(
        config.data, rows, current_peers().gather_values("hosts that balance together", size)[0]
    )


def _draw_lengths(table: LengthTable) -> list[Lengths]:
    """Lengths of samples from all parts of the data."""
    indices = range(0, len(table), -(-len(table) // DRAWN_FROM))
    return [lengths for index in indices if isinstance(lengths := table[index], Lengths)]


def _read_lengths(source: Source, processor: Processor) -> list[Lengths]:
    """Read a few samples from all parts of the data, and return their lengths."""
    lengths = []
    for index in range(0, len(source), -(-len(source) // READ)):
        with suppress(SampleError):  # whoever reads it in its turn tells of it
            lengths.append(processor.process_unchecked(source[index, 0]).lengths)
    return lengths


def check_sources(config: ExperimentConfig) -> Identities:
    """Check on all processes that the samples of a run can be used, before long work begins.

    With `data.on_error: raise` all of them are looked at, by what can be measured of them; those of
    training not with `data.lengths: on_read`, and not where media are drawn anew in every epoch.

    Returns:
        The values that tell the training data, and the tokenizer, from others.

    Raises:
        DataError: a source cannot be used, or has nothing that can.
        SampleError: a sample cannot be used, with `data.on_error: raise`.
        AgreementError: the processes have other data, or other tokenizers.
    """
    current_peers().note_activity("indexing and measuring the data", limited=False, key=SOURCE)
    source = shared_source(config.data)
    if not len(source):
        raise DataError("data.source has no samples; valid: at least one")
    processor = run_on_all(lambda: configured_processor(config))
    for message in run_on_all(processor.chat.check_training):
        if is_primary():
            logger.warning("%s", message)
    is_measured = config.data.lengths == "cached" and not processor.is_drawn
    if config.data.on_error == "raise" and is_measured:
        lengths = shared_lengths(config, processor, source)
        capacity = capacity_of(config.data, processor)
        refuse(source, unusable_samples(lengths, capacity, config.data.rows_apart))
    if config.evaluate.enabled:
        check_heldout_data(config, processor)
    sources = run_on_all(lambda: source_identities(source) | processing_identity(config.data))
    _agree_on("training data", sources)
    return sources


def check_heldout_data(config: ExperimentConfig, processor: Processor) -> None:
    """Check that the samples of an evaluation can be used, and that all processes have the same.

    Raises:
        DataError: no sample can be used. SampleError: one cannot, with `data.on_error: raise`.
        AgreementError: the processes have others, or another tokenizer.
    """
    source = run_on_all(lambda: make_source(config.data, "heldout"))
    run_on_all(lambda: _check_evaluated(source, config, processor))
    sources = run_on_all(lambda: source_identities(source) | processing_identity(config.data))
    _agree_on("held-out data", sources)


def _agree_on(name: str, data: Identities) -> None:
    """Compare data, and the tokenizer for them, between the processes."""
    check_agreement(
        name, flatten_config({key: identity.model_dump() for key, identity in data.items()})
    )


def _check_evaluated(source: Source, config: ExperimentConfig, processor: Processor) -> None:
    indices = heldout_indices(source, config.evaluate.samples)
    if config.evaluate.loss or config.measures_retrieval:
        check_heldout(source, processor, config.data, indices, prompts=False)
    if config.evaluate.exact_match:
        check_heldout(source, processor, config.data, indices, prompts=True)


def check_continuation(config: ExperimentConfig, progress: Progress, sources: Identities) -> None:
    """Check that a run continues with the data that it was trained on, and record their identity.

    Raises:
        DataError: the data are others, and `data.accept_changes` does not allow that.
    """
    if progress.sources:
        for change in run_on_all(lambda: check_same_data(progress.sources, sources, config.data)):
            logger.warning("going on with other data: %s", change)
    progress.sources = sources


def check_tokenizer(config: ExperimentConfig, progress: Progress) -> None:
    """Check that a checkpoint is evaluated with the tokenizer or processor of its training.

    Raises:
        DataError: tokenizer or processor is another; `data.accept_changes` does not allow that.
    """
    for change in run_on_all(lambda: check_same_processing(progress.sources, config.data)):
        logger.warning("evaluating with another one: %s", change)


def training_demand(experiment: Experiment, group: HostGroupSpec = WHOLE) -> TrainingDemand:
    """The training of `experiment`, for the planning of a group's batches."""
    config = experiment.config
    hosts = row_hosts(experiment.step, config.data.rows)
    if group.count > 1:
        hosts = {
            name: [group.hosts.index(hosts_of_rows[row]) for row in group.rows[name]]
            for name, hosts_of_rows in hosts.items()
        }
    return _demand_of(config, hosts, group, len(group.hosts) or jax.process_count())


def _demand_of(
    config: ExperimentConfig, hosts: Hosts, group: HostGroupSpec = WHOLE, readers: int = 1
) -> TrainingDemand:
    """The training of a configuration, by the hosts of its rows and those that read samples."""
    return TrainingDemand(
        module_works(config.model),
        hosts,
        config.train.accumulate,
        config.budget_units,
        readers if config.data.lengths == "on_read" else 1,
        group,
    )


def open_single_loader(
    config: ExperimentConfig, source: Source, processor: Processor
) -> MicrobatchLoader:
    """The batches of a run from its beginning, as one process has them with all rows; close it.

    No device is needed. With `data.balance_group` all hosts are taken for one group.

    Raises:
        DataError: the source, the budgets or the measured lengths cannot be used.
    """
    rows = {
        name: range(config.data.rows) for name in (config.model.backbone, *config.model.buckets)
    }
    common = source, processor, config.data, config.train.seed
    demand = _demand_of(config, {})
    if config.data.lengths == "on_read":
        return MeasuringDataLoader(*common, [rows], None, demand, SingleHost())
    return DataLoader(*common, rows, None, demand)


def shared_source(config: DataConfig) -> Source:
    """The training split, whose index one process makes for all that see its folder."""
    if jax.process_count() == 1:
        return make_source(config, "train")
    first = run_on_all(lambda: make_source(config, "train") if is_primary() else None)
    return run_on_all(lambda: make_source(config, "train") if first is None else first)


def shared_lengths(config: ExperimentConfig, processor: Processor, source: Source) -> LengthTable:
    """Lengths of the samples, which one process measures for all that see its folder."""
    arguments = source, processor, config.data
    if jax.process_count() == 1:
        return open_lengths(*arguments)
    first = run_on_all(lambda: open_lengths(*arguments) if is_primary() else None)
    table = run_on_all(lambda: first or open_lengths(*arguments))
    check_same(table)
    return table


def run_on_all(action: Callable[[], T]) -> T:
    """The result of `action` on every process; an error on one of them ends all.

    Raises:
        DataError: the action failed here or elsewhere. UnreachableError: for a reason that may
            pass. SampleError: it failed here.
    """
    error: DataError | SampleError | None = None
    try:
        result = action()
    except (DataError, SampleError) as failure:
        error = failure
    outcomes = current_peers().gather_values("data can be read", _outcome_of(error))
    if {*outcomes} != {_READ}:
        kind = DataError if _UNUSABLE in outcomes else UnreachableError
        raise error or kind("another process cannot read the data; see its message")
    return result


def _outcome_of(error: Exception | None) -> str:
    """The outcome of reading on this process."""
    if error is None:
        return _READ
    return _AWAY if isinstance(error, UnreachableError) else _UNUSABLE


def check_same(table: LengthTable) -> None:
    """Check that all processes plan from the same lengths.

    Raises:
        DataError: the lengths differ.
    """
    digests = current_peers().gather_values("lengths of the samples", table.digest)
    for process, digest in enumerate(digests):
        if digest != digests[0]:
            raise DataError(
                f"processes 0 and {process} have measured other lengths of the samples: their data "
                f"or their files differ; this process has read {table.folder}"
            )
