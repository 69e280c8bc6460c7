"""Seconds of a layer's forward and backward on one device: its compute and its collectives.

A layer's forward, with tensor parallelism (c compute, g gather, s scatter; Korthikanti et al.,
arXiv 2205.05198) and context parallelism (x exchange of heads for positions before and after
attention; Jacobs et al., arXiv 2309.14509)::

    norm c | g | x attention x c | s | norm c | g | MLP c | s

Where ranks share experts, tokens are exchanged around the MLP (`scheduling.costs.dispatch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd

from scheduling.costs.dispatch import ExposedTime, TokenExchange
from scheduling.costs.hardware import Efficiency, Hardware
from scheduling.costs.module_costs import ModuleCosts
from scheduling.costs.times import TaskSegment, TaskTime
from scheduling.costs.work import ExpertWork, ModulePart, ModuleWork
from scheduling.costs.workload import WIDE
from sharding.exchange_kinds import OverlapKind
from sharding.numbering import Span, spans_by_axis


def _collective_segments(*seconds: float) -> tuple[TaskSegment, ...]:
    """Segments of the collectives that take any time, each without compute."""
    return tuple(TaskSegment(0.0, collective) for collective in seconds if collective)


class LayerTiming(ModuleCosts):
    """Times of one module's layer on one device, for one microbatch.

    Attributes:
        workload, strategy, name: as of `ModuleCosts`.
        hardware: the device, and the links between devices.
    """

    hardware: Hardware

    # ---- collectives -----------------------------------------------------------------------------

    def group_seconds(self, data: float, axis: str) -> float:
        """Seconds of a gather, or scatter, of `data` bytes over one axis of the plan."""
        return self.hardware.digits_seconds(data, self._digits[axis])

    @cached_property
    def _digits(self) -> dict[str, tuple[Span, ...]]:
        """Which digits of a device's number are the ranks of an axis."""
        return spans_by_axis(self.plan, self.strategy.backbone)

    @property
    def gathered_rows(self) -> float:
        """Seconds in which a tensor group gathers its rows."""
        return self.group_seconds(self.activation_bytes / self.plan.context, "tensor")

    @property
    def scattered_sums(self) -> float:
        """Seconds in which a tensor group adds up partial sums, and scatters them."""
        sums = self.activation_bytes / self.workload.element_bytes * self.workload.sums
        return self.group_seconds(sums / self.plan.context, "tensor")

    @cached_property
    def exchanged_heads(self) -> float:
        """Seconds in which context ranks exchange heads for positions, before and after attention.

        Queries and outputs have all heads; keys and values are copied where they have fewer heads
        than there are ranks.
        """
        profile, plan = self.profile, self.plan
        queries = profile.heads // plan.tensor
        pairs = queries // gcd(profile.heads // profile.kv_heads, queries)
        copies = plan.context // gcd(pairs, plan.context)
        heads = 2 * queries + 2 * pairs * copies
        positions = self.rows * self.workload.positions[self.name] / profile.stride / plan.context
        data = positions * heads * profile.head_dim * self.workload.element_bytes
        return self.hardware.exchange_seconds(data, self._digits["context"])

    @cached_property
    def layer_gather(self) -> float:
        """Seconds in which fsdp ranks gather a layer's parameters, if they do so layer by layer."""
        return self._by_layer(self.workload.element_bytes * self.layer_elements)

    @cached_property
    def layer_scatter(self) -> float:
        """Seconds in which fsdp ranks sum a layer's gradients, in float32, layer by layer."""
        return self._by_layer(WIDE * self.trained_layer_elements)

    def _by_layer(self, data: float) -> float:
        return self.group_seconds(data, "fsdp") if self.strategy.by_layer else 0.0

    # ---- experts that ranks share ----------------------------------------------------------------

    @cached_property
    def dispatched(self) -> TokenExchange | None:
        """What a layer with experts exchanges, if ranks share these."""
        if self.shared_experts is None:
            return None
        tokens = self.rows * self.workload.positions[self.name] / self.plan.context
        size = self.workload.element_bytes
        token = self.profile.width * size
        return TokenExchange(self.shared_experts, tokens, token, size, self._digits["expert"])

    @property
    def copy_seconds(self) -> float:
        """Seconds in which tokens are copied for their experts, part of `block_seconds`."""
        dispatched = self.dispatched
        speed = self.hardware.memory_bandwidth * self.efficiency.memory
        return 0.0 if dispatched is None else 4 * dispatched.copies * dispatched.token / speed

    @cached_property
    def of_experts(self) -> float:
        """Seconds of a layer's products with shared experts in a forward, the mean over layers."""
        experts = self.shared_experts
        return experts.share * self._of_experts(experts) if experts else 0.0

    def _of_experts(self, experts: ExpertWork) -> float:
        return self.product_seconds(ModulePart(ModuleWork(experts.flops, 0), 0))

    @cached_property
    def _experts_forward(self) -> tuple[TaskSegment, ...]:
        """The exchange of tokens in a layer's forward, the mean over layers."""
        if self.dispatched is None:
            return ()
        experts = self.dispatched.experts
        return self._exchange_segments(
            self.dispatched.forward_time(self.hardware, self._of_experts(experts)), 0.0
        )

    @cached_property
    def _experts_backward(self) -> tuple[TaskSegment, ...]:
        """The same in a backward, which computes the experts' forward again."""
        if self.dispatched is None:
            return ()
        products = (2 + self.trains_fully) * self._of_experts(self.dispatched.experts)
        return self._exchange_segments(
            self.dispatched.backward_time(self.hardware, products), self.of_experts
        )

    def _exchange_segments(self, exposed: ExposedTime, again: float) -> tuple[TaskSegment, ...]:
        assert self.shared_experts is not None  # as the callers know
        share = self.shared_experts.share
        return (TaskSegment(again + share * exposed.moving, share * exposed.collective),)

    # ---- compute ---------------------------------------------------------------------------------

    def compute_seconds(self, part: ModulePart, share: float = 1.0) -> float:
        """Seconds of a part's forward without collectives.

        Args:
            share: factor on the work, relative to an equal division of a row among its ranks.
        """
        length, efficiency, size = (
            self.workload.positions[self.name],
            self.efficiency,
            self.workload.element_bytes,
        )
        peak = self.hardware.peak_flops(self.workload.dtype)
        pairs = part.work.quadratic * length**2 * self.workload.pairs.get(self.name, 1.0)
        for number, near in enumerate(part.work.near):
            pairs += near.flops * length**2 * self.workload.near_share(self.name, number)
        attention = pairs / (peak * efficiency.attention)
        moved = part.moved * size * length / self.profile.stride
        moving = moved / (self.hardware.memory_bandwidth * efficiency.memory)
        other = share * self.rows * (attention + moving) / self.plan.sequence
        return self.product_seconds(part, share) + other

    def product_seconds(self, part: ModulePart, share: float = 1.0) -> float:
        """Seconds of the products of a part with parameters in a forward, see `compute_seconds`."""
        peak = self.hardware.peak_flops(self.workload.dtype) * self.efficiency.matmul
        linear = part.work.linear * self.workload.positions[self.name] / peak
        return share * self.rows * linear / self.plan.sequence

    @property
    def efficiency(self) -> Efficiency:
        """Fractions of the hardware's peaks that are reached."""
        return self.hardware.efficiency

    @cached_property
    def block_seconds(self) -> float:
        """Seconds of compute of one block of a layer, forward."""
        full_block = self.compute_seconds(self.profile.layer) + self.compute_seconds(
            self._copied_heads
        )
        return (full_block + self.efficiency.layer_seconds) / self.profile.blocks

    @cached_property
    def weights_block(self) -> float:
        """Seconds of the products of a block's weight gradients, split from its backward."""
        products = self.weights_share * self.product_seconds(self.profile.layer)
        products += self.product_seconds(self._copied_heads) if self.trains_fully else 0.0
        return (products + self.efficiency.layer_seconds) / self.profile.blocks

    @property
    def _attention_excess(self) -> float:
        """Seconds that a block's backward takes for attention beyond its share of the products.

        Attention has no parameters, and a full backward.
        """
        if self.trains_fully:
            return 0.0
        work = replace(self.profile.layer.work, linear=0.0)
        return (
            (1 - self.weights_share)
            * self.compute_seconds(ModulePart(work, 0))
            / self.profile.blocks
        )

    @property
    def splits_backward(self) -> bool:
        """Whether weight gradients are split from backwards."""
        return self.is_backbone and self.strategy.split_backward

    @property
    def kv_copies(self) -> int:
        """Tensor ranks that hold the same heads of keys and values."""
        return self.plan.tensor // gcd(self.profile.kv_heads, self.plan.tensor)

    @property
    def _copied_heads(self) -> ModulePart:
        """Work of a rank on the copied heads of keys and values, beyond its share."""
        profile = self.profile
        linear = 4 * profile.width * profile.kv_heads * profile.head_dim / profile.stride
        return ModulePart(ModuleWork((self.kv_copies - 1) * linear, 0), 0)

    def exposed_seconds(self, collective: float, compute: float) -> float:
        """Seconds of a collective, or of moving bytes, that compute does not hide."""
        overlaps = self.hardware.platform != "cpu"
        return max(0.0, collective - compute) if overlaps else collective

    # ---- a layer ---------------------------------------------------------------------------------

    @cached_property
    def layer_forward(self) -> tuple[TaskSegment, ...]:
        """A layer's forward; the parameters of the next layer are gathered meanwhile."""
        block = self._forward_block(self.block_seconds)
        return (*block * self.profile.blocks, *self._layer_collectives, *self._experts_forward)

    def _forward_block(self, compute: float) -> tuple[TaskSegment, TaskSegment]:
        """A block of a forward: in rings, half of its products overlap with each collective."""
        ring = compute / 2 if self.uses_rings else 0.0
        gather = self.exposed_seconds(self.gathered_rows, ring)
        return TaskSegment(0.0, gather), TaskSegment(
            compute, self.exposed_seconds(self.scattered_sums, ring)
        )

    @property
    def uses_rings(self) -> bool:
        """Whether rows are gathered and sums scattered in rings, under the products."""
        return "tensor" in self.strategy.overlap

    @property
    def _layer_collectives(self) -> tuple[TaskSegment, ...]:
        """Collectives of a layer's forward that do not belong to a block."""
        ring = self.block_seconds / 2 if self.uses_rings else 0.0
        used = min(self.gathered_rows, ring) + min(self.scattered_sums, ring)
        seconds = self.profile.blocks * (self.block_seconds - used)
        return _collective_segments(self.exchanged_heads, self._of_layers(["gather"], seconds))

    def _of_layers(self, kinds: Sequence[OverlapKind], compute: float) -> float:
        """Seconds of a layer's gather, scatter or both that compute does not hide.

        Collectives in the iteration of their layer count as exposed.
        """
        times: dict[OverlapKind, float] = {
            "gather": self.layer_gather,
            "scatter": self.layer_scatter,
        }
        by_kind = {name: seconds for name, seconds in times.items() if name in kinds}
        overlapped = sum(by_kind[name] for name in by_kind if name in self.strategy.overlap)
        return sum(by_kind.values()) - overlapped + self.exposed_seconds(overlapped, compute)

    @cached_property
    def layer_backward(self) -> tuple[TaskSegment, ...]:
        """A layer's backward without its recomputation.

        The backward of a frozen backbone computes gradients of inputs alone, and little else for
        adapters. Otherwise the gradients of a block's parameters are computed during the scatter of
        the gradients of its input; the rest of the compute hides the gather of parameters.
        """
        if self.splits_backward:
            return self._layer_inputs
        half = self.block_seconds  # one of the two products for each product of the forward
        compute = (1 + self.weights_share) * half + self._attention_excess
        rows, ring = self.gathered_rows, half / 2 if self.uses_rings else 0.0
        weights = ring + half * self.weights_share
        block = (
            TaskSegment(0.0, self.exposed_seconds(rows, ring)),
            TaskSegment(compute, self.exposed_seconds(rows, weights)),
        )
        hidden = compute - min(rows, ring) - min(rows, weights if self.trains_fully else half)
        kinds: list[OverlapKind] = ["gather", "scatter"] if self.remat == "none" else ["scatter"]
        fsdp = self._of_layers(kinds, self.profile.blocks * hidden)
        alone = (*_collective_segments(self.exchanged_heads, fsdp), *self._experts_backward)
        task = TaskTime((*block * self.profile.blocks, *alone))
        return self._with_sums(task, self.trained_layer_elements)

    def _with_sums(self, task: TaskTime, count: float) -> tuple[TaskSegment, ...]:
        """A task of a layer, with the sums of its `count` gradients over microbatches.

        Accelerators add to the sums in the epilogue of the products that make the gradients.
        """
        return (
            *task.segments,
            TaskSegment(self.exposed_seconds(self.sum_seconds(count), task.seconds)),
        )

    @cached_property
    def _layer_inputs(self) -> tuple[TaskSegment, ...]:
        """The backward of a layer without its weight gradients: no product overlaps with another.

        A gather of parameters overlaps with the products.
        """
        compute = (1 + self.weights_share) * self.block_seconds - self.weights_block
        compute += self._attention_excess
        block = (TaskSegment(0.0, self.gathered_rows), TaskSegment(compute, self.gathered_rows))
        kinds: list[OverlapKind] = ["gather"] if self.remat == "none" else []
        fsdp = self._of_layers(kinds, self.profile.blocks * compute)
        alone = _collective_segments(self.exchanged_heads, fsdp)
        return (*block * self.profile.blocks, *alone, *self._experts_backward)

    @cached_property
    def layer_weights(self) -> tuple[TaskSegment, ...]:
        """A layer's weight gradients without its backward, on rows that are gathered again.

        Those of shared experts need the exchange of the backward once more.
        """
        block = (TaskSegment(0.0, self.gathered_rows), TaskSegment(self.weights_block))
        fsdp = self._of_layers(["scatter"], self.profile.blocks * self.weights_block)
        alone = (*_collective_segments(fsdp), *self._experts_backward)
        task = TaskTime((*block * self.profile.blocks, *alone))
        return self._with_sums(task, self.trained_layer_elements)

    def sum_seconds(self, count: float) -> float:
        """Seconds in which `count` gradients are added to those of earlier microbatches."""
        speed = self.hardware.memory_bandwidth * self.efficiency.memory
        return 3 * WIDE * count / speed

    @property
    def layer_again(self) -> tuple[TaskSegment, ...]:
        """A layer's forward as its backward computes it again: without the last sum.

        Nor does it need what shared experts make, whose backward computes their forward itself.
        """
        if self.remat == "none":
            return ()
        if self.remat == "full":
            return self.layer_forward
        compute = self.block_seconds - self.of_experts / self.profile.blocks
        blocks = (*(self._forward_block(compute) * self.profile.blocks)[:-1], TaskSegment(compute))
        return (*blocks, *self._layer_collectives)
