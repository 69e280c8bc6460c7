"""Graphs of modules, groups of devices and plans, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.batch import PackedBatch
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import BACKBONE
from sharding.plan import DeviceNumbers, ParallelPlan

ROWS, TOKENS, DEVICES = 4, 32, 4
_WIDTHS = {"layers": 1, "d_model": 16, "heads": 8, "head_dim": 4, "d_ff": 16}
_IMAGE = {**_WIDTHS, "patch": [2, 2], "channels": 1, "grid": [2, 4]}
#: Encoders of every medium: those with a class token in their outputs, without, and of sounds.
ENCODERS: dict[str, dict[str, Any]] = {
    "clip": {**_IMAGE, "family": "clip", "class_token": "kept"},
    "siglip": {**_IMAGE, "family": "siglip"},
    "audio": {**_WIDTHS, "family": "whisper", "mels": 4},
}
_LINEAR = {"kind": "linear", "bias": False}


@dataclass(frozen=True)
class DrawnCase:
    """A model whose modules are in groups.

    Attributes:
        model: the model.
        plans: plan of every module.
        numbers: devices of every module.
        order: seed of the order of media over rows; None: each in the row of its sample.
        microbatches: number of microbatches of the step.
    """

    model: ModelConfig
    plans: Mapping[str, ParallelPlan]
    numbers: Mapping[str, DeviceNumbers]
    order: int | None
    microbatches: int

    def __str__(self) -> str:
        """Edges, and the plan and devices of every module."""
        graph = self.model.graph
        edges = ", ".join(f"{edge.source}.{edge.select} -> {edge.target}" for edge in graph.edges)
        where = "; ".join(f"{n} {self.plans[n]} on {self.numbers[n]}" for n in self.plans)
        return f"{edges}; {where}; order {self.order}; {self.microbatches} microbatches"

    def batches(self) -> list[PackedBatch]:
        """The microbatches of a step."""
        budgets = dict.fromkeys(self.model.encoders, TOKENS)
        return [
            batch if self.order is None else scatter_rows(batch, self.model, self.order)
            for batch in (
                synthetic_batch(self.model, ROWS, TOKENS, budgets, seed)
                for seed in range(self.microbatches)
            )
        ]


def draw_case(seed: int) -> DrawnCase:
    """The case of a seed, the same on every run."""
    rng = random.Random(seed)
    model = _draw_model(rng)
    numbers = _draw_devices(rng, [BACKBONE, *model.encoders])
    plans = {name: _draw_plan(rng, len(numbers[name])) for name in numbers}
    order = rng.choice([None, rng.randrange(100)])
    return DrawnCase(model, plans, numbers, order, rng.randint(1, 2))


# ---- the graph -----------------------------------------------------------------------------------


def _draw_model(rng: random.Random) -> ModelConfig:
    names = rng.sample(sorted(ENCODERS), rng.randint(1, len(ENCODERS)))
    objectives, edges = dict[str, Any](), list[dict[str, Any]]()

    def add(target: str, objective: dict[str, Any], *ends: dict[str, Any]) -> None:
        objectives[target] = objective | {"weight": rng.choice([0.5, 1.0])}
        edges.extend(end | {"target": target} for end in ends)

    for source in [BACKBONE, *names]:
        if rng.random() < 0.5:
            add(f"of_{source}", _draw_head(rng), _draw_end(rng, source))
    for first, second in zip([BACKBONE, *names], [*names, BACKBONE], strict=True):
        if rng.random() < 0.5:
            pair = {"kind": "contrastive", "dimensions": 6}
            ends = _draw_end(rng, first), _draw_end(rng, second)
            add(f"{first}_{second}", pair, *ends)
    sources = {edge["source"] for edge in edges}
    if BACKBONE not in sources or rng.random() < 0.5:
        objectives["next_token"] = {"kind": "next_token"}
    merged = [name for name in names if name not in sources or rng.random() < 0.5]
    edges += [{"source": name, "target": BACKBONE} for name in merged if name in sources]
    return ModelConfig.model_validate(
        {
            "decoder": _draw_backbone(rng),
            "encoders": {name: ENCODERS[name] | _connector(name in merged) for name in names},
            "objectives": objectives,
            "edges": edges,
            "dtype": "float32",
            "attention": "reference",
            "remat": rng.choice(["none", "layer"]),
            "loss_chunk": 16,
        }
    )


def _draw_backbone(rng: random.Random) -> dict[str, Any]:
    family = rng.choice(["gpt", "llama"])
    kv_heads = 8 if family == "gpt" else 2
    more = {"family": family, "kv_heads": kv_heads, "vocab": 31, "max_positions": TOKENS}
    return {**_WIDTHS, **more}


def _connector(merged: bool) -> dict[str, Any]:
    return {"connector": {"hidden": 16}} if merged else {}


def _draw_head(rng: random.Random) -> dict[str, Any]:
    kinds = {"kind": "classification", "classes": 3}, {"kind": "regression", "values": 2}
    return dict(rng.choice(kinds))


def _draw_end(rng: random.Random, source: str) -> dict[str, Any]:
    """The beginning of an edge into an objective of samples."""
    selects = {BACKBONE: ["last", "mean"], "clip": ["class_token", "mean"]}.get(source, ["mean"])
    end = {"source": source, "select": rng.choice(selects), "norm": rng.random() < 0.5}
    return end | ({"connector": _LINEAR} if rng.random() < 0.5 else {})


# ---- devices and plans ---------------------------------------------------------------------------


def _draw_devices(rng: random.Random, modules: Sequence[str]) -> dict[str, DeviceNumbers]:
    """Two or three groups, on subsets of the devices or on slices of each device."""
    count = min(rng.randint(2, 3), len(modules))
    groups = [*range(count), *(rng.randrange(count) for _ in modules[count:])]
    rng.shuffle(groups)
    # Of two devices, two slices each, or of subsets of four.
    slices: list[list[DeviceNumbers]] = [[(0, 2), (1, 3)], [(0,), (1,), (2,)]]
    subsets: list[list[DeviceNumbers]] = [[(2, 3), (0, 1)], [(1,), (2, 3), (0,)]]
    places = rng.choice([slices, subsets])[count - 2]
    return {name: places[group] for name, group in zip(modules, groups, strict=True)}


def _draw_plan(rng: random.Random, devices: int) -> ParallelPlan:
    degree = rng.choice(["data", "fsdp", "tensor", "context"])
    return ParallelPlan(**{degree: devices})
