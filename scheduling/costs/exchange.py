"""Bytes and seconds of the exchanges of encoder outputs, and which of them is the cheapest.

The ranks of a block take part in an exchange (`sharding.exchange`): n of them, each with outputs of
o bytes, and tokens of the backbone that take t bytes. At most m = min(o, t) bytes of one are
merged. A gather or a scatter takes the seconds of `Hardware.digits_seconds` for the bytes of the
full array, an all-to-all those of `Hardware.exchange_seconds` for the bytes that one rank sends:

| exchange | bytes |
|---|---|
| `gather` | n o |
| `reduce_scatter` | n t |
| `all_to_all`, ragged | m |
| `all_to_all`, padded as on CPUs | n m |

and each rank also reads what it writes into buffers, at the memory's speed. Forward and
backward move the same bytes and write others: seconds are the mean of both.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from sharding.exchange_kinds import Exchange, possible_exchanges
from sharding.numbering import Span, spans_by_axis


@dataclass(frozen=True)
class OutputExchange:
    """What the ranks of a block exchange for one microbatch of a bucket.

    Attributes:
        devices: number of ranks of the block.
        spans: digits of the ranks' numbers, see `Hardware.digits_seconds`.
        outputs: bytes of the outputs of one rank.
        tokens: bytes of the backbone's positions on one rank.
        separate_media: whether media are in other rows than their samples.
    """

    devices: int
    spans: tuple[Span, ...]
    outputs: float
    tokens: float
    separate_media: bool

    @classmethod
    def of_bucket(cls, workload: Workload, strategy: Strategy, name: str) -> OutputExchange:
        """What is exchanged for bucket `name`."""
        backbone, plan = workload.backbone, strategy.plans[name]
        names = workload.backbone_name, name
        rows, source_rows = (workload.rows_of(n, strategy.microbatches) for n in names)
        inside = strategy.backbone.devices // strategy.backbone.stage
        width = backbone.width * backbone.input_activations * workload.element_bytes
        reduction = workload.modules[name].reduction
        spans = _stage_spans(strategy) if workload.separate_media else _block_spans(strategy, name)
        devices = inside
        if not workload.separate_media:
            devices = max(plan.sequence, strategy.backbone.sequence)
        return cls(
            devices,
            spans,
            source_rows * workload.positions[name] / reduction / inside * width,
            rows * workload.positions[workload.backbone_name] / inside * width,
            workload.separate_media,
        )

    def moved_bytes(self, exchange: Exchange, ragged: bool) -> float:
        """Bytes of the full array; of an all-to-all, those that a rank sends.

        Args:
            ragged: whether an all-to-all is ragged, as it is on all platforms but CPUs.
        """
        merged, count = min(self.outputs, self.tokens), self.devices
        return {
            "all_to_all": merged if ragged else count * merged,
            "gather": count * self.outputs,
            "reduce_scatter": count * self.tokens,
        }[exchange]

    def written_bytes(self, exchange: Exchange, ragged: bool) -> float:
        """Bytes that a rank writes into buffers, the mean of forward and backward."""
        outputs, tokens, count = self.outputs, self.tokens, self.devices
        received = outputs + min(tokens, count * outputs) / 2 + tokens / 2
        padded = count * min(outputs, tokens) + (outputs + tokens) / 2
        return {
            "all_to_all": received if ragged else padded,
            "gather": (tokens + count * outputs) / 2,
            "reduce_scatter": (count * tokens + outputs) / 2,
        }[exchange]

    def exchange_seconds(self, exchange: Exchange, hardware: Hardware) -> float:
        """Seconds of an exchange, or of its backward; a rank alone has nothing to exchange."""
        if self.devices == 1:
            return 0.0
        ragged = hardware.platform != "cpu"
        speed = hardware.memory_bandwidth * hardware.efficiency.memory
        straight = exchange == "all_to_all"
        time = hardware.exchange_seconds if straight else hardware.digits_seconds
        moving = time(self.moved_bytes(exchange, ragged), self.spans)
        return moving + 2 * self.written_bytes(exchange, ragged) / speed

    def predicted_seconds(self, hardware: Hardware) -> dict[Exchange, float]:
        """Seconds of all exchanges that are possible."""
        return {
            name: self.exchange_seconds(name, hardware)
            for name in possible_exchanges(self.separate_media)
        }

    def find_cheapest(self, hardware: Hardware) -> Exchange:
        """The exchange of the fewest seconds."""
        predictions = self.predicted_seconds(hardware)
        return min(predictions, key=lambda name: predictions[name])

    def find_leanest(self, ragged: bool) -> Exchange:
        """The exchange that moves, and then writes, the fewest bytes, for unknown hardware."""
        kinds = possible_exchanges(self.separate_media)
        return min(
            kinds,
            key=lambda name: (self.moved_bytes(name, ragged), self.written_bytes(name, ragged)),
        )


def exchange_of(
    workload: Workload, strategy: Strategy, name: str, hardware: Hardware | None, platform: str
) -> Exchange:
    """The exchange of bucket `name`: the one that is asked for, or else the cheapest.

    Args:
        hardware: hardware whose seconds count; None: bytes count.
        platform: platform of the devices, if `hardware` is None.
    """
    if workload.exchange != "auto":
        return workload.exchange
    moved = OutputExchange.of_bucket(workload, strategy, name)
    return (
        moved.find_leanest(platform != "cpu") if hardware is None else moved.find_cheapest(hardware)
    )


def _stage_spans(strategy: Strategy) -> tuple[Span, ...]:
    """Digits of all ranks of a stage."""
    backbone_spans = spans_by_axis(strategy.backbone, strategy.backbone)
    return tuple(
        span for axis, spans in backbone_spans.items() if axis != "stage" for span in spans
    )


def _block_spans(strategy: Strategy, name: str) -> tuple[Span, ...]:
    """Digits of the ranks that share the larger share of rows."""
    plans = strategy.plans[name], strategy.backbone
    spans = spans_by_axis(max(plans, key=lambda plan: plan.sequence), strategy.backbone)
    return (*spans["context"], *spans["tensor"])
