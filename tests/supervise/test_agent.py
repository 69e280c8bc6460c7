"""What an agent tells of the end of its process, without a process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.runtime.exits import Exit
from mllm_jax.supervise import agent
from mllm_jax.supervise.agent import Agent, Work
from mllm_jax.supervise.conductor import Begin, Ended
from mllm_jax.supervise.ends import End


class Process:
    """A process that ends as it is told to, once its supervisor has done its part."""

    beat = None

    def __init__(self, own: End | OSError) -> None:
        self._own, self.heard = own, list[int]()

    async def start(self, *_: object, **__: object) -> None:
        if isinstance(self._own, OSError):
            raise self._own

    async def wait(self) -> End:
        await asyncio.sleep(0)
        assert isinstance(self._own, End)
        return self._own

    def signal(self, number: int) -> None:
        self.heard.append(number)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., End]:
    """The end that an agent tells of, whose process ends so, perhaps after a signal."""

    async def told(process: Process, *signals: int) -> Ended:
        found = list[Ended]()
        monkeypatch.setattr(agent, "Child", lambda *_: process)
        async with asyncio.TaskGroup() as tasks:
            own = Agent(Work(("x",), 1, tmp_path), tasks, found.append)
            own.begin(Begin(3, False))
            for number in signals:
                own.signal(number)
        assert process.heard == [*signals]
        assert not own.busy
        (only,) = found
        assert only.attempt == 3
        return only

    def run(own: End | OSError, *signals: int) -> End:
        return asyncio.run(told(Process(own), *signals)).end

    return run


def end(code: int, **changes: Any) -> End:
    return End(1, "b", 77, code, 5, "step 5", 1.0, **changes)


@pytest.mark.parametrize("code", [Exit.OK, Exit.UNFIT, Exit.LOST_PEER, -9])
def test_an_end_is_told_as_it_is(code: int, ended: Callable[..., End]) -> None:
    assert ended(end(code, stacks="x")) == end(code, stacks="x")


@pytest.mark.parametrize("own", [end(Exit.UNFIT), end(-15), end(-9, halted=True)])
def test_after_a_signal_any_failure_is_an_interruption(own: End, ended: Callable[..., End]) -> None:
    assert ended(own, signal.SIGTERM) == end(Exit.INTERRUPTED)


def test_a_run_that_is_done_in_spite_of_a_signal_is_done(ended: Callable[..., End]) -> None:
    assert ended(end(Exit.OK), signal.SIGTERM) == end(Exit.OK)


def test_a_process_that_cannot_be_started_has_failed(ended: Callable[..., End]) -> None:
    found = ended(FileNotFoundError("no such program"))
    assert (found.process, found.pid, found.code) == (1, 0, Exit.FAILED)
    assert not found.final
