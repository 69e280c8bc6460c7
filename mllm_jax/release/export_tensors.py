"""The tensors of an exported run: their names, shapes and types, with adapters added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.trainable import ADAPTERS
from mllm_jax.release.run_export import RunExport
from mllm_jax.train.state.regroup import fit_to_shape

#: Adds to the kernel of a layer with this number the adapter next to it.
Added = Callable[[NDArray[Any], int], NDArray[Any]]
#: Types of exported tensors, as safetensors and as `config.json` name them.
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


@dataclass(frozen=True)
class ReleaseTensors:
    """The tensors of a run's release.

    Attributes:
        run_export: the run.
    """

    run_export: RunExport

    def tensor_specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of every tensor that is written."""
        specs = dict[str, tuple[tuple[int, ...], str]]()
        for name, rule in self.run_export.rules:
            specs |= {
                released: (rule.transform.released, self._type_of(name)) for released in rule.names
            }
        specs |= {
            name: (tensor.shape, self._type_of(name))
            for name, tensor in self.run_export.filler_tensors.items()
        }
        if self.run_export.source:
            stored = self.run_export.source.tensors
            specs |= {
                name: (stored[name].shape, stored[name].dtype) for name in self.run_export.unmapped
            }
        return specs

    def _type_of(self, name: str) -> str:
        """Layout of a parameter, by its dotted name in the checkpoint."""
        if self.run_export.dtype:
            return DTYPES[self.run_export.dtype]
        return self._released_types.get(name, self.common_type)

    @cached_property
    def common_type(self) -> str:
        """The type of the first released tensor, and of those that no release has.

        Without a release it is that of the activations in training.
        """
        types = (
            self._released_types[name]
            for name, _ in self.run_export.rules
            if name in self._released_types
        )
        trained = self.run_export.model.dtype_on(self.run_export.config["parallel"]["platform"])
        return (
            DTYPES[self.run_export.dtype] if self.run_export.dtype else next(types, DTYPES[trained])
        )

    @cached_property
    def _released_types(self) -> dict[str, str]:
        """Types of released tensors by the parameter that they became."""
        types: dict[str, str] = {}
        for part, release in self.run_export.releases.items():
            where = self.run_export.stored_names.on_disk(part.partition(".")[0])
            for rule in release.part_rules(part, self.run_export.model.backbone):
                if stored := release.tensors.get(rule.names[0]):
                    types[f"{where}.{rule.parameter}"] = stored.dtype
        return types

    def layer_tensors(self, name: str, rule: TensorRule) -> Iterator[NDArray[Any]]:
        """The tensors of a rule, in the order of its names, with adapters added."""
        leaf = self.run_export.saved[name]
        adapter = self._adapter_of(name, rule, leaf.ndim - len(rule.transform.shape))
        if rule.layers is None:
            leaf = fit_to_shape(leaf, rule.transform.shape)  # without padding of the vocabulary
        # The layers of a pipeline are in chunks, with padding after the last layer.
        layers = leaf.reshape(-1, *rule.transform.shape)
        for number in range(len(rule.names)):
            kernel = layers[number]
            yield rule.transform.to_released(adapter(kernel, number) if adapter else kernel)

    def _adapter_of(self, name: str, rule: TensorRule, stack: int) -> Added | None:
        """Of a kernel of this name; None if it has no adapter. `stack` dimensions count layers."""
        base, _, last = name.rpartition(".")
        names = [f"{base}.{adapter}" for adapter in ADAPTERS]
        if (
            self.run_export.lora is None
            or last != "kernel"
            or names[0] not in self.run_export.saved.names
        ):
            return None
        (a, b), scale, rank = (
            (self.run_export.saved[adapter] for adapter in names),
            self.run_export.lora.scale,
            self.run_export.lora.rank,
        )
        if rule.layers is None:
            b = fit_to_shape(b, (rank, *rule.transform.shape[1 - b.ndim :]))  # as the kernel is

        def add_adapter(kernel: NDArray[Any], number: int) -> NDArray[Any]:
            height = math.prod(b.shape[stack + 1 :])
            down, up = a.reshape(-1, kernel.size // height, rank), b.reshape(-1, rank, height)
            product = scale * (down[number] @ up[number])
            return kernel.astype(np.float32) + product.reshape(kernel.shape)

        return add_adapter
