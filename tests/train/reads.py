"""`python -m tests.train.reads FILE ARGUMENT...`: launch.py, with a line in FILE for each read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import launch
from data.processing.processor import Processor
from data.sample import Sample
from mllm_jax.runtime import devices


def main(file: Path, arguments: list[str]) -> int:
    """Run launch.py; what is read of samples goes to `file`."""
    medium, text, read = Processor.read_medium, Processor.process_text, Processor.process_unchecked

    def note(what: str) -> None:
        with file.open("a") as out:
            out.write(what + "\n")

    def noted_medium(self: Any, sample: Sample, encoder: str, number: int, lengths: Any) -> Any:
        note(f"{sample.name} {encoder} {number}")
        return medium(self, sample, encoder, number, lengths)

    def noted_text(self: Any, sample: Sample, lengths: Any) -> Any:
        note(f"{sample.name} text")
        return text(self, sample, lengths)

    def noted_read(self: Any, sample: Sample) -> Any:
        note(f"{sample.name} whole")
        return read(self, sample)

    if found := os.environ.get("OMPI_COMM_WORLD_SIZE"):
        # Who is found by JAX has real devices, which nobody places; these are emulated.
        vars(devices)["_devices_per_process"] = lambda count, _: count // int(found)
    for name, noted in (("medium", noted_medium), ("text", noted_text), ("read", noted_read)):
        setattr(Processor, name, noted)
    return launch.main(arguments)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
