"""Graphs of `configs/slices` in the sizes of `bench slices`, and how their modules share a CPU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.config.run import DeviceGroupConfig
from mllm_jax.layers.config.encoder import AudioEncoderConfig, EncoderConfig, ImageEncoderConfig
from sharding.plan import ParallelPlan

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "slices"
MODELS = ("towers", "mllm", "bound", "heads")
#: Layers of every module, widths of all modules, and positions of a row in a module's layers.
LAYERS, WIDTHS, SEQUENCES = 6, (64, 128, 256, 512), (64, 256)
#: Width of a head of attention, and how much wider an MLP is than its module.
HEAD, EXPANSION = 32, 4
#: Rows of a microbatch, and microbatches of a step.
ROWS, MICROBATCHES = 2, 4
#: Segments of a row at most.
SEGMENTS = 8


@dataclass(frozen=True)
class ModelSize:
    """A graph with modules of one size.

    Attributes:
        model: name of its configuration.
        width: width of all modules.
        tokens: positions of a row in the layers of every module.
    """

    model: str
    width: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.model} {self.width} x {self.tokens}"

    def load(self) -> ExperimentConfig:
        """The configuration of this size, one module at a time on one device."""
        path = FOLDER / f"{self.model}.yaml"
        config = load_config(path)
        model = config.model
        changes = _backbone_keys(self) | {"data.budgets.tokens": self.tokens}
        changes |= {"data.rows": ROWS, "data.budgets.segments": SEGMENTS}
        changes |= {"train.accumulate": MICROBATCHES, "parallel.groups": {}}
        # As groups do, all ways keep what backwards need.
        changes["train.gradient_caching"] = False
        for name, encoder in model.others.items():
            changes |= {f"model.encoders.{name}.{k}": v for k, v in self._keys_of(encoder).items()}
            changes[f"data.budgets.{name}"] = self.tokens * _stride(encoder)
        return load_config(path, [f"{key}={value}" for key, value in changes.items()])

    def _keys_of(self, encoder: EncoderConfig) -> dict[str, Any]:
        keys = _module_keys(self.width)
        if isinstance(encoder, ImageEncoderConfig):
            side = math.isqrt(self.tokens)
            keys["grid"] = [side, side]
        return keys


def _module_keys(width: int) -> dict[str, Any]:
    return {
        "layers": LAYERS,
        "d_model": width,
        "heads": width // HEAD,
        "d_ff": EXPANSION * width,
    }


def _backbone_keys(size: ModelSize) -> dict[str, Any]:
    keys = _module_keys(size.width) | {"kv_heads": size.width // HEAD}
    return {f"model.decoder.{key}": value for key, value in keys.items()}


def _stride(encoder: EncoderConfig) -> int:
    """Input positions for a position of the layers."""
    return encoder.stride if isinstance(encoder, AudioEncoderConfig) else 1


# ---- ways to use two cores -----------------------------------------------------------------------


def on_both_devices(config: ExperimentConfig) -> ExperimentConfig:
    """All modules on two devices, which divide the rows."""
    plans = dict.fromkeys(config.parallel.plans, ParallelPlan(data=2))
    return config.model_copy(update={"parallel": config.parallel.with_plans(plans)})


def pair_halves(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """Every way to give the modules two halves of a device; the backbone is in the first."""
    backbone, *others = config.parallel.plans
    for count in range(len(others)):
        for chosen in combinations(others, count):
            others_left = tuple(name for name in others if name not in chosen)
            groups = {
                "first": DeviceGroupConfig(modules=(backbone, *chosen), quota=0.5),
                "second": DeviceGroupConfig(modules=others_left, quota=0.5),
            }
            parallel = config.parallel.model_copy(update={"groups": groups})
            yield config.model_copy(update={"parallel": parallel})


def describe_groups(config: ExperimentConfig) -> str:
    """`decoder+audio | image`, or how many devices all modules share."""
    groups = config.parallel.groups.values()
    listed = " | ".join("+".join(group.modules) for group in groups)
    return listed or f"all modules on {config.parallel.devices} devices".replace("1 devices", "one")
