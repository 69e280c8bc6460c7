"""Functions of `config`: print a configuration or the list of keys, or rewrite files."""

from __future__ import annotations

from pathlib import Path

from mllm_jax.cli.answer import CommandOutput
from mllm_jax.cli.command import CommandRequest


def print_config(request: CommandRequest) -> CommandOutput:
    """The configuration in YAML, with every default filled in."""
    from mllm_jax.config.load import to_yaml
    from mllm_jax.config.overlap import resolve_overlap
    from mllm_jax.plan.exchanges import bucket_exchanges

    config = request.config
    if config.data.auto_budgets:  # by which exchanges are chosen
        comments = ["# data.budgets: auto; `launch.py budgets` tells which they are"]
    else:
        lines = (*bucket_exchanges(config), *resolve_overlap(config).lines)
        comments = [f"# {line}" for line in lines]
    return CommandOutput(
        config.model_dump(mode="json"), lines=[to_yaml(config).rstrip("\n"), *comments]
    )


def upgrade_files(request: CommandRequest) -> CommandOutput:
    """Rewrite configurations with the keys of today, and report what changed."""
    from mllm_jax.config.upgrade import upgrade_files

    changes = {str(file): lines for file, lines in upgrade_files(request.args.upgrade).items()}
    lines: list[str] = []
    for file, changed in changes.items():
        lines += [f"{file}: {'upgraded' if changed else 'has the keys of today'}"]
        lines += [f"  {line}" for line in changed]
    return CommandOutput(changes, lines=lines)


def print_keys(request: CommandRequest) -> CommandOutput:
    """The table of all keys of the configuration."""
    del request
    from mllm_jax.config.keys import format_table
    from mllm_jax.config.sections import ExperimentConfig

    text = format_table(ExperimentConfig).rstrip("\n")
    return CommandOutput(text, lines=[text])


def write_keys(request: CommandRequest) -> CommandOutput:
    """Write the tables of all keys into the pages of a folder."""
    from mllm_jax.config.keys import write_tables
    from mllm_jax.config.sections import ExperimentConfig

    folder = request.args.write_keys
    changed = [str(page) for page in write_tables(ExperimentConfig, Path(folder))]
    return CommandOutput(changed, lines=changed or [f"the pages in {folder} are up to date"])


def write_batch(request: CommandRequest) -> CommandOutput:
    """Write the types of a batch into a page."""
    from mllm_jax.pages.batch_page import write_types

    page = request.args.write_batch
    changed = [str(path) for path in write_types(Path(page))]
    return CommandOutput(changed, lines=changed or [f"{page} is up to date"])
