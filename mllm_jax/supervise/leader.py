"""The supervisor that leads: it runs the coordinator, and sends orders to the others."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mllm_jax.runtime.messages.strangers import StrangerConnections, refuse_connection
from mllm_jax.runtime.messages.typed import MessageError
from mllm_jax.runtime.run_peers import JoinError
from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.runtime.wire import STRANGE, Connection, HostAddress, describe_error, hold_port
from mllm_jax.supervise import messages
from mllm_jax.supervise.attempts import WatchedAttempt, newest_attempt, write_attempt
from mllm_jax.supervise.checkpoint_return import CheckpointReturn
from mllm_jax.supervise.coordinator import RunCoordinator
from mllm_jax.supervise.coordinator_events import (
    AttemptOver,
    BeginAttempt,
    CoordinatorAction,
    CoordinatorEvent,
    FinishRun,
    HaltAttempt,
    HeartbeatReceived,
    LeaderInterrupted,
    LeaveRun,
    LogLine,
    ProcessEnded,
    SupervisorJoined,
    SupervisorLeft,
)
from mllm_jax.supervise.messages import LONGEST, LeaderAlive, SupervisorHello, SupervisorOrder
from mllm_jax.supervise.policy import AttemptHistory
from mllm_jax.supervise.supervisor import TICK, HostSupervisor, LeadState, SupervisorConfig

logger = logging.getLogger(__name__)

#: Seconds after which another supervisor with the same number may take the place of a silent one.
PRESENT = 5.0


@dataclass
class OtherSupervisor:
    """Another supervisor.

    Attributes:
        joined: who it is.
        connection: connection to it.
        heard: time of its last message.
    """

    joined: SupervisorJoined
    connection: Connection
    heard: float


class LeaderSupervisor(HostSupervisor):
    """See above.

    Args:
        lead: what is known of a run whose lead it takes over; None for process 0, which begins.
    """

    def __init__(
        self, command: Sequence[str], settings: SupervisorConfig, lead: LeadState | None = None
    ) -> None:
        lead = lead or LeadState(settings.address)
        super().__init__(command, replace(settings, address=lead.address))
        self._return = CheckpointReturn(self._work.common_words, settings.folder)
        gone_back = int(self._return.has_gone_back())  # by an attempt that has taken some step
        self._coordinator = RunCoordinator(
            settings.count,
            settings.policy,
            settings.limits,
            settings.wait,
            settings.fallbacks.keys(),
            max(newest_attempt(settings.folder), lead.attempt),
            AttemptHistory(max(lead.step, gone_back)),
            since=time.monotonic(),
            left_behind={*lead.left_behind},
            lead=settings.process,
        )
        self._others: dict[int, OtherSupervisor] = {}
        self._strangers = StrangerConnections(settings.count)
        self._writer = ThreadPoolExecutor(1)
        self._reserved_port: socket.socket | None = None
        self._trained = 0

    async def _run_until_finished(self) -> None:
        self._on_event(self._settings.joined)
        while self._finish is None:
            self._look_around(time.monotonic())
            await asyncio.sleep(TICK)
        await asyncio.gather(*(other.connection.finish() for other in self._others.values()))

    async def start_listening(self) -> None:
        """Begin to listen for other supervisors.

        Raises:
            JoinError: that is not possible at the address.
        """
        address = self._settings.address
        if address is None:
            return
        try:
            await asyncio.start_server(
                self._greet_supervisor, address.host, address.port, limit=STRANGE
            )
        except OSError as error:
            raise JoinError(
                f"the supervisor of process {self._settings.process} cannot listen at {address} "
                f"({describe_error(error)}); "
                "valid: a free port and an address of this machine for --coordinator"
            ) from None

    def _look_around(self, now: float) -> None:
        """Check the training process, the other supervisors, and the time."""
        if self._slept(now):
            self._coordinator.on_wake(now)
            for other in self._others.values():
                other.heard = now
        beat = self._agent.newest_heartbeat
        if beat is not None:
            self._on_event(HeartbeatReceived(self._settings.process, beat))
            self._note_step(beat)
        self._broadcast_action(LeaderAlive(self._settings.process, self._list_successors()))
        for other in list(self._others.values()):
            if now - other.heard > self._settings.limits.silent:
                other.connection.close()
                self._on_closed(other)
        self._act_on(self._coordinator.on_tick(now))

    def _note_step(self, beat: Heartbeat) -> None:
        """Record that the run has returned to a checkpoint, once an attempt has taken a step."""
        if beat.step > 0 and beat.attempt != self._trained:
            self._trained = beat.attempt
            self._writer.submit(_record_return, self._return)

    def _on_ended(self, ended: ProcessEnded) -> None:
        self._on_event(ended)

    def _on_interrupted(self) -> None:
        self._on_event(LeaderInterrupted())

    def _on_event(self, event: CoordinatorEvent) -> None:
        self._act_on(self._coordinator.on_event(event, time.monotonic()))

    def _act_on(self, actions: Sequence[CoordinatorAction]) -> None:
        for action in actions:
            match action:
                case BeginAttempt():
                    action = self._with_meeting_point(action)
                    self._broadcast_action(action)
                    self._agent.begin_attempt(action)
                    self._record_attempt(WatchedAttempt(action.attempt, time.time()))
                case HaltAttempt():
                    self._broadcast_action(action)
                    self._agent.end_process()
                case AttemptOver():
                    now, fields = time.time(), asdict(action)
                    seconds = fields.pop("seconds")
                    self._record_attempt(WatchedAttempt(began=now - seconds, ended=now, **fields))
                case LogLine():
                    logger.warning("%s", action.text)
                case FinishRun():
                    self._broadcast_action(action)
                    self._finish = action
                case LeaveRun():
                    self._broadcast_action(action)
                    self._finish = FinishRun(action.code, action.why)

    def _record_attempt(self, record: WatchedAttempt) -> None:
        """Store the record of an attempt, on a thread: the folder may be on a network."""
        self._writer.submit(_write_record, self._settings.folder, record)

    def _broadcast_action(self, action: SupervisorOrder) -> None:
        for other in self._others.values():
            other.connection.send(messages.message_kind(action), **messages.message_content(action))

    def _with_meeting_point(self, begin: BeginAttempt) -> BeginAttempt:
        """An attempt with the place where its processes meet, and its configuration."""
        settings, several = self._settings, len(begin.hosts) > 1
        return replace(
            begin,
            coordinator=self._meeting_point() if several else "",
            overrides=(*settings.overrides, *settings.fallbacks.get(len(begin.hosts), ())),
        )

    def _list_successors(self) -> tuple[tuple[int, str], ...]:
        """See `messages.LeaderAlive`."""
        address = self._settings.address
        if address is None or not self._settings.fallbacks:
            return ()
        return tuple(
            (number, str(HostAddress(other.connection.other_host, address.port)))
            for number, other in sorted(self._others.items())
        )

    def _meeting_point(self) -> str:
        """The address at which the next attempt's training processes meet: a reserved port."""
        assert self._settings.address is not None, "several hosts have an address"
        if self._reserved_port is not None:
            self._reserved_port.close()
        host = self._settings.address.host
        self._reserved_port = hold_port(host)
        return str(HostAddress(host, self._reserved_port.getsockname()[1]))

    async def _greet_supervisor(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = Connection(reader, writer)
        hello = await self._strangers.read_introduction(SupervisorHello, connection)
        if hello is None:
            return
        if why := self._unfit_reason(hello):
            await refuse_connection(connection, why)
            return
        connection.trust_peer(LONGEST)
        previous = self._others.get(hello.joined.process)
        if previous is not None:
            previous.connection.close()
            self._on_closed(previous)
        other = OtherSupervisor(hello.joined, connection, time.monotonic())
        self._others[hello.joined.process] = other
        self._on_event(hello.joined)
        with suppress(asyncio.CancelledError):  # at the end, of which asyncio would make an error
            await self._listen_to(other)

    def _unfit_reason(self, hello: SupervisorHello) -> str:
        """Why a supervisor cannot be one of this run; empty if it can."""
        who, settings = f"the supervisor of process {hello.joined.process}", self._settings
        first = f"process {settings.process}"
        who += f" (host {hello.joined.host}, pid {hello.joined.pid})"
        if hello.run != str(settings.folder):
            return f"{who} has the run folder {hello.run}, that of {first} {settings.folder}"
        if hello.count != settings.count:
            return (
                f"{who} was started with --processes {hello.count}, {first} with {settings.count}"
            )
        present = self._others.get(hello.joined.process)
        is_alive = present is not None and time.monotonic() - present.heard < PRESENT
        # One whose connection was cut comes again by a new one, maybe before the old one has ended.
        if present is not None and is_alive and not present.joined.is_same_supervisor(hello.joined):
            return (
                f"{who} comes too late: host {present.joined.host}, pid {present.joined.pid}, is it"
            )
        if (
            not 0 < hello.joined.process < settings.count
            or hello.joined.process == settings.process
        ):
            return (
                f"{who} is none of --processes {settings.count}; valid: 1 to {settings.count - 1}"
            )
        return ""

    async def _listen_to(self, other: OtherSupervisor) -> None:
        """Receive messages of another supervisor until its connection ends."""
        process = other.joined.process
        while (message := await other.connection.receive()) is not None:
            other.heard = time.monotonic()
            try:
                event = messages.parse_event(message, process, other.heard)
            except MessageError as error:
                who = f"the supervisor of process {process} (host {other.joined.host})"
                logger.warning("%s: %s; its connection is closed", who, error)
                other.connection.close()
                break
            if event is not None:
                self._on_event(event)
        self._on_closed(other)

    def _on_closed(self, other: OtherSupervisor) -> None:
        """The connection to another supervisor has ended."""
        process = other.joined.process
        if self._others.get(process) is other:
            del self._others[process]
            self._on_event(SupervisorLeft(process))


def _record_return(checkpoint_return: CheckpointReturn) -> None:
    try:
        checkpoint_return.record_return()
    except OSError as error:
        logger.warning("it cannot be recorded that the run has gone back: %s", error)


def _write_record(folder: Path, record: WatchedAttempt) -> None:
    try:
        write_attempt(folder, record)
    except OSError as error:
        logger.warning("the record of attempt %d cannot be written: %s", record.attempt, error)
