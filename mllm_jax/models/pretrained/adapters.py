"""Adapters in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors`.

A linear layer of `[inputs, outputs]` that is called `model.layers.0.mlp.up_proj` in the modules of
the public implementation has two tensors, turned around as all released weights are::

    base_model.model.model.layers.0.mlp.up_proj.lora_A.weight    [rank, inputs]
    base_model.model.model.layers.0.mlp.up_proj.lora_B.weight    [outputs, rank]

Parameters that train in full are next to them under the names of the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mllm_jax.hf_format.configs import ADAPTER_CONFIG
from mllm_jax.hf_format.files import PretrainedError, StoredTensor, read_tensors
from mllm_jax.hf_format.release_format import ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import dense_kernel
from mllm_jax.layers.config.adapters import LoraAdapters
from mllm_jax.layers.config.linear import LinearLayer
from mllm_jax.layers.trainable import ADAPTERS

CONFIG, TENSORS = ADAPTER_CONFIG, "adapter_model.safetensors"
#: Before the names of modules in PEFT's files.
PREFIX = "base_model.model."
KERNEL, WEIGHT = ".kernel", ".weight"
_NAMES = ("lora_A", "lora_B")
#: End of the names of weights next to which an adapter is.
_BASE = ".base_layer.weight"
#: Settings of PEFT that change what adapters compute, and their values here. Other begins than
#: these, such as PiSSA, change the weights next to the adapters as PEFT loads them.
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "use_dora": (False, None),
    "fan_in_fan_out": (False, None),
    "bias": ("none", None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "lora_bias": (False, None),
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal"),
    "alora_invocation_tokens": (None,),
    "layer_replication": (None,),
    "use_qalora": (False, None),
    "use_bdlora": (None, False),
}
#: Advice for the refusal of a setting.
_ADVICE: Mapping[str, str] = {
    "init_lora_weights": ", as PEFT writes if it converts adapters to plain LoRA "
    "(path_initial_model_for_weight_conversion of save_pretrained)",
}


def adapter_rules(
    rules: Iterable[TensorRule], module: str, adapters: LoraAdapters
) -> Iterator[TensorRule]:
    """Rules of the adapters of a module.

    Args:
        rules: rules of the module's parameters.
        module: its name in the model, `"decoder"` or an encoder's.
    """
    layers = {layer.name: layer for layer in adapters.layers}
    for rule in rules:
        layer = layers.get(f"{module}.{rule.parameter.removesuffix(KERNEL)}")
        if layer is not None and rule.parameter.endswith(KERNEL):
            yield from _rules_of_matrices(rule, layer, adapters.rank)


def _rules_of_matrices(kernel: TensorRule, layer: LinearLayer, rank: int) -> Iterator[TensorRule]:
    """Rules of both matrices next to a kernel."""
    inputs, outputs = (tuple(size for _, size in dims) for dims in (layer.inputs, layer.outputs))
    ours = kernel.parameter.removesuffix(KERNEL)
    theirs = kernel.released.removesuffix(WEIGHT)
    forms = dense_kernel(inputs, (rank,)), dense_kernel((rank,), outputs)
    for adapter, name, form in zip(ADAPTERS, _NAMES, forms, strict=True):
        released = f"{theirs}.{name}{WEIGHT}"
        yield TensorRule(f"{ours}.{adapter}", released, form, kernel.layers, kernel.only_layers)


@dataclass(frozen=True)
class SavedAdapters:
    """A folder of adapters.

    Attributes:
        folder: the folder.
        values: `adapter_config.json`.
    """

    folder: Path
    values: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path) -> SavedAdapters:
        """The adapters of a folder.

        Raises:
            PretrainedError: the folder has none, or they compute something that is not known here.
        """
        path = folder / CONFIG
        if not path.exists():
            raise PretrainedError(
                f"train.lora.begin_with: {folder} has no {CONFIG}; valid: a folder of adapters in "
                "PEFT's format, or null"
            )
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PretrainedError(f"{path} cannot be read: {error}") from error
        if not isinstance(values, dict):
            raise PretrainedError(f"{path} holds no object")
        for key, valid in _FIXED.items():
            if values.get(key, valid[0]) not in valid:
                raise PretrainedError(
                    f"{path}: {key} {values[key]!r} is not supported; valid: {valid[0]!r}"
                    f"{_ADVICE.get(key, '')}"
                )
        return cls(folder, values)

    def check_scale(self, rank: int, scale: float) -> None:
        """Check that the adapters are of this rank, and count as much.

        Raises:
            PretrainedError: names what differs, and the valid values of `train.lora`.
        """
        rank_value, alpha = self.values.get("r"), self.values.get("lora_alpha")
        stabilized = bool(self.values.get("use_rslora", False))
        if (
            not isinstance(rank_value, int)
            or rank_value is True
            or not isinstance(alpha, int | float)
        ):
            raise PretrainedError(f"{self.folder / CONFIG} lacks numbers r and lora_alpha")
        if rank_value < 1:
            raise PretrainedError(f"{self.folder / CONFIG}: r {rank_value}; valid: at least 1")
        theirs = alpha / (rank_value**0.5 if stabilized else rank_value)
        if rank_value != rank or abs(theirs - scale) > 1e-6 * scale:
            raise PretrainedError(
                f"{self.folder} has adapters of rank {rank_value} that count {theirs:g}, not of "
                f"rank {rank} that count {scale:g}; valid: train.lora.rank {rank_value}, "
                f"train.lora.alpha {alpha:g}, train.lora.rank_stabilized {str(stabilized).lower()}"
            )

    @property
    def dropout(self) -> float:
        """Share of the adapters' inputs that their training left out."""
        return float(self.values.get("lora_dropout") or 0.0)

    @cached_property
    def _tensors(self) -> Mapping[str, StoredTensor]:
        return read_tensors(self.folder / TENSORS)

    def released_tensors(self, family: ReleaseFormat) -> dict[str, StoredTensor]:
        """Tensors under the names that they would have in a release of this form.

        PEFT stores the weights of a head that has an adapter as well: those are the release's.

        Raises:
            PretrainedError: the file is missing or damaged, or has other names than PEFT's.
        """
        for name in self._tensors:
            if not name.startswith(PREFIX):
                raise PretrainedError(
                    f"{self.folder / TENSORS} holds {name}; valid: names that begin with {PREFIX}"
                )
        return family.rename_tensors(
            {
                name.removeprefix(PREFIX): stored
                for name, stored in self._tensors.items()
                if not name.endswith(_BASE)
            }
        )
