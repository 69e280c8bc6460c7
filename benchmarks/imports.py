"""Loading a released checkpoint against reading its files, in seconds and in memory."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import jax
import ml_dtypes
import numpy as np

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.families.releases import decoder_rules, write_decoder
from mllm_jax.hf_format.files import ReleasedTensors, open_tensors
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.models.pretrained.load import load_tensors
from mllm_jax.models.pretrained.write import TensorDraft
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.step.build import build_train_step

#: Bytes of a file of the checkpoint.
FILE = 256 * 10**6
#: Bytes that are read at a time.
BUFFER = 16 * 2**20
#: Seconds between two looks at the memory.
LOOK = 0.002


def bench_import(
    config: ExperimentConfig, print_line: Callable[[str], None] = lambda text: None
) -> dict[str, float]:
    """Make a random checkpoint of the configured decoder, read it and load it.

    Files are not in the host's memory before they are read, or loaded.

    Returns:
        `bytes` of the checkpoint and `largest_file`; `read_seconds` and `load_seconds`, medians of
        three in turns, all programs compiled, and `speed`, their ratio; `first_seconds` of the
        first loading, with compiling; `host_bytes` of memory above the parameters in the last
        loading, and `host_files`, the same in largest files.
    """
    rules = decoder_rules(config.model.backbone_config)
    write_decoder(config.model.backbone_config)  # refuses what has no released form
    step = build_train_step(config)
    target = {
        leaf_name(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            step.abstract_state["params"][config.model.backbone]
        )
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print_line("writing a random checkpoint")
        _write_checkpoint(folder, rules)
        tensors = open_tensors(folder)
        print_line("reading and loading it")
        read, loaded, host = zip(
            *(_time_turn(tensors, rules, target) for _ in range(4)), strict=True
        )
        sizes = [path.stat().st_size for path in tensors.files]
    seconds = {"read_seconds": median(read[1:]), "load_seconds": median(loaded[1:])}
    return {
        "bytes": sum(sizes),
        "largest_file": max(sizes),
        **seconds,
        "speed": seconds["read_seconds"] / seconds["load_seconds"],
        "first_seconds": loaded[0],
        "host_bytes": host[-1],
        "host_files": host[-1] / max(sizes),
    }


def _time_turn(
    tensors: ReleasedTensors, rules: list[TensorRule], target: Any
) -> tuple[float, float, int]:
    """Seconds of reading and of loading, and memory of the host while loading."""
    _drop_pages(tensors)
    began = time.perf_counter()
    _read_tensors(tensors)
    read = time.perf_counter() - began
    _drop_pages(tensors)
    return (read, *_time_loading(tensors, rules, target))


def _drop_pages(tensors: ReleasedTensors) -> None:
    """Let the pages of the files go."""
    for path in tensors.files:
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _write_checkpoint(folder: Path, rules: list[TensorRule]) -> None:
    random = np.random.default_rng(0)
    specs = {name: (rule.transform.released, "BF16") for rule in rules for name in rule.names}
    draft = TensorDraft.create_files(folder, specs, FILE)
    for name, (shape, _) in specs.items():
        draft.write_tensor(
            name, random.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)
        )


def _read_tensors(tensors: ReleasedTensors) -> None:
    buffer = bytearray(BUFFER)
    for path in tensors.files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _time_loading(
    tensors: ReleasedTensors, rules: list[TensorRule], target: Any
) -> tuple[float, int]:
    """Seconds of loading, and bytes of the host above the parameters while it does."""
    before = _anonymous_bytes()
    with _watch_peak() as most:
        began = time.perf_counter()
        loaded = load_tensors(tensors, rules, target)
        jax.block_until_ready(loaded)
        seconds = time.perf_counter() - began
    parameter_bytes = sum(leaf.nbytes for leaf in loaded.values())
    return seconds, max(0, most[0] - before - parameter_bytes)


@contextmanager
def _watch_peak() -> Iterator[list[int]]:
    """The most memory while it is open, in a list of one."""
    most, done = [_anonymous_bytes()], threading.Event()

    def record_peak() -> None:
        while not done.wait(LOOK):
            most[0] = max(most[0], _anonymous_bytes())

    thread = threading.Thread(target=record_peak)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def _anonymous_bytes() -> int:
    """Bytes of this process that are no part of a file."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    (kibibytes,) = re.findall(r"^RssAnon:\s+(\d+) kB$", text, flags=re.MULTILINE)
    return int(kibibytes) * 1024
