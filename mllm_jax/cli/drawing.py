"""Functions of the commands data, preview, trace, experts and report, which write files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mllm_jax.cli.answer import CommandOutput
from mllm_jax.cli.command import CommandRequest
from mllm_jax.runtime.exits import ExitCode


def answer_file(file: Path, request: CommandRequest) -> CommandOutput:
    """The name of the file that was written."""
    del request
    return CommandOutput({"file": str(file)}, lines=[f"written: {file}"])


# ---- data ----------------------------------------------------------------------------------------


def example_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `data.sources.shapes.write_example`."""
    args = request.args
    return {"folder": Path(args.out), "images": args.images, "seed": args.seed}


def answer_example(result: Any, request: CommandRequest) -> CommandOutput:
    """What the data set has."""
    del request
    return CommandOutput(result.to_json(), lines=result.lines)


# ---- preview and report --------------------------------------------------------------------------


def preview_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `pages.samples.page.write_preview`."""
    count, output = request.args.samples, request.path_of("out")
    return {"config": request.config, "count": count, "output": output}


def answer_preview(result: Any, request: CommandRequest) -> CommandOutput:
    """The samples of the page; refused ones are bad data."""
    from mllm_jax.pages.samples.page import COLUMNS

    del request
    code = ExitCode.BAD_DATA if result.preview.refused else ExitCode.OK
    return CommandOutput(result.to_json(), [(COLUMNS, result.rows)], result.lines, code)


def report_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `pages.run.page.write_report`."""
    return {"folder": Path(request.args.run), "output": request.path_of("output")}


# ---- trace and experts ---------------------------------------------------------------------------


def output_folder(request: CommandRequest) -> Path:
    """The folder of `--output`, or that of the run."""
    return request.path_of("output") or request.run_folder


def trace_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `check.trace.write_trace`."""
    return {
        "config": request.config,
        "folder": output_folder(request),
        "measure": request.args.measure,
    }


def answer_trace(result: Any, request: CommandRequest) -> CommandOutput:
    """The figures of the schedule."""
    del request
    return CommandOutput(result.to_json(), [(("what", "value"), result.rows)])


def check_experts(request: CommandRequest) -> None:
    """Raise ConfigError for a model without experts."""
    from mllm_jax.train.records.expert_history import find_experts

    find_experts(request.config.model)


def draw_loads(request: CommandRequest) -> CommandOutput:
    """Draw the load of every expert in a run."""
    from mllm_jax.train.records.expert_history import COLUMNS, draw_history, read_expert_history

    history = read_expert_history(request.run_folder / "metrics.jsonl")
    file = draw_history(history, output_folder(request))
    value = history.to_json() | {"file": str(file)}
    return CommandOutput(value, [(COLUMNS, history.rows)], [f"written: {file}"])


def draw_routes(request: CommandRequest) -> Path:
    """Draw the routes of a few tokens through a layer with experts."""
    from mllm_jax.check.expert_routes import draw_picture, draw_routes

    return draw_picture(draw_routes(request.config), output_folder(request))
