"""JAX's cache of compiled programs, on disk: a restart need not compile again."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from pathlib import Path

import jax

logger = logging.getLogger(__name__)

#: Thresholds of programs worth keeping, by JAX's name of the setting: any size, a tenth of a second
#: to compile. JAX's default of a second leaves out the many small ones of a run.
WORTH_KEEPING = {
    "jax_persistent_cache_min_compile_time_secs": 0.1,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}

AUTO = "auto"


def enable_compilation_cache(where: str | None) -> None:
    """Store compiled programs, and load stored ones, from now on; call it before any compilation.

    A stored program is identified by its text, the versions of JAX and XLA, their options and the
    devices. Programs for CPUs have instructions that not every CPU knows: each kind of CPU has a
    separate folder. JAX's environment variables for folder and thresholds take precedence.

    Args:
        where: folder; `auto`: where JAX's environment says, else below the user's caches;
            None: no programs are stored.
    """
    jax.config.update("jax_enable_compilation_cache", where is not None)
    if where is None:
        return
    for setting, value in WORTH_KEEPING.items():
        if setting.upper() not in os.environ:
            jax.config.update(setting, value)
    if where == AUTO and "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = (user_caches() if where == AUTO else Path(where)) / cpu_kind()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        logger.warning(
            "compiled programs cannot be stored in %s; set run.compilation_cache to another "
            "folder, or to null",
            folder,
        )
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))


def user_caches() -> Path:
    """The user's folder for caches, by the XDG Base Directory Specification."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if Path(root).is_absolute() else Path.home() / ".cache") / "mllm_jax"


def cpu_kind() -> str:
    """The kind of CPU: its architecture, and a digest of its features."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    features = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    digest = hashlib.sha256("\n".join(sorted(features)).encode()).hexdigest()[:8]
    return f"compiled-{platform.machine()}-{digest}"
