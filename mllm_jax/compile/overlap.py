"""How much of the collectives' time a compiled module hides under compute.

A collective is in flight from its `-start` to its `-done`; all that stands between the two in a
scheduled module is independent of it::

    %s = (..) all-gather-start(%x), replica_groups={{0,1},{2,3}}
    %y = .. fusion(%a, %b), calls=%dot      <- runs while the network works
    %d = .. all-gather-done(%s)

Compute is counted at the peak of the device, collectives in the bytes that a ring sends over the
links. Loops count as often as they run: what the text does not tell, a pipeline's program does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from mllm_jax.compile.hlo import (
    HloComputation,
    HloError,
    HloInstruction,
    HloModule,
    instruction_flops,
    loop_trips,
    shape_bytes,
)
from scheduling.costs.hardware import Hardware
from scheduling.executor.pipeline import ticks_scope
from scheduling.lowering.bounds import PHASES, ScheduleBounds
from scheduling.lowering.lowered import LoweredSchedule

Groups = tuple[tuple[int, ...], ...]

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)


def replica_groups(instruction: HloInstruction) -> Groups:
    """Devices that take part together.

    They are written as `{{0,1},{2,3}}`, as `[2,2]<=[4]`, as `mesh['stage'=2,'tensor'=2] {'tensor'}`
    or as the pairs of a permute. Empty where the text has no groups: all devices are one.

    Raises:
        HloError: the groups are written in another way.
    """
    pairs = re.search(r"\bsource_target_pairs=\{((?:\{[\d,]*\},?)*)\}", instruction.attributes)
    listed = re.search(r"\breplica_groups=\{((?:\{[\d,]*\},?)*)\}", instruction.attributes) or pairs
    if listed:
        groups = re.findall(r"\{([\d,]*)\}", listed[1])
        return tuple(tuple(int(n) for n in group.split(",") if n) for group in groups)
    mesh = re.search(r"\breplica_groups=mesh\[('[^\]]*)\] \{('[^}]*)\}", instruction.attributes)
    if mesh:
        return _groups_of_mesh(mesh[1], mesh[2])
    iota = re.search(
        r"\breplica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", instruction.attributes
    )
    if not iota:
        raise HloError(f"{instruction.name}: replica groups are missing or in an unknown form")
    shape, dims, order = (
        [int(n) for n in part.split(",")] if part else [] for part in iota.groups()
    )
    devices = np.arange(math.prod(dims)).reshape(dims)
    rows = devices.transpose(order or None).reshape(shape)
    return tuple(tuple(row) for row in rows.tolist())


def _groups_of_mesh(axes: str, inside: str) -> Groups:
    """Groups of devices in row-major order over `'name'=size,...` that differ along `'name',...`.

    Raises:
        HloError: the axes are written in another way.
    """
    sizes = re.findall(r"'([^']+)'=(\d+)", axes)
    along = re.findall(r"'([^']+)'", inside)
    names = [name for name, _ in sizes]
    complete = ",".join(f"'{name}'={size}" for name, size in sizes) == axes
    if (
        not complete
        or ",".join(f"'{name}'" for name in along) != inside
        or not {*along} <= {*names}
    ):
        raise HloError(f"replica groups of mesh [{axes}] along {{{inside}}} are in an unknown form")
    shape = [int(size) for _, size in sizes]
    order = [names.index(name) for name in names if name not in along]
    order += [names.index(name) for name in along]
    count = math.prod(shape[names.index(name)] for name in along)
    rows = np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1, count)
    return tuple(tuple(row) for row in rows.tolist())


def ring_bytes(opcode: str, result: float, devices: int) -> float:
    """Bytes that each device sends in a ring of `devices`.

    Args:
        opcode: opcode of the collective.
        result: bytes of its result on one device.
    """
    if opcode == "collective-permute":
        return result
    share = {
        "all-reduce": 2 * result,
        "reduce-scatter": devices * result,
    }.get(opcode, result)
    return share * (devices - 1) / devices


@dataclass(frozen=True)
class HloOverlap:
    """Collectives of a module, each counted as often as the loops around it run.

    Attributes:
        collectives: how many stand in the text.
        seconds: seconds that the collectives take.
        hidden_seconds: thereof with independent compute at the same time.
        bytes: bytes that one device sends.
        overlapped_bytes: thereof of collectives with any compute at the same time.
    """

    collectives: int = 0
    seconds: float = 0.0
    hidden_seconds: float = 0.0
    bytes: float = 0.0
    overlapped_bytes: float = 0.0

    @property
    def hidden_share(self) -> float:
        """Share of the time that is hidden; 0 if there are no collectives."""
        return self.hidden_seconds / self.seconds if self.seconds else 0.0

    @property
    def share_with_compute(self) -> float:
        """Share of the bytes that move while there is compute; 0 if there are none."""
        return self.overlapped_bytes / self.bytes if self.bytes else 0.0

    def __add__(self, other: HloOverlap) -> HloOverlap:
        return HloOverlap(
            self.collectives + other.collectives,
            self.seconds + other.seconds,
            self.hidden_seconds + other.hidden_seconds,
            self.bytes + other.bytes,
            self.overlapped_bytes + other.overlapped_bytes,
        )

    def scaled_by(self, weight: float) -> HloOverlap:
        """The times of `weight` runs."""
        return HloOverlap(
            self.collectives,
            weight * self.seconds,
            weight * self.hidden_seconds,
            weight * self.bytes,
            weight * self.overlapped_bytes,
        )


#: Times by opcode of the collective.
ByKind = dict[str, HloOverlap]


@dataclass(frozen=True)
class DeviceSpeeds:
    """Speeds of one device.

    Attributes:
        flops: peak FLOP/s of its matrix products.
        link: bytes per second that it sends to its neighbour in a ring.
        network: the same for groups that leave their domain.
        domain: devices that links join, numbered in a row; all of them by default.
    """

    flops: float
    link: float
    network: float = math.inf
    domain: float = math.inf

    @classmethod
    def from_hardware(cls, hardware: Hardware) -> DeviceSpeeds:
        """Peaks of one kind of device."""
        link, network = hardware.link.bandwidth, hardware.network.bandwidth
        return cls(hardware.flops["bfloat16"], link, network, hardware.domain)

    def send_rate(self, groups: Groups) -> float:
        """Bytes per second of the slowest of `groups`."""
        within = all(len({device // self.domain for device in group}) == 1 for group in groups)
        return self.link if within else self.network


def measure_overlap(
    module: HloModule,
    speeds: DeviceSpeeds,
    counted: Callable[[Groups], bool] = lambda groups: True,
    runs: Callable[[HloInstruction], float] = lambda loop: 1.0,
) -> ByKind:
    """The collectives' time, and its part with compute of other data scheduled inside, by kind.

    The network serves one collective after the other, in the order in which they start, and only
    while there is compute: a product hides no more than its time, however many
    collectives are in flight.

    Args:
        counted: whether collectives of these groups count.
        runs: mean iterations of a `while` of which the text does not tell them.

    Raises:
        HloError: a collective starts and is never done, or is done and never starts.
    """

    def overlap_of(name: str | None) -> ByKind:
        computation = module[name]
        total = _in_sequence(module, computation, speeds, counted)
        for instruction in computation.instructions:
            times = 1.0
            if instruction.opcode == "while":
                times = loop_trips(module, instruction) or runs(instruction)
            for inner in _sequential_computations(instruction):
                for kind, inner_overlap in overlap_of(inner).items():
                    _add_overlap(total, kind, inner_overlap.scaled_by(times))
        return total

    return overlap_of(module.entry)


def _in_sequence(
    module: HloModule,
    computation: HloComputation,
    speeds: DeviceSpeeds,
    counted: Callable[[Groups], bool],
) -> ByKind:
    """Overlap of the collectives that stand in `computation` itself."""
    total, remaining, uncovered = ByKind(), dict[str, float](), dict[str, float]()
    events = _collective_events(module, computation)
    kinds = {event.key: event.kind for event in events.values()}
    for instruction in computation.instructions:
        event = events.get(instruction.name)
        if event is None or event.part == "middle":
            if any(remaining.values()):
                compute = instruction_flops(module, computation, instruction) / speeds.flops
                for key, hidden in _hide_seconds(remaining, compute).items():
                    covered = uncovered.pop(key, 0.0) if hidden else 0.0
                    _add_overlap(
                        total,
                        kinds[key],
                        HloOverlap(hidden_seconds=hidden, overlapped_bytes=covered),
                    )
        elif event.part == "done":
            remaining.pop(event.key, None)
        elif counted(replica_groups(event.collective)):
            sent = sent_bytes(event.collective, event.result)
            seconds = sent / speeds.send_rate(replica_groups(event.collective))
            _add_overlap(total, event.kind, HloOverlap(1, seconds, bytes=sent))
            if event.part == "start":
                remaining[event.key], uncovered[event.key] = seconds, sent
    return total


def _add_overlap(total: ByKind, kind: str, more: HloOverlap) -> None:
    total[kind] = total.get(kind, HloOverlap()) + more


def _hide_seconds(remaining: dict[str, float], compute: float) -> dict[str, float]:
    """Take `compute` seconds off those that collectives still need, the oldest first.

    Returns:
        The time that was taken off each.
    """
    hidden = {}
    for name, seconds in remaining.items():
        hidden[name] = min(seconds, compute)
        remaining[name] = seconds - hidden[name]
        compute -= hidden[name]
    return hidden


EventPart = Literal["whole", "start", "middle", "done"]


class HloEvent(NamedTuple):
    """The part of an instruction in a collective.

    Attributes:
        part: the `whole` collective, if it is synchronous, or one part of an asynchronous one. In
            the `middle` is compute that a TPU has fused with a part of the collective.
        key: the same for all parts of one collective.
        collective: the instruction with the groups.
        result: printed shape of what the collective computes.
    """

    part: EventPart
    key: str
    collective: HloInstruction
    result: str

    @property
    def kind(self) -> str:
        """Opcode of the synchronous collective."""
        return self.collective.opcode.removesuffix("-start")


def _collective_events(module: HloModule, computation: HloComputation) -> dict[str, HloEvent]:
    """Collectives of a computation, by the name of the instruction.

    Raises:
        HloError: a collective starts and is never done, or is done and never starts.
    """
    events = {i.name: event for i in computation.instructions if (event := _event_of(module, i))}
    done = {}
    for instruction in computation.instructions:
        if instruction.opcode.endswith("-done"):
            begin = events.get(_start_name(computation, instruction))
            if begin is not None:  # else a copy, or another operation without a network
                done[instruction.name] = begin._replace(part="done", result=instruction.shape)
    results = {event.key: event.result for event in done.values()}
    events = {
        name: event._replace(result=results.get(event.key, event.result))
        for name, event in (events | done).items()
    }
    keys = {
        part: {event.key for event in events.values() if event.part == part}
        for part in ("start", "done")
    }
    for key in sorted(keys["start"] ^ keys["done"]):
        what = "starts and is not done" if key in keys["start"] else "is done and does not start"
        raise HloError(f"the collective {key} {what} in {computation.name}")
    return events


def _event_of(module: HloModule, instruction: HloInstruction) -> HloEvent | None:
    """The role of an instruction taken alone: a native `-done` is known by its `-start`."""
    if instruction.opcode in COLLECTIVES:
        return HloEvent("whole", instruction.name, instruction, instruction.shape)
    if instruction.opcode.removesuffix("-start") in COLLECTIVES:
        return HloEvent("start", instruction.name, instruction, instruction.shape)
    role = {"call-start": "to_apply", "async-start": "calls", "fusion": "calls"}
    if instruction.opcode not in role:
        return None
    inside = module[instruction.called_computation(role[instruction.opcode])].instructions
    collective = next((i for i in inside if i.opcode in COLLECTIVES), None)
    if collective is None:
        return None
    if instruction.opcode.endswith("-start"):
        return HloEvent("start", instruction.name, collective, collective.shape)
    chain = re.search(r'\bchain_id="(\w+)"', collective.attributes)
    if not chain:
        return HloEvent("whole", instruction.name, collective, collective.shape)
    part: EventPart = "middle"
    for name in ("start", "done"):
        if any(f'"AsyncCollective{name.title()}"' in i.attributes for i in inside):
            part = "start" if name == "start" else "done"
    return HloEvent(part, f"chain {chain[1]}", collective, collective.shape)


def _start_name(computation: HloComputation, done: HloInstruction) -> str:
    """Name of the `-start` that `done` ends."""
    name = done.operands[0] if done.operands else ""
    begin = computation.by_name.get(name)
    if begin is not None and begin.opcode in ("async-update", "call-update"):
        return _start_name(computation, begin)
    if begin is None or not begin.opcode.endswith("-start"):
        raise HloError(
            f"{done.name} in {computation.name} ends {name!r}, which does not start there"
        )
    return name


def sent_bytes(collective: HloInstruction, result: str) -> float:
    """Bytes that one device sends in a collective whose result has the printed shape `result`.

    Raises:
        HloError: the groups of the collective are not listed.
    """
    groups = replica_groups(collective)
    if not groups:
        raise HloError(f"{collective.name}: replica groups are not listed")
    opcode = collective.opcode.removesuffix("-start")
    return ring_bytes(opcode, shape_bytes(result), len(groups[0]))


def _sequential_computations(instruction: HloInstruction) -> list[str | None]:
    """Computations that an instruction runs one instruction after the other."""
    if instruction.opcode == "while":
        return [instruction.called_computation("body")]
    if instruction.opcode == "call":
        return [instruction.called_computation("to_apply")]
    return list(instruction.branches) if instruction.opcode == "conditional" else []


# ---- loops of a pipeline -------------------------------------------------------------------------


def loop_share(
    program: LoweredSchedule, bounds: ScheduleBounds
) -> Callable[[HloInstruction], float]:
    """Average number of runs of a loop of the executor in the loop around it.

    That is what the compiler does not know: how many ticks there are; fused tasks, stage syncs and
    what is done together in them, a chunk's beginning and end are loops of at most one iteration,
    named by scopes, and the tables of the schedule say when they run. Any other loop counts once.
    """
    shares = {
        ticks_scope(phase): phase_shares(program, bounds, phase)
        for phase in range(len(PHASES))
        if program.schedule.phases[phase]
    }

    def share(loop: HloInstruction) -> float:
        *scopes, operation = loop.scopes or [""]
        if operation != "while" or not scopes:
            return 1.0
        phase = next((scope for scope in scopes if scope in shares), "")
        within = shares.get(phase, {})
        fused = next((scope for scope in scopes if scope in within and scope != phase), "")
        return within.get(scopes[-1], within.get(f"{fused}/{scopes[-1]}", 1.0))

    return share


def phase_shares(program: LoweredSchedule, bounds: ScheduleBounds, phase: int) -> dict[str, float]:
    """Ticks of a phase, and the mean runs of the loops in a tick of it, averaged over the stages.

    By scope; of what is in a stage sync in a stage sync; of what is in a fused task in one of its
    kind, as `kind/scope`.
    """
    schedule, ticks = program.schedule, program.schedule.phases[phase]
    shares = {ticks_scope(phase): float(len(ticks))}
    rows = bounds.make_instructions(program)
    here = slice(1 + ticks.start, 1 + ticks.stop)
    row = bounds.unpack_row([*np.moveaxis(rows.by_stage[:, here], 2, 0)], [*rows.joint[here].T])
    syncs = schedule.stage_syncs[ticks.start : ticks.stop]
    shares["stage_sync"] = float(np.mean(syncs))
    ends = row.modules[bounds.backbone_name].ends
    assert ends is not None  # as of every backbone that is lowered
    for scope in ("head", "return", "embed"):
        runs = np.sum(getattr(ends, f"{scope}_microbatch") >= 0)
        shares[scope] = float(runs / max(1, syncs.sum()))
    for kind in bounds.kinds[phase]:
        cells = row.runs[str(kind)] > 0
        shares[str(kind)] = float(np.mean(cells))
        for task, name in kind.tasks:
            if name in program.sources and cells.any():
                chunks = row.modules[name].of_kind(task).chunk[cells]
                last = program.modules[name].stages.chunks - 1
                shares[f"{kind}/{task}_first"] = float(np.mean(chunks == 0))
                shares[f"{kind}/{task}_last"] = float(np.mean(chunks == last))
    return shares
