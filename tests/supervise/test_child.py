"""A process that is ended with its stacks written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from mllm_jax.supervise import child
from mllm_jax.supervise.child import ChildProcess
from tests.timing import PATIENCE

#: Says that it is there, and does nothing from then on.
PROGRAM = """
import time
from mllm_jax.runtime.supervised.process import apply_supervisor_settings
apply_supervisor_settings()
while True:
    time.sleep(1)
"""


async def halted(folder: Path) -> str:
    """The file of the stacks of a process that is halted after its first heartbeat."""
    own = ChildProcess(3, 0, folder)
    await own.start((sys.executable, "-c", PROGRAM), ("x",))
    ended = asyncio.create_task(own.wait())
    while own.newest_heartbeat is None:
        await asyncio.sleep(0.01)
    await own.end_process()
    return (await ended).stacks


def test_a_process_is_ended_as_soon_as_its_stacks_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it would have for them."""
    monkeypatch.setattr(child, "WRITTEN", 1e9)
    stacks = asyncio.run(asyncio.wait_for(halted(tmp_path), PATIENCE))
    assert "thread 0x" in Path(stacks).read_text().lower()
