"""Rows of modules as pytrees: whoever traces `ModuleRows` imports the type from here."""

from __future__ import annotations

import jax

from data.batch import DECODER, NEXT_TOKEN, ModuleRows, NextTokenTargets

__all__ = ["DECODER", "NEXT_TOKEN", "ModuleRows", "NextTokenTargets"]

for _kind in (NextTokenTargets, ModuleRows):
    jax.tree_util.register_dataclass(_kind)
