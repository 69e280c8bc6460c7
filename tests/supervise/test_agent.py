"""What an agent tells of the end of its process, without a process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.supervise import agent
from mllm_jax.supervise.agent import ProcessAgent, SupervisedRun
from mllm_jax.supervise.coordinator_events import BeginAttempt, ProcessEnded
from mllm_jax.supervise.ends import ProcessEnd


class Process:
    """A process that ends as it is told to, once its supervisor has done its part."""

    beat = None

    def __init__(self, own: ProcessEnd | OSError) -> None:
        self._own, self.heard = own, list[int]()

    async def start(self, *_: object, **__: object) -> None:
        if isinstance(self._own, OSError):
            raise self._own

    async def wait(self) -> ProcessEnd:
        await asyncio.sleep(0)
        assert isinstance(self._own, ProcessEnd)
        return self._own

    def send_signal(self, number: int) -> None:
        self.heard.append(number)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., ProcessEnd]:
    """The end that an agent tells of, whose process ends so, perhaps after a signal."""

    async def told(process: Process, *signals: int) -> ProcessEnded:
        found = list[ProcessEnded]()
        monkeypatch.setattr(agent, "ChildProcess", lambda *_: process)
        async with asyncio.TaskGroup() as tasks:
            own = ProcessAgent(SupervisedRun(("x",), 1, tmp_path), tasks, found.append)
            own.begin_attempt(BeginAttempt(3, False))
            for number in signals:
                own.pass_signal(number)
        assert process.heard == [*signals]
        assert not own.is_busy
        (only,) = found
        assert only.attempt == 3
        return only

    def run(own: ProcessEnd | OSError, *signals: int) -> ProcessEnd:
        return asyncio.run(told(Process(own), *signals)).end

    return run


def end(code: int, **changes: Any) -> ProcessEnd:
    return ProcessEnd(1, "b", 77, code, 5, "step 5", 1.0, **changes)


@pytest.mark.parametrize("code", [ExitCode.OK, ExitCode.UNFIT, ExitCode.LOST_PEER, -9])
def test_an_end_is_told_as_it_is(code: int, ended: Callable[..., ProcessEnd]) -> None:
    assert ended(end(code, stacks="x")) == end(code, stacks="x")


@pytest.mark.parametrize("own", [end(ExitCode.UNFIT), end(-15), end(-9, halted=True)])
def test_after_a_signal_any_failure_is_an_interruption(
    own: ProcessEnd, ended: Callable[..., ProcessEnd]
) -> None:
    assert ended(own, signal.SIGTERM) == end(ExitCode.INTERRUPTED)


def test_a_run_that_is_done_in_spite_of_a_signal_is_done(ended: Callable[..., ProcessEnd]) -> None:
    assert ended(end(ExitCode.OK), signal.SIGTERM) == end(ExitCode.OK)


def test_a_process_that_cannot_be_started_has_failed(ended: Callable[..., ProcessEnd]) -> None:
    found = ended(FileNotFoundError("no such program"))
    assert (found.process, found.pid, found.code) == (1, 0, ExitCode.FAILED)
    assert not found.is_final
