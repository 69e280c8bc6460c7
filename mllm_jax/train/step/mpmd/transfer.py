"""Moves of arrays from the devices of one group to those of another."""

from __future__ import annotations

from typing import Any

import jax


def transfer_arrays(tree: Any, layouts: Any) -> Any:
    """A tree of arrays as `layouts` has them, on other devices or on the same.

    Args:
        tree: arrays.
        layouts: a layout for each array, or for each subtree.
    """
    return jax.device_put(tree, layouts)
