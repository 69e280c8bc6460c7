"""The gains of MegaScale's techniques, one after the other, predicted and as published.

Jiang et al., "MegaScale: scaling large language model training to more than 10,000 GPUs" (arXiv
2402.15627), the ablation of a 175B decoder on 256 GPUs. Every row has all techniques of the rows
before it. The step that they change is Megatron-LM's under this project's cost model
(`benchmarks.systems.chain`), as in the paper; a last row is this project's own step with all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from benchmarks.systems.chain import LayerChain, decoder_alone, run_megatron
from mllm_jax.config.configured_step import build_workload, on_platform
from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config
from mllm_jax.plan.prediction import model_step_flops
from mllm_jax.plan.simulate import TimeVariation, simulate_step
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from sharding.exchange_kinds import OverlapKind

COLUMNS = ("technique", "MFU", "gain", "published", "why they differ")
#: Share of a row that a token sees through the window; MegaScale's window is not published.
WINDOW = 0.5
#: Batches of LAMB for each of AdamW.
LARGER = 3
#: Spread of the work of microbatches that nothing balances: of the logarithm.
SPREAD = 0.1


@dataclass(frozen=True)
class AblatedStep:
    """A step of Megatron-LM, and the techniques that it has.

    Attributes:
        overlap: collectives of layers that overlap with compute.
        sends: whether stages send and receive during compute.
        by_chunk: whether parameters are gathered and gradients scattered chunk by chunk.
    """

    config: ExperimentConfig
    hardware: Hardware
    overlap: frozenset[OverlapKind] = frozenset()
    sends: bool = False
    by_chunk: bool = False

    @cached_property
    def workload(self) -> Workload:
        """The work of a step."""
        return build_workload(on_platform(self.config, self.hardware.platform))

    @cached_property
    def strategy(self) -> Strategy:
        """The decoder's plan and chunks, which encoders share."""
        config = self.config
        return Strategy(
            {config.model.backbone: config.parallel.backbone_plan},
            config.train.accumulate,
            {config.model.backbone: config.backbone_chunks},
            config.model.remat,
            co_issue=False,
            overlap=self.overlap,
        )

    @cached_property
    def seconds(self) -> float:
        """Seconds of the step; encoders are in the first stage."""
        arguments = self.workload, self.strategy, self.hardware
        chain = LayerChain(*arguments, overlapped=self.sends, by_chunk=self.by_chunk)
        baseline = run_megatron(chain) if self.config.model.others else decoder_alone(chain)
        return baseline.simulation.makespan

    def with_backbone(self, **values: Any) -> AblatedStep:
        """The same with other values of the backbone."""
        return self.with_values(self.config.model_key(self.config.model.backbone), **values)

    def with_values(self, section: str, **values: Any) -> AblatedStep:
        """The same with other values in a section of its configuration, e.g. `data.budgets`."""
        values_of_config = self.config.model_dump(mode="json")
        node = values_of_config
        for part in section.split("."):
            node = node[part]
        node.update(values)
        return replace(self, config=resolve_config(values_of_config, source="simulate --ablate"))


@dataclass(frozen=True)
class AblatedTechnique:
    """A row of the paper's table.

    Attributes:
        published: points of MFU that the paper gains.
        why: why the prediction differs.
        change: adds the technique to a setting; None: the cost model has it in every row.
    """

    name: str
    published: float | None
    why: str
    change: Callable[[AblatedStep], AblatedStep] | None = None


def _set_window(setting: AblatedStep) -> AblatedStep:
    window = round(setting.config.data.budgets["tokens"] * WINDOW)
    return setting.with_backbone(window=window)


def _enlarge_batch(setting: AblatedStep) -> AblatedStep:
    rows = setting.config.train.accumulate * LARGER
    return setting.with_values("train", accumulate=rows, optimizer={"kind": "lamb"})


#: In the order of the paper's table.
TECHNIQUES = (
    AblatedTechnique(
        "parallel block",
        4.6,
        "one gather and one scatter in place of two are counted; fewer and larger kernels are not",
        lambda setting: setting.with_backbone(parallel_block=True),
    ),
    AblatedTechnique(
        "sliding window",
        1.0,
        f"the paper's window is unknown, {WINDOW:.0%} of a row here",
        _set_window,
    ),
    AblatedTechnique(
        "tensor-parallel overlap",
        2.2,
        "a ring hides rows under all products here; kernels in blocks are as fast as whole ones",
        lambda setting: replace(setting, overlap=frozenset({"tensor"})),
    ),
    AblatedTechnique(
        "pipeline overlap",
        2.5,
        "sends of two transfers in turn were calibrated by this row, for the paper's baseline",
        lambda setting: replace(setting, sends=True),
    ),
    AblatedTechnique(
        "data-parallel overlap",
        1.5,
        "all but a chunk's gather and scatter is hidden here, as if the network had nothing else",
        lambda setting: replace(setting, by_chunk=True),
    ),
    AblatedTechnique(
        "efficient operators",
        1.7,
        "every row here has fused attention, norms and activations",
    ),
    AblatedTechnique(
        "data pipeline, problem code",
        1.1,
        "a simulated step waits neither for data nor for the host",
    ),
    AblatedTechnique(
        f"LAMB, batch x {LARGER}",
        3.0,
        "warm-up, cool-down and the optimizer weigh less; a larger batch costs nothing here",
        _enlarge_batch,
    ),
)


@dataclass(frozen=True)
class AblationRow:
    """A row of the table; MFU in percent, gains in points of it."""

    name: str
    mfu: float
    gain: float | None
    published: float | None
    why: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as it is printed."""
        gain, published = (
            "" if percent is None else f"{percent:+.1f}" for percent in (self.gain, self.published)
        )
        return self.name, f"{self.mfu:.1f}", gain, published, self.why


@dataclass(frozen=True)
class AblationTable:
    """The table, with the published figure of the baseline."""

    hardware: Hardware
    rows: tuple[AblationRow, ...] = field(default_factory=tuple)

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        return [
            f"MFU in % on {self.hardware.name}, by the FLOPs of the model of the first row",
            "published: MegaScale, arXiv 2402.15627, 175B on 256 A100: 47.7 % before, 65.3 % after",
        ]

    def to_json(self) -> dict[str, Any]:
        """`{"hardware", "rows": [{"name", "mfu", "gain", "published", "why"}]}`."""
        rows = [vars(row) for row in self.rows]
        return {"hardware": self.hardware.name, "rows": rows}


def ablate_techniques(config: ExperimentConfig, hardware: Hardware) -> AblationTable:
    """The table for `config` on `hardware`, which need not be here.

    Raises:
        ConfigError: the configuration has a technique already, or no pipeline.
    """
    _check_config(config)
    return AblationTable(hardware, tuple(_list_rows(AblatedStep(config, hardware))))


def _check_config(config: ExperimentConfig) -> None:
    decoder, problems = config.model.backbone_config, []
    in_use = {"parallel_block": decoder.parallel_block, "window": decoder.window is not None}
    for key in (key for key, there in in_use.items() if there):
        where = config.model_key(config.model.backbone)
        problems.append(f"{where}.{key}: is a row of the table; valid: leave it out")
    if config.train.optimizer.kind == "lamb":
        problems.append("train.optimizer.kind: lamb is a row of the table; valid: adamw, muon")
    if config.parallel.backbone_plan.stage == 1:
        problems.append(f"{config.stage_key}: 1 has no pipeline to overlap; valid: 2 or more")
    if problems:
        raise ConfigError("simulate --ablate", problems)


def _list_rows(base: AblatedStep) -> Iterator[AblationRow]:
    setting = base
    mfu = _model_utilisation(base, setting, setting.seconds)
    yield AblationRow("Megatron-LM", mfu, None, None, "47.7 % published; its settings are assumed")
    for technique in TECHNIQUES:
        before = mfu
        if technique.change is not None:
            setting = technique.change(setting)
            mfu = _model_utilisation(base, setting, setting.seconds)
        yield AblationRow(technique.name, mfu, mfu - before, technique.published, technique.why)
    yield from _own_rows(base, setting, mfu)


def _own_rows(base: AblatedStep, last: AblatedStep, mfu: float) -> Iterator[AblationRow]:
    """This project's step with the techniques that it has, and what uneven work would cost it."""
    even = _model_utilisation(base, last, simulate_step(last.config, last.hardware).makespan)
    why = (
        "stages meet in every tick, and sums of tensor ranks are float32; no rings and no gathers "
        "by chunk"
    )
    yield AblationRow("this project's step", even, even - mfu, None, why)
    vary = TimeVariation({}, SPREAD, last.config.train.seed)
    uneven = _model_utilisation(
        base, last, simulate_step(last.config, last.hardware, vary).makespan
    )
    why = (
        f"microbatches whose work varies by {SPREAD:.0%} (log-normal) are what balancing evens out"
    )
    yield AblationRow("without balance", uneven, uneven - even, None, why)


def _model_utilisation(base: AblatedStep, setting: AblatedStep, seconds: float) -> float:
    """MFU in percent, by the FLOPs of the base's model; a larger batch has as many more of them."""
    batches = setting.config.train.accumulate / base.config.train.accumulate
    flops = model_step_flops(base.workload) * batches
    devices = setting.config.parallel.devices
    return 100 * flops / (setting.hardware.peak_flops(base.workload.dtype) * devices * seconds)
