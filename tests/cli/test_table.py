"""The table of commands: what it names is there, and a command has options and a row."""

from __future__ import annotations

import pytest

from mllm_jax.cli.command import CommandCall
from mllm_jax.cli.command_options import OPTIONS
from mllm_jax.cli.table import COMMANDS

CALLS = {
    f"{command.name} {option}".strip(): call
    for command in COMMANDS.values()
    for option, call in {"": command.call, **command.variants}.items()
    if isinstance(call, CommandCall)
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_function_of_the_table_can_be_loaded(call: CommandCall) -> None:
    assert callable(call.load_function())


def test_every_command_has_options() -> None:
    assert list(OPTIONS) == list(COMMANDS)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_needs_devices_or_budgets_of_a_configuration_loads_one(call: CommandCall) -> None:
    if call.budgets or call.devices == "configured":
        assert call.config != "none"
