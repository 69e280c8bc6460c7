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

from scheduling.costs.dispatch import Dispatched, Exposed
from scheduling.costs.hardware import Efficiency, Hardware
from scheduling.costs.times import Segment, TaskTime
from scheduling.costs.tower import Tower
from scheduling.costs.work import ExpertWork, ModulePart, TowerWork
from scheduling.costs.workload import WIDE
from sharding.exchange_kinds import OverlapKind
from sharding.numbering import Span, spans_by_axis


def _collectives(*seconds: float) -> tuple[Segment, ...]:
    """Segments of the collectives that take any time, each without compute."""
    return tuple(Segment(0.0, collective) for collective in seconds if collective)


class LayerTiming(Tower):
    """Times of one tower's layer on one device, for one microbatch.

    Attributes:
        workload, strategy, name: as of `Tower`.
        hardware: the device, and the links between devices.
    """

    hardware: Hardware

    # ---- collectives -----------------------------------------------------------------------------

    def group(self, data: float, axis: str) -> float:
        """Seconds of a gather, or scatter, of `data` bytes over one axis of the plan."""
        return self.hardware.digits_seconds(data, self._digits[axis])

    @cached_property
    def _digits(self) -> dict[str, tuple[Span, ...]]:
        """Which digits of a device's number are the ranks of an axis."""
        return spans_by_axis(self.plan, self.strategy.backbone)

    @property
    def gathered_rows(self) -> float:
        """Seconds in which a tensor group gathers its rows."""
        return self.group(self.activation / self.plan.context, "tensor")

    @property
    def scattered_sums(self) -> float:
        """Seconds in which a tensor group adds up partial sums, and scatters them."""
        sums = self.activation / self.workload.size * self.workload.sums
        return self.group(sums / self.plan.context, "tensor")

    @cached_property
    def exchanged_heads(self) -> float:
        """Seconds in which context ranks exchange heads for positions, before and after attention.

        Queries and outputs have all heads; keys and values are copied where they have fewer heads
        than there are ranks.
        """
        tower, plan = self.tower, self.plan
        queries = tower.heads // plan.tensor
        pairs = queries // gcd(tower.heads // tower.kv_heads, queries)
        copies = plan.context // gcd(pairs, plan.context)
        heads = 2 * queries + 2 * pairs * copies
        positions = self.rows * self.workload.positions[self.name] / tower.stride / plan.context
        data = positions * heads * tower.head_dim * self.workload.size
        return self.hardware.exchange_seconds(data, self._digits["context"])

    @cached_property
    def layer_gather(self) -> float:
        """Seconds in which fsdp ranks gather a layer's parameters, if they do so layer by layer."""
        return self._by_layer(self.workload.size * self.of_layer)

    @cached_property
    def layer_scatter(self) -> float:
        """Seconds in which fsdp ranks sum a layer's gradients, in float32, layer by layer."""
        return self._by_layer(WIDE * self.trained_of_layer)

    def _by_layer(self, data: float) -> float:
        return self.group(data, "fsdp") if self.strategy.by_layer else 0.0

    # ---- experts that ranks share ----------------------------------------------------------------

    @cached_property
    def dispatched(self) -> Dispatched | None:
        """What a layer with experts exchanges, if ranks share these."""
        if self.shared_experts is None:
            return None
        tokens = self.rows * self.workload.positions[self.name] / self.plan.context
        size = self.workload.size
        token = self.tower.width * size
        return Dispatched(self.shared_experts, tokens, token, size, self._digits["expert"])

    @property
    def copied(self) -> float:
        """Seconds in which tokens are copied for their experts, part of a layer's `compute`."""
        dispatched = self.dispatched
        speed = self.hardware.memory_bandwidth * self.efficiency.memory
        return 0.0 if dispatched is None else 4 * dispatched.copies * dispatched.token / speed

    @cached_property
    def of_experts(self) -> float:
        """Seconds of a layer's products with shared experts in a forward, the mean over layers."""
        experts = self.shared_experts
        return experts.share * self._of_experts(experts) if experts else 0.0

    def _of_experts(self, experts: ExpertWork) -> float:
        return self.products(ModulePart(TowerWork(experts.flops, 0), 0))

    @cached_property
    def _experts_forward(self) -> tuple[Segment, ...]:
        """The exchange of tokens in a layer's forward, the mean over layers."""
        if self.dispatched is None:
            return ()
        experts = self.dispatched.experts
        return self._exchange(
            self.dispatched.forward(self.hardware, self._of_experts(experts)), 0.0
        )

    @cached_property
    def _experts_backward(self) -> tuple[Segment, ...]:
        """The same in a backward, which computes the experts' forward again."""
        if self.dispatched is None:
            return ()
        products = (2 + self.full) * self._of_experts(self.dispatched.experts)
        return self._exchange(self.dispatched.backward(self.hardware, products), self.of_experts)

    def _exchange(self, exposed: Exposed, again: float) -> tuple[Segment, ...]:
        assert self.shared_experts is not None  # as the callers know
        share = self.shared_experts.share
        return (Segment(again + share * exposed.moving, share * exposed.collective),)

    # ---- compute ---------------------------------------------------------------------------------

    def compute(self, part: ModulePart, share: float = 1.0) -> float:
        """Seconds of a part's forward without collectives.

        Args:
            share: factor on the work, relative to an equal division of a row among its ranks.
        """
        length, efficiency, size = (
            self.workload.positions[self.name],
            self.efficiency,
            self.workload.size,
        )
        peak = self.hardware.peak(self.workload.dtype)
        pairs = part.work.quadratic * length**2 * self.workload.pairs.get(self.name, 1.0)
        for number, near in enumerate(part.work.near):
            pairs += near.flops * length**2 * self.workload.near_share(self.name, number)
        attention = pairs / (peak * efficiency.attention)
        moved = part.moved * size * length / self.tower.stride
        moving = moved / (self.hardware.memory_bandwidth * efficiency.memory)
        other = share * self.rows * (attention + moving) / self.plan.sequence
        return self.products(part, share) + other

    def products(self, part: ModulePart, share: float = 1.0) -> float:
        """Seconds of a part's products with parameters in a forward; arguments as of `compute`."""
        peak = self.hardware.peak(self.workload.dtype) * self.efficiency.matmul
        linear = part.work.linear * self.workload.positions[self.name] / peak
        return share * self.rows * linear / self.plan.sequence

    @property
    def efficiency(self) -> Efficiency:
        """Fractions of the hardware's peaks that are reached."""
        return self.hardware.efficiency

    @cached_property
    def block(self) -> float:
        """Seconds of compute of one block of a layer, forward."""
        full_block = self.compute(self.tower.layer) + self.compute(self._copied)
        return (full_block + self.efficiency.layer_seconds) / self.tower.blocks

    @cached_property
    def weights_block(self) -> float:
        """Seconds of the products that make a block's weight gradients, apart from its backward."""
        products = self.weights_share * self.products(self.tower.layer)
        products += self.products(self._copied) if self.full else 0.0
        return (products + self.efficiency.layer_seconds) / self.tower.blocks

    @property
    def _attention_apart(self) -> float:
        """Seconds that a block's backward takes for attention beyond its share of the products.

        Attention has no parameters, and a whole backward.
        """
        if self.full:
            return 0.0
        work = replace(self.tower.layer.work, linear=0.0)
        return (1 - self.weights_share) * self.compute(ModulePart(work, 0)) / self.tower.blocks

    @property
    def apart(self) -> bool:
        """Whether weight gradients are tasks apart from backwards."""
        return self.is_backbone and self.strategy.weights_apart

    @property
    def copies(self) -> int:
        """Tensor ranks that hold the same heads of keys and values."""
        return self.plan.tensor // gcd(self.tower.kv_heads, self.plan.tensor)

    @property
    def _copied(self) -> ModulePart:
        """Work of a rank on the copied heads of keys and values, beyond its share."""
        tower = self.tower
        linear = 4 * tower.width * tower.kv_heads * tower.head_dim / tower.stride
        return ModulePart(TowerWork((self.copies - 1) * linear, 0), 0)

    def hidden(self, collective: float, compute: float) -> float:
        """Seconds of a collective, or of moving bytes, that compute beside it does not hide."""
        overlaps = self.hardware.platform != "cpu"
        return max(0.0, collective - compute) if overlaps else collective

    # ---- a layer ---------------------------------------------------------------------------------

    @cached_property
    def layer_forward(self) -> tuple[Segment, ...]:
        """A layer's forward; the parameters of the next layer are gathered beside it."""
        block = self._forward_block(self.block)
        return (*block * self.tower.blocks, *self._beside_blocks, *self._experts_forward)

    def _forward_block(self, compute: float) -> tuple[Segment, Segment]:
        """A block of a forward: in rings, half of its products are beside each collective."""
        ring = compute / 2 if self.rings else 0.0
        gather = self.hidden(self.gathered_rows, ring)
        return Segment(0.0, gather), Segment(compute, self.hidden(self.scattered_sums, ring))

    @property
    def rings(self) -> bool:
        """Whether rows are gathered and sums scattered in rings, beside the products."""
        return "tensor" in self.strategy.overlap

    @property
    def _beside_blocks(self) -> tuple[Segment, ...]:
        """Collectives of a layer's forward that do not belong to a block."""
        ring = self.block / 2 if self.rings else 0.0
        used = min(self.gathered_rows, ring) + min(self.scattered_sums, ring)
        seconds = self.tower.blocks * (self.block - used)
        return _collectives(self.exchanged_heads, self._of_layers(["gather"], seconds))

    def _of_layers(self, kinds: Sequence[OverlapKind], compute: float) -> float:
        """Seconds of a layer's gather, scatter or both that compute does not hide.

        Collectives in the iteration of their own layer are taken for exposed.
        """
        times: dict[OverlapKind, float] = {
            "gather": self.layer_gather,
            "scatter": self.layer_scatter,
        }
        by_kind = {name: seconds for name, seconds in times.items() if name in kinds}
        overlapped = sum(by_kind[name] for name in by_kind if name in self.strategy.overlap)
        return sum(by_kind.values()) - overlapped + self.hidden(overlapped, compute)

    @cached_property
    def layer_backward(self) -> tuple[Segment, ...]:
        """A layer's backward without its recomputation.

        The backward of a frozen decoder computes gradients of inputs alone, and that beside
        adapters little else. Otherwise the gradients of a block's parameters are computed beside
        the scatter of the gradients of its input; the rest of the compute hides the gather of
        parameters.
        """
        if self.apart:
            return self._layer_inputs
        half = self.block  # one of the two products for each product of the forward
        compute = (1 + self.weights_share) * half + self._attention_apart
        rows, ring = self.gathered_rows, half / 2 if self.rings else 0.0
        weights = ring + half * self.weights_share
        block = (
            Segment(0.0, self.hidden(rows, ring)),
            Segment(compute, self.hidden(rows, weights)),
        )
        hidden = compute - min(rows, ring) - min(rows, weights if self.full else half)
        kinds: list[OverlapKind] = ["gather", "scatter"] if self.remat == "none" else ["scatter"]
        fsdp = self._of_layers(kinds, self.tower.blocks * hidden)
        alone = (*_collectives(self.exchanged_heads, fsdp), *self._experts_backward)
        task = TaskTime((*block * self.tower.blocks, *alone))
        return self._summed(task, self.trained_of_layer)

    def _summed(self, task: TaskTime, count: float) -> tuple[Segment, ...]:
        """A task of a layer, with the sums of its `count` gradients over microbatches.

        Accelerators add to the sums in the epilogue of the products that make the gradients.
        """
        return (*task.segments, Segment(self.hidden(self.summing(count), task.seconds)))

    @cached_property
    def _layer_inputs(self) -> tuple[Segment, ...]:
        """The backward of a layer whose weight gradients are apart: no product is beside another.

        A gather of parameters is beside the products.
        """
        compute = (1 + self.weights_share) * self.block - self.weights_block
        compute += self._attention_apart
        block = (Segment(0.0, self.gathered_rows), Segment(compute, self.gathered_rows))
        kinds: list[OverlapKind] = ["gather"] if self.remat == "none" else []
        fsdp = self._of_layers(kinds, self.tower.blocks * compute)
        alone = _collectives(self.exchanged_heads, fsdp)
        return (*block * self.tower.blocks, *alone, *self._experts_backward)

    @cached_property
    def layer_weights(self) -> tuple[Segment, ...]:
        """A layer's weight gradients apart from its backward, on rows that are gathered again.

        Those of shared experts need the exchange of the backward once more.
        """
        block = (Segment(0.0, self.gathered_rows), Segment(self.weights_block))
        fsdp = self._of_layers(["scatter"], self.tower.blocks * self.weights_block)
        alone = (*_collectives(fsdp), *self._experts_backward)
        task = TaskTime((*block * self.tower.blocks, *alone))
        return self._summed(task, self.trained_of_layer)

    def summing(self, count: float) -> float:
        """Seconds in which `count` gradients are added to those of earlier microbatches."""
        speed = self.hardware.memory_bandwidth * self.efficiency.memory
        return 3 * WIDE * count / speed

    @property
    def layer_again(self) -> tuple[Segment, ...]:
        """A layer's forward as its backward computes it again: without the last sum.

        Nor does it need what shared experts make, whose backward computes their forward itself.
        """
        if self.remat == "none":
            return ()
        if self.remat == "full":
            return self.layer_forward
        compute = self.block - self.of_experts / self.tower.blocks
        blocks = (*(self._forward_block(compute) * self.tower.blocks)[:-1], Segment(compute))
        return (*blocks, *self._beside_blocks)
