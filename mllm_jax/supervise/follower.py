"""The supervisor of any process but 0: it follows the leader, at first the supervisor of 0.

Without a connection to that there is no attempt: the training process is ended, and the supervisor
looks for it again, as it may be started anew on another machine. If it does not come back, and the
run may go on with fewer hosts, the others take the lead in the order of their numbers: each looks
for those before it, and leads if it finds none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.messages.secret import SecretRefusedError, present_secret
from mllm_jax.runtime.messages.typed import MessageError
from mllm_jax.runtime.wire import Connection, HostAddress
from mllm_jax.supervise import messages
from mllm_jax.supervise.coordinator_events import (
    BeginAttempt,
    FinishRun,
    HaltAttempt,
    LeaveRun,
    ProcessEnded,
)
from mllm_jax.supervise.messages import (
    LONGEST,
    LeaderAlive,
    SupervisorHello,
    SupervisorOrder,
    SupervisorRefused,
    exchange_ages,
)
from mllm_jax.supervise.supervisor import HostSupervisor, LeadState, SupervisorConfig

logger = logging.getLogger(__name__)

#: Seconds between two messages.
HEARTBEAT_SECONDS = 0.5
#: Seconds between two looks for the supervisor that leads.
AGAIN = 0.2
#: Seconds of one look.
TRY = 5.0
#: Seconds for the next one to lead to listen, in addition to those by which another may have
#: noticed later.
TURN = 5.0


class FollowerSupervisor(HostSupervisor):
    """See above."""

    #: Of the run, once this supervisor is to lead it.
    lead: LeadState | None = None
    #: Whether the supervisor that led has left its host; it may be on its way out.
    left = False
    _connection: Connection | None = None
    _leader = 0
    _attempt = _step = 0
    _successors: tuple[tuple[int, str], ...] = ()

    def __init__(self, command: Sequence[str], settings: SupervisorConfig) -> None:
        super().__init__(command, settings)
        assert settings.address is not None, "a supervisor of several has an address"
        self._address = settings.address

    @property
    def _describe_self(self) -> str:
        return f"supervisor of process {self._leader}"

    async def _run_until_finished(self) -> None:
        while self._finish is None:
            self._connection = await self._find_leader()
            if self._connection is None:
                break
            beating = asyncio.create_task(self._send_beats(self._connection))
            await self._follow_leader(self._connection)
            beating.cancel()
            self._connection.close()
            self._connection = None
            self._agent.end_process()
            await self._agent.wait_idle()

    async def _find_leader(self) -> Connection | None:
        """A connection to the leading supervisor; None, with a line in the log, if none leads."""
        settings, wait = self._settings, 0.0 if self.left else self._settings.wait
        connection = await self._connect_to(self._address, wait)
        message = (
            f"process {settings.process} of {settings.count} found no {self._describe_self} at "
            f"{self._address} within {wait:g} s (run.wait_for_hosts)"
        )
        for number, (process, text) in enumerate(self._successors):
            if connection is not None or self._finish is not None:
                break
            if process == settings.process:
                self.lead = self._take_lead(text, self._successors[number + 1 :])
                break
            self._address = HostAddress.parse(text)
            connection = await self._connect_to(self._address, settings.limits.silent + TURN)
        if connection is None and self._finish is None:
            self._finish = FinishRun(int(ExitCode.LOST_PEER), message)
        return connection

    def _take_lead(self, address: str, others: Sequence[tuple[int, str]]) -> LeadState | None:
        """The lead of the run; None if the run cannot go on with this and the remaining hosts."""
        settings, hosts = (
            self._settings,
            {self._settings.process, *(process for process, _ in others)},
        )
        if min(settings.fallbacks, default=settings.count) > len(hosts):
            return None
        left_behind = frozenset(range(settings.count)) - hosts
        return LeadState(HostAddress.parse(address), self._attempt, self._step, left_behind)

    async def _connect_to(self, address: HostAddress, seconds: float) -> Connection | None:
        """A connection to a supervisor; None if there is none in time."""
        until, strange = time.monotonic() + seconds, ""
        while self._finish is None:
            try:
                # No longer at a time: a signal to stop would wait for it.
                async with asyncio.timeout(max(0.1, min(TRY, until - time.monotonic()))):
                    return await self._connect_securely(address)
            except SecretRefusedError as error:
                why = f"{address} refuses process {self._settings.process}: {error}"
                self._finish = FinishRun(int(ExitCode.BAD_INPUT), why)
            except (OSError, MessageError) as error:  # TimeoutError is an OSError, too
                if isinstance(error, MessageError) and str(error) != strange:
                    strange = str(error)
                    logger.warning("%s is no %s: %s", address, self._describe_self, strange)
                if time.monotonic() + AGAIN > until:
                    return None
                await asyncio.sleep(AGAIN)
        return None

    async def _connect_securely(self, address: HostAddress) -> Connection:
        """A connection to a supervisor that has proved to know the run's secret, if it has one.

        Raises:
            OSError: there is none.
            MessageError: what is there is none of this run.
            SecretRefusedError: it refuses this one.
        """
        settings = self._settings
        connection = Connection(*await asyncio.open_connection(address.host, address.port))
        try:
            await present_secret(connection)
        except BaseException:
            connection.close()
            raise
        connection.trust_peer(LONGEST)
        joined = replace(settings.joined, attempt=self._attempt)
        connection.send(
            "hello", **asdict(SupervisorHello(str(settings.folder), settings.count, joined))
        )
        return connection

    async def _follow_leader(self, connection: Connection) -> None:
        """Follow orders until the connection ends, or no message comes for too long."""
        silent = self._settings.limits.silent
        while self._finish is None:
            try:
                async with asyncio.timeout(silent):
                    message = await connection.receive()
            except TimeoutError:
                logger.warning("no heartbeat of the %s for %g s", self._describe_self, silent)
                return
            if message is None:
                if self._finish is None:
                    logger.warning("the connection to the %s is gone", self._describe_self)
                return
            try:
                self._do_action(messages.parse_order(message))
            except MessageError as error:
                logger.warning("the %s: %s; its connection is closed", self._describe_self, error)
                return

    def _do_action(self, action: SupervisorOrder) -> None:
        match action:
            case SupervisorRefused():
                self._finish = FinishRun(int(ExitCode.BAD_INPUT), action.why)
            case LeaderAlive():
                if action.process != self._leader:
                    logger.warning("process %d leads in place of %d", action.process, self._leader)
                self._leader, self._successors = action.process, action.successors
                self.left = False
            case BeginAttempt() if action.attempt <= self._attempt:
                self._finish = FinishRun(
                    int(ExitCode.BAD_INPUT),
                    f"the {self._describe_self} is stale: it begins attempt {action.attempt}, "
                    f"but attempt {self._attempt} of {self._settings.folder} has begun",
                )
            case BeginAttempt():
                self._attempt = action.attempt
                if not action.anew:
                    self._step = max(self._step, 1)  # some step
                if self._settings.process in action.hosts:
                    self._agent.begin_attempt(action)
            case HaltAttempt() if action.attempt == self._attempt:
                self._agent.end_process()
            case FinishRun():
                self._finish = action
            case LeaveRun():
                logger.warning("the %s has left: %s", self._describe_self, action.why)
                self.left = True

    async def _send_beats(self, connection: Connection) -> None:
        while True:
            beat = self._agent.newest_heartbeat
            if beat is None:
                connection.send("alive")
            else:
                connection.send("heartbeat", beat=asdict(exchange_ages(beat, time.monotonic())))
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _on_ended(self, ended: ProcessEnded) -> None:
        self._step = max(self._step, ended.end.step)
        if self._connection is not None:
            self._connection.send(messages.message_kind(ended), **messages.message_content(ended))

    def _on_interrupted(self) -> None:
        if not self._agent.is_busy:
            self._finish = FinishRun(int(ExitCode.INTERRUPTED), "interrupted between two attempts")
            if self._connection is not None:
                self._connection.close()
