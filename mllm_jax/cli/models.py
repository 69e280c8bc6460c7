"""Commands of whole models: released weights in and out, answers; see `mllm_jax.cli.commands`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.cli.answer import Answer
from mllm_jax.cli.shared import teller

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console


def import_(args: argparse.Namespace, console: Console) -> Answer:
    """Make a run that begins with released weights: fetch, check and configure them."""
    from mllm_jax.release.import_weights import import_release as run

    encoders = dict(args.encoder)
    tell = teller(console)
    found = run(args.source, Path(args.out), encoders, args.dtype, args.devices, tell)
    read = f"{found.parameters:,} parameters, read in {found.seconds:.1f} s"
    table = ("part", "comes from"), found.rows
    return Answer(found.to_json(), [table], [read, f"written: {found.config}"])


def export(args: argparse.Namespace, console: Console) -> Answer:
    """Write the newest checkpoint of a run as a released one: safetensors, config, tokenizer."""
    from mllm_jax.release.export_weights import export as run
    from mllm_jax.runtime.devices import use_host

    use_host()
    if args.adapters:
        from mllm_jax.release.export_adapters import export_adapters

        done = export_adapters(Path(args.run), Path(args.out), args.dtype, teller(console))
    else:
        done = run(Path(args.run), Path(args.out), args.part, args.dtype, teller(console))
    copied = f"; copied: {', '.join(done.copied)}" if done.copied else ""
    line = f"written: {done.folder}, {done.bytes / 1e9:.3g} GB{copied}"
    return Answer(done.to_json(), lines=[line])


def generate(args: argparse.Namespace, console: Console) -> Answer:
    """Answer a prompt with media, or a file of them, by a run or a released model."""
    from mllm_jax.cli.answering import answer

    return answer(args, console)
