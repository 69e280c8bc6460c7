"""Graphs of `configs/slices/bench` in their sizes, and how their modules share a CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.config.run import DeviceGroupConfig
from mllm_jax.config.strict_yaml import read_yaml
from mllm_jax.layers.config.encoder import ImageEncoderConfig
from sharding.plan import ParallelPlan

#: The graphs with everything but their sizes, and the sizes.
FOLDER = Path(__file__).resolve().parents[1] / "configs" / "slices" / "bench"
SIZES = {
    name: {int(number): keys for number, keys in sizes.items()}
    for name, sizes in read_yaml(FOLDER / "sizes.yaml").items()
}
MODELS = ("towers", "mllm", "bound", "heads")
#: Widths of all modules, and positions of a row in a module's layers.
WIDTHS, SEQUENCES = tuple(SIZES["widths"]), tuple(SIZES["sequences"])


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
        module, row = SIZES["widths"][self.width], SIZES["sequences"][self.tokens]
        changes = _keys_below("model.decoder", module | {"kv_heads": module["heads"]})
        changes |= {"data.budgets.tokens": row["tokens"], "parallel.groups": {}}
        for name, encoder in load_config(path).model.others.items():
            is_image = isinstance(encoder, ImageEncoderConfig)
            keys = module | ({"grid": row["grid"]} if is_image else {})
            changes |= _keys_below(f"model.encoders.{name}", keys)
            changes[f"data.budgets.{name}"] = row["tokens" if is_image else "frames"]
        return load_config(path, [f"{key}={value}" for key, value in changes.items()])


def _keys_below(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{section}.{key}": value for key, value in values.items()}


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
