"""The memory of a step: bytes of one device, by what they hold.

State and batch are counted exactly. Ring buffers have the slots that the schedule needs. A backward
works with the tensors that one layer keeps for it, and the gradients of that layer's parameters;
with `full` rematerialisation it works with the tensors of a whole chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from scheduling.costs.estimate import Timing
from scheduling.costs.hardware import Hardware
from scheduling.costs.shares import elements, entries
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import WIDE, Workload
from scheduling.lowering.lowered import BufferSizes
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import B


@dataclass(frozen=True)
class StepMemory:
    """Bytes of one device.

    Attributes:
        parameters: the stored parameters.
        optimizer: moments of the optimizer.
        batch: rows of all microbatches.
        gathered: parameters gathered over fsdp for the whole step.
        cast: parameters in the type of the activations, held for the whole step. The compiler for
            TPUs makes them once, before the loop over microbatches; others where they are used.
        gradients: sums of the gradients over the microbatches, whole along fsdp.
        backbone: waiting inputs, outputs and gradients of the backbone's chunks, and tensors kept
            for their backwards and for weight gradients that are split from these.
        sources: the same for all modules that feed it.
        work: tensors of the layer that runs, and the logits.
        update: tensors of the optimizer's update, beyond the room that those of backbone, sources
            and work leave it once all tasks are done.
    """

    parameters: float = 0.0
    optimizer: float = 0.0
    batch: float = 0.0
    gathered: float = 0.0
    cast: float = 0.0
    gradients: float = 0.0
    backbone: float = 0.0
    sources: float = 0.0
    work: float = 0.0
    update: float = 0.0

    @property
    def total(self) -> float:
        """Sum of all attributes."""
        return sum(self.by_kind.values())

    @property
    def by_kind(self) -> dict[str, float]:
        """Bytes by the names of the attributes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


#: Slots of the buffers of every module by name.
Sizes = Mapping[str, BufferSizes]


def step_memory(
    workload: Workload, strategy: Strategy, hardware: Hardware, sizes: Sizes | None = None
) -> StepMemory:
    """The memory of a step.

    Args:
        sizes: slots of a compiled program's ring buffers; None for a step without stages.
    """
    towers = {name: Timing(workload, strategy, hardware, name) for name in strategy.plans}
    common = {
        "parameters": sum(tower.stored_bytes for tower in towers.values()),
        "optimizer": WIDE * sum(tower.moments for tower in towers.values()),
        "batch": sum(_batch(tower) for tower in towers.values()),
        "cast": sum(_cast(tower) for tower in towers.values()),
    }
    tasks = _plain(towers) if sizes is None else _pipelined(towers, sizes)
    update = WIDE * workload.works_with * sum(tower.matrices for tower in towers.values())
    left = sum(tasks[name] for name in ("backbone", "sources", "work"))
    return StepMemory(**common, **tasks, update=max(0.0, update - left))


def _backbone(towers: Mapping[str, Timing]) -> Timing:
    """The backbone of the towers."""
    return next(tower for tower in towers.values() if tower.is_backbone)


def _trained(towers: Mapping[str, Timing]) -> float:
    """Bytes of the stored parameters that have gradients, in float32."""
    return sum(WIDE * tower.trained_stored for tower in towers.values())


def _batch(tower: Timing) -> float:
    """Bytes of one device's rows of the step, in the tower's own arrays.

    The decoder's arrays are whole on every rank of a row: tokens, targets, weights, segments,
    positions and the places of media, four bytes for each position; an encoder's arrays also have
    its features.
    """
    workload, strategy = tower.workload, tower.strategy
    positions = workload.positions[tower.name]
    if tower.is_backbone:
        values = 5 + len(workload.sources)
        return strategy.microbatches * tower.rows * positions * values * WIDE
    values = tower.tower.features + 5
    pipelines = strategy.backbone.stage // tower.plan.stage
    slots = -(-strategy.microbatches * tower.workload.units.get(tower.name, 1) // pipelines)
    return slots * tower.rows * positions * values * WIDE


def _cast(tower: Timing) -> float:
    """Bytes of a tower's parameters in the type of the activations, where they are held as such.

    Parameters that are gathered for the whole step have that type already.
    """
    size = tower.workload.size
    if tower.hardware.platform == "cpu" and tower.workload.constant < size:
        # Before the loop over microbatches; of encoders, which a condition skips, where it is used.
        return size * (tower.stored - tower.trained_stored) if tower.is_backbone else 0.0
    is_copied = tower.hardware.platform == "tpu" and size < WIDE
    by_step = tower.plan.fsdp > 1 and not tower.strategy.by_layer
    wide = tower.stored if tower.workload.constant == WIDE else tower.trained_stored
    return size * wide if is_copied and not by_step else 0.0


def kept(tower: Timing, layers: float) -> float:
    """Bytes that forwards of `layers` layers keep for their backwards, on one device."""
    if tower.remat == "none":
        return layers * everything(tower)
    if tower.remat == "full":
        return 0.0
    return layers * tower.activation / tower.plan.sequence


def pairs(tower: Timing, layers: float) -> float:
    """Bytes that backwards of `layers` layers keep for weight gradients apart from them.

    Raises:
        ScheduleError: these bytes of the decoder's layers are not known.
    """
    if not tower.apart:
        return 0.0
    pairs = tower.workload.apart.get(tower.split)
    if pairs is None:
        raise ScheduleError(
            f"bytes of weight gradients apart are not known for {tower.split}; known for: "
            f"{', '.join(map(str, tower.workload.apart)) or 'none'}"
        )
    return layers * tower.rows * pairs / tower.plan.context


def everything(tower: Timing) -> float:
    """Bytes that the backward of one layer reads of its forward.

    Raises:
        ScheduleError: the tensor degree does not divide the tower.
    """
    residuals = tower.workload.kept.get(tower.split)
    if residuals is None:
        raise ScheduleError(f"{tower.name} does not divide by {tower.split}")
    return tower.rows * residuals / tower.plan.context


def _layer_work(tower: Timing) -> float:
    """Bytes that a layer's backward works with: tensors it reads and gradients.

    Where ranks share experts, it has buffers for copies of tokens.
    """
    gradients = WIDE * tower.trained_of_layer + _hidden_gradients(tower)
    again = {"none": 0.0, "layer": 1.0, "full": tower.layers_per_task}[tower.remat]
    return gradients + again * everything(tower) + _dispatch_buffers(tower) + _loops(tower)


def _hidden_gradients(tower: Timing) -> float:
    """Bytes of the gradients of an MLP's hidden activations, both of them where it is gated.

    Programs for GPUs have them beside all tensors that the layer's backward reads.
    """
    if tower.hardware.platform != "gpu":
        return 0.0
    parameters, width = tower.tower.layer_parameters, tower.tower.width
    hidden = parameters.get(("embed", "mlp"), 0.0) / width
    return tower.activation / tower.plan.sequence * hidden / width


def _dispatch_buffers(tower: Timing) -> float:
    dispatched = tower.dispatched
    if dispatched is None:
        return 0.0
    return dispatched.buffers(
        tower.hardware.platform, dispatched.experts.hidden / tower.plan.tensor
    )


def _loops(tower: Timing) -> float:
    """Bytes of loops over tiles of rows, as which CPUs compute the products of experts.

    A loop reads kernels of its own, copied out of the stack of layers. Its result begins as zeros,
    which XLA makes ahead of a layer's backward. So the results of the experts, their gradients as
    they come in float32 and by expert, and two gradients of rows stand at the same time, for every
    copy of a token. Where ranks share experts, the copies are in `_dispatch_buffers`.
    """
    experts, plan, size = tower.tower.experts, tower.plan, tower.workload.size
    if experts is None or tower.hardware.platform != "cpu":
        return 0.0
    width = tower.tower.width
    kernels = 3 * experts.count / plan.expert * width * experts.hidden / plan.tensor * size
    if tower.dispatched is not None:
        return kernels
    tokens = tower.rows * tower.workload.positions[tower.name] / plan.context
    return kernels + tokens * experts.top_k * width * (4 * size + WIDE)


def _task_work(tower: Timing) -> float:
    """Bytes that a task works with, with one copy of a slot to write and one of a slot to read.

    Tasks that run one after the other have copies of slots of one kind at a time.
    """
    slots = [size_of(tower, tower.layers_per_task) for size_of in (kept, pairs)]
    copies = sum(slots) if tower.strategy.co_issue else max(slots)
    return 2 * copies + _layer_work(tower)


def logits(tower: Timing) -> float:
    """Bytes of one chunk's logits and their gradient, float32, and of the head's gradient."""
    workload = tower.workload
    positions = tower.rows * workload.positions[workload.backbone_name] / tower.plan.context
    tokens = min(workload.loss_chunk, positions)
    return 3 * WIDE * tokens * entries(tower.tower, tower.plan)


def _plain(towers: Mapping[str, Timing]) -> dict[str, float]:
    """Bytes without a pipeline: layer by layer, encoders first; a whole microbatch is kept at once.

    A frozen encoder keeps nothing, and frozen parameters have no gradients. The gradients of a
    microbatch stand beside their sums. Of a single microbatch the sums are the gradients in
    programs for accelerators; the compiler for CPUs was seen to need the bytes of both.
    """
    decoder = _backbone(towers)
    encoders = [tower for tower in towers.values() if not tower.is_backbone and tower.trains]
    work = max(_layer_work(tower) for tower in towers.values()) + logits(decoder)
    work += max(_whole_gradient(tower) for tower in towers.values())
    single = decoder.strategy.microbatches == 1 and decoder.hardware.platform != "cpu"
    return {
        "gradients": (1 if single else 2) * _trained(towers),
        "backbone": _kept_by_tower(decoder),
        "sources": sum(_kept_by_tower(tower) for tower in encoders),
        "work": work,
    }


def _whole_gradient(tower: Timing) -> float:
    """Bytes of the largest gradient outside the layers, whole along fsdp until it is scattered.

    Programs for GPUs make that of the embedding, or of the head, while a layer's backward works.
    """
    if tower.plan.fsdp == 1 or tower.hardware.platform != "gpu":
        return 0.0
    trained = tower.trained[1]
    sizes = (
        elements(tower.tower, {axes: n}, tower.plan, fsdp=False) for axes, n in trained.items()
    )
    return WIDE * max(sizes, default=0.0)


def _kept_by_tower(tower: Timing) -> float:
    ends = 4 * tower.activation / tower.plan.sequence * (1 + tower.tower.beside)
    return kept(tower, tower.tower.layers) + ends


def _pipelined(towers: Mapping[str, Timing], sizes: Sizes) -> dict[str, float]:
    """Bytes with a pipeline: gradients of a whole stage, and the ring buffers."""
    first = _backbone(towers)
    strategy = first.strategy
    step = strategy.gather == "step"
    return {
        "gathered": sum(t.gathered for t in towers.values() if step and t.plan.fsdp > 1),
        "gradients": sum(
            WIDE * (t.trained_resident if step else t.trained_stored) for t in towers.values()
        ),
        "backbone": _decoder_buffers(first, sizes[first.name]),
        "sources": sum(
            _encoder_buffers(tower, first, sizes[name])
            for name, tower in towers.items()
            if not tower.is_backbone
        ),
        "work": _work(towers),
    }


def _work(towers: Mapping[str, Timing]) -> float:
    """Bytes that tasks work with: side by side, or one after the other."""
    first = _backbone(towers)
    works = [_task_work(tower) for tower in towers.values()]
    return (sum(works) if first.strategy.co_issue else max(works)) + logits(first)


def _decoder_buffers(tower: Timing, sizes: BufferSizes) -> float:
    activation = tower.activation / tower.plan.sequence
    buffers = (sizes.inputs * (1 + tower.tower.beside) + sizes.gradients) * activation
    buffers += sizes.operands * pairs(tower, tower.layers_per_task)
    return buffers + sizes.saved * kept(tower, tower.layers_per_task)


def _encoder_buffers(tower: Timing, decoder: Timing, sizes: BufferSizes) -> float:
    entry = tower.activation / tower.plan.sequence * (1 + tower.tower.beside)
    outputs = tower.outputs * (1 + decoder.tower.beside) * decoder.tower.width
    outputs *= tower.workload.size / tower.plan.sequence
    buffers = (sizes.inputs + sizes.gradients) * entry + (
        sizes.output_buffer + sizes.output_grad_buffer
    ) * outputs
    frozen = tower.name in tower.workload.frozen
    each = entry + (0.0 if frozen else kept(tower, tower.layers_per_task))
    return buffers + sizes.saved * each


def least_memory(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """A lower bound of the bytes of any step of `strategy`, wherever encoder tasks are placed.

    Args:
        strategy: with the decoder's plan only, or with all plans.
    """
    if strategy.backbone.stage == 1:
        return step_memory(workload, strategy, hardware).total
    stages, chunks, count = strategy.backbone.stage, strategy.chunks, strategy.microbatches
    # Activations that wait on the first stage in lockstep, at least the first
    # (docs/concepts/layers.md).
    slots, pairs = min(count, stages) * chunks, min(count, stages)
    if count % stages == 0 and count >= 2 * stages:
        slots = pairs = (chunks + 1) * stages - 1
    full = strategy.remat == "full"
    inputs, saved = (slots, 0) if full else (1, slots)
    decoder = BufferSizes(inputs, saved, 1, pairs if strategy.weights_apart else 0)
    sizes = {
        name: _least_slots(Timing(workload, strategy, hardware, name))
        for name in strategy.plans
        if name != workload.backbone_name
    }
    sizes = {workload.backbone_name: decoder, **sizes}
    memory = step_memory(workload, strategy, hardware, sizes)
    return memory.total - memory.work + min(memory.work, _least_work(workload, strategy, hardware))


def _least_work(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Bytes that tasks work with, where encoders whose chunks are yet to be chosen have the most.

    The more chunks there are, the fewer layers a task has; buffers have a slot more for each.
    """
    pieces = {
        name: workload.towers[name].periods
        for name, plan in strategy.plans.items()
        if name != workload.backbone_name and strategy.placement == "bubbles" and plan.stage == 1
    }
    cut = replace(strategy, pieces={**pieces, **strategy.pieces})
    return _work({name: Timing(workload, cut, hardware, name) for name in cut.plans})


def _least_slots(tower: Timing) -> BufferSizes:
    """Slots that an encoder needs for its backwards and for outputs that wait for the decoder.

    In lockstep two groups of microbatches, each with one per stage, have entered the decoder before
    the first microbatch has left it.
    """
    division, strategy = tower.division, tower.strategy
    stages, count = strategy.backbone.stage, strategy.microbatches
    waiting = min(count, 2 * stages if count % stages == 0 else stages)
    outputs = 1
    if strategy.placement == "prologue":
        waiting, outputs = count, -(-count * division.stages // stages)
    of_each = -(-waiting * division.stages // stages)
    saved = of_each * len(division.chunks_with(B)) // division.stages
    full = tower.remat == "full"
    # Pieces without a backward get no gradients.
    return BufferSizes(
        saved=0 if full else saved,
        output_buffer=outputs,
        output_grad_buffer=int(division.trains),
    )
