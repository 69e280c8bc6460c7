"""Functions of `import` and `export`, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mllm_jax.cli.answer import CommandOutput
from mllm_jax.cli.command import CommandRequest


def import_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `release.import_weights.import_release`."""
    args = request.args
    return {
        "source": args.source,
        "out": Path(args.out),
        "others": dict(args.encoder),
        "dtype": args.dtype,
        "devices": args.devices,
        "notify": request.print_line,
    }


def answer_import(result: Any, request: CommandRequest) -> CommandOutput:
    """The sources of the model's parts, and the configuration that was written."""
    del request
    summary = f"{result.parameters:,} parameters, read in {result.seconds:.1f} s"
    table = ("part", "comes from"), result.rows
    return CommandOutput(result.to_json(), [table], [summary, f"written: {result.config}"])


def adapter_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `release.export_adapters.export_adapters`."""
    args = request.args
    return {
        "run": Path(args.run),
        "out": Path(args.out),
        "dtype": args.dtype,
        "notify": request.print_line,
    }


def export_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `release.export_weights.export_weights`."""
    return {**adapter_arguments(request), "part": request.args.part}


def answer_export(result: Any, request: CommandRequest) -> CommandOutput:
    """The folder that was written."""
    del request
    copied = f"; copied: {', '.join(result.copied)}" if result.copied else ""
    line = f"written: {result.folder}, {result.bytes / 1e9:.3g} GB{copied}"
    return CommandOutput(result.to_json(), lines=[line])
