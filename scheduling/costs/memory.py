"""The memory of a step: bytes of one device, by what they hold.

State and batch are counted exactly. Ring buffers have the slots that the schedule needs. A backward
works with the tensors that one layer keeps for it, and the gradients of that layer's parameters;
with `full` rematerialisation it works with the tensors of all layers of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace

from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware
from scheduling.costs.shares import local_elements, vocab_entries
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
        gathered: parameters gathered over fsdp for the length of the step.
        cast: parameters in the type of the activations, held for the length of the step. The
            compiler for TPUs makes them once, before the loop over microbatches; others where they
            are used.
        gradients: sums of the gradients over the microbatches, not sharded by fsdp.
        backbone: waiting inputs, outputs and gradients of the backbone's chunks, and tensors saved
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
    modules = {name: ModuleTiming(workload, strategy, hardware, name) for name in strategy.plans}
    return _step_memory(
        modules, _plain_bytes(modules) if sizes is None else _pipeline_bytes(modules, sizes)
    )


def group_memory(
    workload: Workload,
    strategy: Strategy,
    hardware: Hardware,
    names: Collection[str],
    in_flight: Mapping[str, int],
) -> StepMemory:
    """The memory of a step on the devices of a group of modules, which no other modules have.

    Forwards and backwards are programs of their own: what a forward leaves for its backward stays
    while others run. The gradients of a backward exist together with their sums.

    Args:
        names: the modules of the group.
        in_flight: by module, the most microbatches that wait for backwards at the same time.
    """
    backbone = workload.backbone_name
    # Other groups have no part in the work of the backbone's stages.
    alone = replace(
        strategy, plans={**strategy.plans, backbone: strategy.plans[backbone].without_stages}
    )
    timings = {
        name: ModuleTiming(workload, strategy if name == backbone else alone, hardware, name)
        for name in strategy.plans
    }
    modules = {name: timings[name] for name in names}
    saved = {n: in_flight[n] * _module_residual_bytes(module) for n, module in modules.items()}
    work = max(_layer_work(module) for module in modules.values())
    if backbone in modules:
        work += logit_bytes(modules[backbone]) + _table_bytes(modules[backbone])
        # Outputs of other groups, and their gradients, split as the backbone's rows are.
        stage_devices = strategy.backbone.devices / strategy.backbone.stage
        for name in timings.keys() - modules.keys():
            parts = timings[name].plan.devices / stage_devices
            saved[name] = 2 * in_flight[name] * parts * _merged_bytes(timings[name])
    tasks = {
        "gradients": 2 * _trained_bytes(modules),
        "backbone": saved.pop(backbone, 0.0),
        "sources": sum(saved.values()),
        "work": work,
    }
    return _step_memory(modules, tasks)


def _step_memory(modules: Mapping[str, ModuleTiming], tasks: Mapping[str, float]) -> StepMemory:
    """The memory of modules, with that of their tasks."""
    state = {
        "parameters": sum(module.stored_bytes for module in modules.values()),
        "optimizer": WIDE * sum(module.moment_elements for module in modules.values()),
        "batch": sum(_batch_bytes(module) for module in modules.values()),
        "cast": sum(_cast_bytes(module) for module in modules.values()),
    }
    update = WIDE * sum(
        module.workload.workspace_per_element * module.matrix_elements
        for module in modules.values()
    )
    left = sum(tasks[name] for name in ("backbone", "sources", "work"))
    return StepMemory(**state, **tasks, update=max(0.0, update - left))


def _find_backbone(modules: Mapping[str, ModuleTiming]) -> ModuleTiming:
    """The backbone of the modules."""
    return next(module for module in modules.values() if module.is_backbone)


def _trained_bytes(modules: Mapping[str, ModuleTiming]) -> float:
    """Bytes of the stored parameters that have gradients, in float32."""
    return sum(WIDE * module.trained_stored_elements for module in modules.values())


def _split_bytes(
    modules: Mapping[str, ModuleTiming], bytes_of: Callable[[ModuleTiming], float]
) -> dict[str, float]:
    """Bytes of the backbone, and of all other modules together."""
    sources = (bytes_of(module) for module in modules.values() if not module.is_backbone)
    return {"backbone": bytes_of(_find_backbone(modules)), "sources": sum(sources)}


def _batch_bytes(module: ModuleTiming) -> float:
    """Bytes of one device's rows of the step, in the module's arrays.

    The arrays are replicated over the ranks of a row. They have four bytes for every value of a
    position: its input, segment and position, what is learnt of it, and where media are merged.
    """
    workload, strategy = module.workload, module.strategy
    values = module.profile.features + 5 + (len(workload.sources) if module.is_backbone else 0)
    pipelines = strategy.backbone.stage // module.plan.stage
    microbatches = strategy.microbatches * workload.microbatch_counts.get(module.name, 1)
    slots, positions = -(-microbatches // pipelines), workload.positions[module.name]
    return slots * module.rows * positions * values * WIDE


def _cast_bytes(module: ModuleTiming) -> float:
    """Bytes of a module's parameters in the type of the activations, where they are held as such.

    Parameters that are gathered for the length of the step have that type already.
    """
    size = module.workload.element_bytes
    if module.hardware.platform == "cpu" and module.workload.constant < size:
        # Before the loop over microbatches; of encoders, which a condition skips, where it is used.
        return (
            size * (module.stored_elements - module.trained_stored_elements)
            if module.is_backbone
            else 0.0
        )
    is_copied = module.hardware.platform == "tpu" and size < WIDE
    by_step = module.plan.fsdp > 1 and not module.strategy.by_layer
    wide = (
        module.stored_elements
        if module.workload.constant == WIDE
        else module.trained_stored_elements
    )
    return size * wide if is_copied and not by_step else 0.0


def residual_bytes(module: ModuleTiming, layers: float) -> float:
    """Bytes that forwards of `layers` layers keep for their backwards, on one device."""
    if module.remat == "none":
        return layers * layer_residual_bytes(module)
    if module.remat == "full":
        return 0.0
    return layers * module.activation_bytes / module.plan.sequence


def operand_bytes(module: ModuleTiming, layers: float) -> float:
    """Bytes that backwards of `layers` layers save for split weight gradients.

    Raises:
        ScheduleError: these bytes of the backbone's layers are not known.
    """
    if not module.splits_backward:
        return 0.0
    pairs = module.workload.operand_bytes.get(module.split)
    if pairs is None:
        raise ScheduleError(
            f"bytes of split weight gradients are not known for {module.split}; known for: "
            f"{', '.join(map(str, module.workload.operand_bytes)) or 'none'}"
        )
    return layers * module.rows * pairs / module.plan.context


def layer_residual_bytes(module: ModuleTiming) -> float:
    """Bytes that the backward of one layer reads of its forward.

    Raises:
        ScheduleError: the tensor degree does not divide the module.
    """
    residuals = module.workload.residual_bytes.get(module.split)
    if residuals is None:
        raise ScheduleError(f"{module.name} does not divide by {module.split}")
    return module.rows * residuals / module.plan.context


def _layer_work(module: ModuleTiming) -> float:
    """Bytes that a layer's backward works with: tensors it reads and gradients.

    Where ranks share experts, it has buffers for copies of tokens.
    """
    gradients = WIDE * module.trained_layer_elements + _hidden_gradients(module)
    again = {"none": 0.0, "layer": 1.0, "full": module.layers_per_task}[module.remat]
    return (
        gradients
        + again * layer_residual_bytes(module)
        + _dispatch_buffers(module)
        + _loop_bytes(module)
    )


def _hidden_gradients(module: ModuleTiming) -> float:
    """Bytes of the gradients of an MLP's hidden activations, both of them where it is gated.

    Programs for GPUs have them together with all tensors that the layer's backward reads.
    """
    if module.hardware.platform != "gpu":
        return 0.0
    parameters, width = module.profile.layer_parameters, module.profile.width
    hidden = parameters.get(("embed", "mlp"), 0.0) / width
    return module.activation_bytes / module.plan.sequence * hidden / width


def _dispatch_buffers(module: ModuleTiming) -> float:
    dispatched = module.dispatched
    if dispatched is None:
        return 0.0
    return dispatched.buffer_bytes(
        module.hardware.platform, dispatched.experts.hidden / module.plan.tensor
    )


def _loop_bytes(module: ModuleTiming) -> float:
    """Bytes of loops over tiles of rows, as which CPUs compute the products of experts.

    A loop reads copies of kernels, out of the stack of layers. Its result begins as zeros,
    which XLA makes before a layer's backward. So the results of the experts, their gradients as
    they come in float32 and by expert, and two gradients of rows stand at the same time, for every
    copy of a token. Where ranks share experts, the copies are in `_dispatch_buffers`.
    """
    experts, plan, size = module.profile.experts, module.plan, module.workload.element_bytes
    if experts is None or module.hardware.platform != "cpu":
        return 0.0
    width = module.profile.width
    kernels = 3 * experts.count / plan.expert * width * experts.hidden / plan.tensor * size
    if module.dispatched is not None:
        return kernels
    tokens = module.rows * module.workload.positions[module.name] / plan.context
    return kernels + tokens * experts.top_k * width * (4 * size + WIDE)


def _task_work(module: ModuleTiming) -> float:
    """Bytes that a task works with, with one copy of a slot to write and one of a slot to read.

    Tasks that run one after the other have copies of slots of one kind at a time.
    """
    slots = [size_of(module, module.layers_per_task) for size_of in (residual_bytes, operand_bytes)]
    copies = sum(slots) if module.strategy.co_issue else max(slots)
    return 2 * copies + _layer_work(module)


def logit_bytes(module: ModuleTiming) -> float:
    """Bytes of one chunk's logits and their gradient, float32, and of the head's gradient."""
    workload = module.workload
    positions = module.rows * workload.positions[workload.backbone_name] / module.plan.context
    tokens = min(workload.loss_chunk, positions)
    return 3 * WIDE * tokens * vocab_entries(module.profile, module.plan)


def _table_bytes(module: ModuleTiming) -> float:
    """Bytes of what a stage in a group gathers of the other stages' runs of the vocabulary.

    A table's entries, and twice their gradients: of a microbatch, and summed.
    """
    plan, profile = module.plan, module.profile
    others = (plan.stage - 1) * vocab_entries(profile, plan)
    return 3 * WIDE * others * profile.width / plan.fsdp


def _plain_bytes(modules: Mapping[str, ModuleTiming]) -> dict[str, float]:
    """Bytes without a pipeline: layer by layer, encoders first.

    What backwards need is kept of one full microbatch, or of all.
    A frozen encoder keeps nothing, and frozen parameters have no gradients. The gradients of a
    microbatch exist together with their sums. Of a single microbatch the sums are the gradients in
    programs for accelerators; the compiler for CPUs was seen to need the bytes of both.
    """
    first = _find_backbone(modules)
    work = max(_layer_work(module) for module in modules.values()) + logit_bytes(first)
    work += max(_full_gradient_bytes(module) for module in modules.values())
    microbatches = first.strategy.microbatches
    single = microbatches == 1 and first.hardware.platform != "cpu"
    stored = microbatches if first.strategy.keeps_microbatches else 1
    return {
        "gradients": (1 if single else 2) * _trained_bytes(modules),
        **_split_bytes(modules, lambda module: stored * _module_residual_bytes(module)),
        "work": work,
    }


def _full_gradient_bytes(module: ModuleTiming) -> float:
    """Bytes of the largest gradient outside the layers, not sharded by fsdp until it is scattered.

    Programs for GPUs make that of the embedding, or of the head, while a layer's backward works.
    """
    if module.plan.fsdp == 1 or module.hardware.platform != "gpu":
        return 0.0
    trained = module.trained_parameters[1]
    sizes = (
        local_elements(module.profile, {axes: n}, module.plan, fsdp=False)
        for axes, n in trained.items()
    )
    return WIDE * max(sizes, default=0.0)


def _module_residual_bytes(module: ModuleTiming) -> float:
    if not module.has_backward:
        return 0.0
    ends = 4 * module.activation_bytes / module.plan.sequence * module.profile.input_activations
    return residual_bytes(module, module.profile.layers / module.plan.stage) + ends


def _pipeline_bytes(modules: Mapping[str, ModuleTiming], sizes: Sizes) -> dict[str, float]:
    """Bytes with a pipeline: gradients of a stage, and the ring buffers."""
    first = _find_backbone(modules)
    strategy = first.strategy
    step = strategy.gather == "step"
    return {
        "gathered": sum(t.gathered_bytes for t in modules.values() if step and t.plan.fsdp > 1),
        "gradients": sum(
            WIDE * (t.trained_resident_elements if step else t.trained_stored_elements)
            for t in modules.values()
        ),
        **_split_bytes(modules, lambda module: _buffer_bytes(module, sizes[module.name])),
        "work": _task_bytes(modules),
    }


def _task_bytes(modules: Mapping[str, ModuleTiming]) -> float:
    """Bytes that tasks work with: side by side, or one after the other."""
    first = _find_backbone(modules)
    works = [_task_work(module) for module in modules.values()]
    return (sum(works) if first.strategy.co_issue else max(works)) + logit_bytes(first)


def _buffer_bytes(module: ModuleTiming, sizes: BufferSizes) -> float:
    """Bytes of the ring buffers of a module.

    A module without shared ends saves the outputs of its chunks, too, and has outputs that wait.
    """
    profile, layers = module.profile, module.layers_per_task
    one = module.activation_bytes / module.plan.sequence
    output = one * profile.output_activations
    saved = residual_bytes(module, layers) if module.has_backward else 0.0
    saved += 0.0 if module.shared_ends else output
    buffers = sizes.inputs * one * profile.input_activations + sizes.gradients * output
    buffers += sizes.operands * operand_bytes(module, layers) + sizes.saved * saved
    return buffers + (sizes.output_buffer + sizes.output_grad_buffer) * _merged_bytes(module)


def _merged_bytes(module: ModuleTiming) -> float:
    """Bytes of a microbatch's outputs of a module, as they are merged into the backbone's rows."""
    backbone, size = module.workload.backbone, module.workload.element_bytes
    elements = module.outputs * backbone.input_activations * backbone.width
    return elements * size / module.plan.sequence


def least_memory(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """A lower bound of the bytes of any step of `strategy`, wherever encoder tasks are placed.

    Args:
        strategy: with the backbone's plan only, or with all plans.
    """
    if strategy.backbone.stage == 1:
        return step_memory(workload, strategy, hardware).total
    stages, chunks = strategy.backbone.stage, strategy.backbone_chunks
    count = strategy.microbatches
    # Activations that wait on the first stage in lockstep, at least the first
    # (docs/concepts/layers.md).
    slots, pairs = min(count, stages) * chunks, min(count, stages)
    if count % stages == 0 and count >= 2 * stages:
        slots = pairs = (chunks + 1) * stages - 1
    full = strategy.remat == "full"
    inputs, saved = (slots, 0) if full else (1, slots)
    backbone = BufferSizes(inputs, saved, 1, pairs if strategy.split_backward else 0)
    sizes = {
        name: _least_slots(ModuleTiming(workload, strategy, hardware, name))
        for name in strategy.plans
        if name != workload.backbone_name
    }
    sizes = {workload.backbone_name: backbone, **sizes}
    memory = step_memory(workload, strategy, hardware, sizes)
    return memory.total - memory.work + min(memory.work, _least_work(workload, strategy, hardware))


def _least_work(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Bytes that tasks work with, where encoders whose chunks are yet to be chosen have the most.

    The more chunks there are, the fewer layers a task has; buffers have a slot more for each.
    """
    chunks = {
        name: workload.modules[name].periods
        for name, plan in strategy.plans.items()
        if name != workload.backbone_name and strategy.placement == "bubbles" and plan.stage == 1
    }
    cut = replace(strategy, chunks={**chunks, **strategy.chunks})
    return _task_bytes({name: ModuleTiming(workload, cut, hardware, name) for name in cut.plans})


def _least_slots(module: ModuleTiming) -> BufferSizes:
    """Slots that an encoder needs for its backwards and for outputs that wait for the backbone.

    In lockstep two groups of microbatches, each with one per stage, have entered the backbone
    before the first microbatch has left it.
    """
    division, strategy = module.division, module.strategy
    stages, count = strategy.backbone.stage, strategy.microbatches
    waiting = min(count, 2 * stages if count % stages == 0 else stages)
    outputs = 1
    if strategy.placement == "prologue":
        waiting, outputs = count, -(-count * division.stages // stages)
    of_each = -(-waiting * division.stages // stages)
    saved = of_each * len(division.chunks_with(B)) // division.stages
    full = module.remat == "full"
    # Chunks without a backward get no gradients.
    return BufferSizes(
        saved=0 if full else saved,
        output_buffer=outputs,
        output_grad_buffer=int(division.trains),
    )
