"""Rows of modules as pytrees: whoever traces `ModuleRows` imports the type from here."""

from __future__ import annotations

import jax

from data.batch import NEXT_TOKEN, ModuleRows, NextTokenTargets, SampleTargets

__all__ = ["NEXT_TOKEN", "ModuleRows", "NextTokenTargets", "SampleTargets"]

for _kind in (NextTokenTargets, SampleTargets, ModuleRows):
    jax.tree_util.register_dataclass(_kind)
