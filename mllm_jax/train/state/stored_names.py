"""Names of parameters in files: a parameter is called by its path in the configuration.

In memory a model's parameters are a tree by module. Checkpoints, snapshots and messages call a
module as `model:` does, and so do the moments of an optimizer, which lie like its parameters::

    in memory   {"decoder": {..}, "vision": {..}, "audio": {..}}
    in files    {"decoder": {..}, "encoders": {"vision": {..}, "audio": {..}}}

or `{"modules": {"language": {..}, "vision": {..}}}` of a model that is no short form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax

from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import BACKBONE, module_key, module_values, sections_of_modules


@dataclass(frozen=True)
class StoredNames:
    """The names of a model's modules in files.

    Attributes:
        backbone: name of the module that has its own name in files; none renames nothing.
        others: names of all other modules.
    """

    backbone: str = ""
    others: frozenset[str] = frozenset()

    @classmethod
    def from_model(cls, model: ModelConfig) -> StoredNames:
        """The names of the modules of `model`."""
        return cls(model.backbone, frozenset(model.modules) - {model.backbone})

    def on_disk(self, name: str) -> str:
        """The dotted name in files of a module or of its parts: `encoders.vision.norm`."""
        return module_key(name, self.backbone)

    def of_disk(self, stored: str) -> str:
        """The inverse of `on_disk`."""
        section, _, name = stored.partition(".")
        return stored if section == self.backbone == BACKBONE else name

    def to_stored(self, state: Any) -> Any:
        """A state with every tree by module, of parameters or of moments, as in files."""
        return jax.tree.map(
            lambda node: self._nest_modules(node) if self._is_flat(node) else node,
            state,
            is_leaf=self._is_flat,
        )

    def in_memory(self, state: Any) -> Any:
        """The inverse of `stored`."""
        return jax.tree.map(
            lambda node: self._flatten_modules(node) if self._is_nested(node) else node,
            state,
            is_leaf=self._is_nested,
        )

    def _nest_modules(self, modules: Mapping[str, Any]) -> dict[str, Any]:
        sections = sections_of_modules(modules, self.backbone)
        # A model of one module has an empty section in files.
        return {key: trees for key, trees in sections.items() if trees or not self.others}

    def _flatten_modules(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        return module_values(stored, self.backbone)

    def _is_flat(self, node: Any) -> bool:
        return bool(self.backbone) and _is_tree_of(node, {self.backbone, *self.others})

    def _is_nested(self, node: Any) -> bool:
        sections = sections_of_modules({self.backbone: {}}, self.backbone)
        return bool(self.backbone) and _is_tree_of(node, {*sections})


def _is_tree_of(node: Any, names: set[str]) -> bool:
    """Whether a node is a mapping of some of these names to mappings."""
    if not isinstance(node, Mapping) or not node:
        return False
    return names >= {*node} and all(isinstance(subtree, Mapping) for subtree in node.values())
