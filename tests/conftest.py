"""Eight emulated CPU devices and no leniency: settled before any test asks JAX for a device."""

from __future__ import annotations

import jax
from hypothesis import settings

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Compiling makes the first example slow, which is no flakiness; the same examples on every run.
settings.register_profile("mllm_jax", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("mllm_jax")
