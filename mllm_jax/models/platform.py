"""The platform that a computation will run on, which may not be this process's."""

from __future__ import annotations

import jax


def traced_platform() -> str:
    """`cpu`, `gpu` or `tpu`: the platform of the mesh of the traced `shard_map`, if there is one.

    Outside of one it is this process's. They differ where a program is compiled ahead of time.
    """
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform
