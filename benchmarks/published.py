"""Steps that papers have measured, and the cost model's predictions.

No published step is fitted. Which constants come from which published figure is in
docs/measurements/published.md, and every such figure is marked as `calibrated` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from benchmarks.pipeline import PrintLine, Row
from benchmarks.systems.chain import (
    BaselineStep,
    LayerChain,
    decoder_alone,
    run_balanced,
    run_megatron,
)
from benchmarks.systems.optimus import OptimusStep, run_optimus
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import model_utilisation
from mllm_jax.plan.simulate import simulate_step
from scheduling.costs.strategy import Strategy
from scheduling.simulate.simulation import IDLE_KINDS, Simulation

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
#: Optimus' figures at 1536 and 3072 GPUs: seconds of the three ways, and shares hidden.
OPTIMUS: Mapping[str, Mapping[str, float]] = {
    "3072": {"megatron": 5.91, "balanced": 5.87, "optimus": 4.87, "coarse": 0.687, "fine": 0.85},
    "2048": {},
    "1536": {"megatron": 10.65, "balanced": 10.43, "optimus": 9.80, "coarse": 0.343, "fine": 0.575},
}
#: A production step of Optimus' authors, of 5.12 s: seconds in which devices are idle.
IDLE: Mapping[str, float] = {
    "gather": 0.167,
    "scatter": 0.458,
    "warm-up": 0.291,
    "cool-down": 0.471,
    "other": 0.445,
    "tensor": 0.585,
}
#: Which of them constants are calibrated by.
CALIBRATED = {
    ("optimus 3072", "encoders hidden, coarse"),
    ("optimus 1536", "encoders hidden, fine"),
    ("optimus 3072", "seconds of a ViT-22B layer, forward"),
    ("optimus 3072", "seconds of a ViT-22B layer, backward"),
    ("production", "idle seconds: gather"),
    ("production", "idle seconds: scatter"),
    ("megascale 256", "speed gained by overlapped sends"),
}


def bench_published(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Every published figure that can be predicted, and how far off that is.

    `off` is a share of the published figure, None where there is none. A figure that a constant is
    calibrated by is no prediction, and says so.

    Args:
        config: not used; every setting has a configuration of its own.
        print_line: prints a line of progress.
    """
    rows = []
    for setting in (_predict_optimus, _predict_megascale, _predict_orchmllm):
        for name, what, published, predicted in setting(print_line):
            rows.append(_make_row(name, what, published, predicted))
    return rows


def _make_row(name: str, what: str, published: float | None, predicted: float) -> Row:
    off = None if published is None else predicted / published - 1
    return {
        "setting": name,
        "figure": what,
        "published": published,
        "predicted": predicted,
        "off": off,
        "calibrated": "yes" if (name, what) in CALIBRATED else "",
    }


#: Setting, figure, its published value or None, and the predicted one.
Figure = tuple[str, str, float | None, float]


class PublishedSetting:
    """A configuration on its hardware.

    Args:
        path: path of the configuration, in configs/.
        hardware: name of it.
    """

    def __init__(self, path: str, hardware: str) -> None:
        self.config = load_config(CONFIGS / path, planned=False)
        self.planner = PlanSearch(self.config, load_hardware(hardware), hardware)

    @cached_property
    def chain(self) -> LayerChain:
        """The chain of all its modules under the decoder's plan."""
        config = self.config
        strategy = Strategy(
            {config.model.backbone: config.parallel.backbone_plan},
            config.train.accumulate,
            {config.model.backbone: config.backbone_chunks},
            config.model.remat,
            co_issue=False,
        )
        return LayerChain(self.planner.plain_workload, strategy, self.planner.hardware)

    @cached_property
    def alone(self) -> BaselineStep:
        """The decoder's step."""
        return decoder_alone(self.chain)

    @cached_property
    def optimus(self) -> OptimusStep:
        """Optimus' step."""
        room = self.planner.hardware.usable_memory - self.alone.memory
        return run_optimus(self.chain, self.alone.simulation, room)

    def mfu_of(self, seconds: float) -> float:
        """MFU of a step of `seconds`, recomputation not counted."""
        chain = self.chain
        return model_utilisation(self.planner, chain.strategy, seconds, chain.workload)[0]


def _predict_optimus(print_line: PrintLine) -> Iterator[Figure]:
    """Strong scaling of ViT-22B + GPT-175B (arXiv 2408.03505)."""
    for devices, published in OPTIMUS.items():
        name = f"optimus {devices}"
        print_line(f"ViT-22B + GPT-175B on {devices} GPUs")
        setting = PublishedSetting(f"optimus/vit22b_gpt175b_{devices}.yaml", "h800")
        first = run_megatron(setting.chain).simulation
        yield name, "seconds, megatron", published.get("megatron"), first.makespan
        even = run_balanced(setting.chain).simulation.makespan
        yield name, "seconds, balanced", published.get("balanced"), even
        yield name, "seconds, optimus", published.get("optimus"), setting.optimus.seconds
        yield name, "encoders hidden, coarse", published.get("coarse"), setting.optimus.coarse
        yield name, "encoders hidden, fine", published.get("fine"), setting.optimus.hidden
        if devices == "3072":
            yield from _predict_parts(name, setting, first)


def _predict_parts(name: str, setting: PublishedSetting, first: Simulation) -> Iterator[Figure]:
    """Times of a step of the largest setting, by part."""
    vision = setting.chain.timings["vision"]
    forward = vision.forward_time(1).seconds
    yield name, "seconds of a ViT-22B layer, forward", 1.4e-3, forward
    backward = vision.backward_time(1).seconds - forward
    yield name, "seconds of a ViT-22B layer, backward", 2.0e-3, backward
    work = setting.chain.workload
    yield name, "PFLOP of a step", 5120, 4 * sum(map(work.forward_flops, work.modules)) / 1e15
    for kind in IDLE_KINDS:
        yield "production", f"idle seconds: {kind}", IDLE[kind], first.idle[kind]
    yield "production", "seconds of compute", 5.12 - sum(IDLE.values()), first.compute


def _predict_megascale(print_line: PrintLine) -> Iterator[Figure]:
    """GPT-175B under Megatron-LM (arXiv 2402.15627)."""
    for devices, published in (("256", 0.477), ("12288", 0.552 / 1.34)):
        print_line(f"GPT-175B on {devices} GPUs")
        setting = PublishedSetting(f"megascale/gpt175b_{devices}.yaml", "a100")
        mfu = setting.mfu_of(setting.alone.simulation.makespan)
        yield f"megascale {devices}", "MFU, megatron", published, mfu
        if devices == "256":
            free = decoder_alone(replace(setting.chain, overlapped=True)).simulation.makespan
            gained = setting.alone.simulation.makespan / free - 1
            # 47.7 % MFU after three other changes, 55.5 %, and with this one 58.0 %.
            yield "megascale 256", "speed gained by overlapped sends", 58.0 / 55.5 - 1, gained


def _predict_orchmllm(print_line: PrintLine) -> Iterator[Figure]:
    """MLLM-84B on 2560 GPUs (arXiv 2503.23830), balanced."""
    print_line("MLLM-84B on 2560 GPUs")
    setting = PublishedSetting("orchmllm/84b.yaml", "h100")
    simulated = simulate_step(setting.config, setting.planner.hardware)
    yield "orchmllm 2560", "MFU", 0.416, setting.mfu_of(simulated.makespan)
