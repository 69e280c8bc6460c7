"""What a compiled, scheduled HLO module says about its collectives, read off its text.

`Compiled.as_text()` lists the instructions of every computation in the order in which the device
starts them. A collective is in flight from its `-start` to its `-done`; all that stands between the
two is independent of it::

    %s = (..) all-gather-start(%x), replica_groups={{0,1},{2,3}}
    %y = .. fusion(%a, %b), calls=%dot      <- runs while the network works
    %d = .. all-gather-done(%s)

Compute is counted in the FLOPs of matrix products (dots and convolutions, inside fusions as well)
at the peak of the device, collectives in the bytes that a ring sends over the links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

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

_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,<=]*)\]")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_TWO_BRANCHES = re.compile(r"\b(?:true|false)_computation=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_COMMENT = re.compile(r"/\*.*?\*/")


class HloError(ValueError):
    """A text that is no compiled HLO module, or one that says what this module cannot read."""


@dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
        name: unique in its computation.
        shape: of the result, with layouts.
        opcode: such as `fusion`.
        inputs: what stands in the brackets behind the opcode.
        rest: attributes, metadata and backend configuration as printed.
        root: whether it is the computation's result.
    """

    name: str
    shape: str
    opcode: str
    inputs: str
    rest: str
    root: bool

    @property
    def operands(self) -> list[str]:
        """Names of the instructions whose results it takes."""
        return re.findall(r"%([\w.\-]+)", self.inputs)

    def called(self, role: str) -> str | None:
        """Name of the computation with the role `calls`, `to_apply`, `body` or `condition`."""
        found = re.search(rf"\b{role}=%?([\w.\-]+)", self.rest)
        return found[1] if found else None

    @property
    def branches(self) -> list[str]:
        """Names of the computations that a `conditional` chooses from."""
        several = re.search(r"\bbranch_computations=\{([^}]*)\}", self.rest)
        listed = several[1] if several else " ".join(_TWO_BRANCHES.findall(self.rest))
        return re.findall(r"[\w.\-]+", listed)

    @property
    def scopes(self) -> list[str]:
        """Scopes and operations of the source around it, the outermost first."""
        found = re.search(r'\bop_name="([^"]*)"', self.rest)
        return found[1].split("/") if found else []

    def numbers(self, attribute: str) -> list[int]:
        """`attribute={1,2}` as numbers, empty if there is none."""
        found = re.search(rf"\b{attribute}=\{{([\d,]*)\}}", self.rest)
        return [int(n) for n in found[1].split(",") if n] if found else []


@dataclass(frozen=True)
class Computation:
    """Instructions in the order in which the device starts them."""

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """Instructions by name."""
        return {instruction.name: instruction for instruction in self.instructions}

    @property
    def root(self) -> Instruction:
        """The instruction that is the result."""
        return next(i for i in reversed(self.instructions) if i.root)


@dataclass(frozen=True)
class Module:
    """A parsed module.

    Attributes:
        computations: by name.
        entry: name of the one that runs.
    """

    computations: Mapping[str, Computation]
    entry: str

    def __getitem__(self, name: str | None) -> Computation:
        try:
            return self.computations[name or ""]
        except KeyError:
            raise HloError(f"computation {name!r} is called, but not in the text") from None


def parse(text: str) -> Module:
    """The computations of `Compiled.as_text()`.

    Raises:
        HloError: the text is no HLO module or its instructions are not scheduled.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("HloModule"):
        raise HloError("the text does not begin with 'HloModule': it is no HLO module")
    if "is_scheduled=true" not in lines[0]:
        raise HloError(f"{_shortened(lines[0])}: not scheduled; give the text of a compiled module")
    computations: dict[str, Computation] = {}
    entry, name, body = None, None, list[str]()
    for line in lines[1:]:
        header = _HEADER.match(line)
        if header:
            name, body = header[2], []
            entry = name if header[1] else entry
        elif line == "}" and name is not None:
            computations[name] = Computation(name, tuple(map(_instruction, body)))
            name = None
        elif line.startswith("  ") and name is not None:
            body.append(_COMMENT.sub("", line))
        elif body and name is not None:  # the configuration of a kernel may go on in further lines
            body[-1] += line
    if entry is None:
        raise HloError("the module has no ENTRY computation")
    return Module(computations, entry)


def _instruction(line: str) -> Instruction:
    found = _INSTRUCTION.match(line)
    if not found:
        raise HloError(f"{_shortened(line)!r} is no instruction")
    root, name, right = found.groups()
    end = _closing(right, 0) if right.startswith("(") else right.find(" ")
    opcode, _, _ = right[end:].strip().partition("(")
    begin = right.find("(", end)
    if min(end, begin) < 0 or not re.fullmatch(r"[a-z][a-z\d\-]*", opcode):
        raise HloError(f"{_shortened(line)!r} is no instruction")
    close = _closing(right, begin)
    inputs, rest = right[begin + 1 : close - 1], right[close:]
    return Instruction(name, right[:end], opcode, inputs, rest, bool(root))


def _closing(text: str, begin: int) -> int:
    """Position behind the bracket that closes the one at `begin`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, begin):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    raise HloError(f"{_shortened(text)!r}: a bracket is not closed")


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) < 80 else f"{text[:77]}..."


# ---- sizes and work ------------------------------------------------------------------------------


def arrays(shape: str) -> list[tuple[float, list[int]]]:
    """Bytes of an element and dimensions of every array of a printed shape, tuples flattened."""
    found = []
    for kind, bits, dims in _ARRAY.findall(shape):
        sizes = [int(size.lstrip("<=")) for size in dims.split(",") if size]
        found.append((1.0 if kind == "pred" else int(bits) / 8, sizes))
    return found


def shape_bytes(shape: str) -> float:
    """Bytes of all arrays of a printed shape without padding: `(bf16[2,8], f32[])` has 36."""
    return sum(size * math.prod(dims) for size, dims in arrays(shape))


def flops(module: Module, computation: Computation, instruction: Instruction) -> float:
    """FLOPs of the matrix products of one instruction, those of what it calls included.

    Products count two FLOPs per multiply-add. Kernels that are opaque custom calls count nothing,
    nor do conditionals and loops of unknown length.
    """
    if instruction.opcode == "dot":
        return _dot_flops(computation, instruction)
    if instruction.opcode == "convolution":
        return _convolution_flops(computation, instruction)
    if instruction.opcode == "custom-call":
        return _gemm_flops(computation, instruction)
    if instruction.opcode == "while":
        return (trips(module, instruction) or 0) * _total(module, instruction.called("body"))
    if instruction.opcode in ("fusion", "call", "async-start"):
        return _total(module, instruction.called("calls") or instruction.called("to_apply"))
    return 0.0


def trips(module: Module, loop: Instruction) -> int | None:
    """Iterations of a `while`, None where they are not known when it is compiled."""
    known = _TRIPS.search(loop.rest)
    if known:
        return int(known[1])
    condition = module[loop.called("condition")]
    test = condition.root  # of a scan: counter < constant
    if test.opcode != "compare" or "direction=LT" not in test.rest:
        return None
    bound = condition.by_name.get(test.operands[-1])
    return int(bound.inputs) if bound is not None and bound.opcode == "constant" else None


def _total(module: Module, name: str | None) -> float:
    computation = module[name]
    return sum(flops(module, computation, i) for i in computation.instructions)


def _dims(computation: Computation, name: str) -> list[int]:
    """Dimensions of the first array of the result of `name`."""
    try:
        return arrays(computation.by_name[name].shape)[0][1]
    except KeyError:
        raise HloError(f"{name} is read in {computation.name}, but not computed there") from None


def _dot_flops(computation: Computation, dot: Instruction) -> float:
    left = _dims(computation, dot.operands[0])
    contracted = math.prod(left[d] for d in dot.numbers("lhs_contracting_dims"))
    return 2.0 * math.prod(arrays(dot.shape)[0][1]) * contracted


def _gemm_flops(computation: Computation, call: Instruction) -> float:
    """Of cuBLAS calls, whose contracted dimensions are in the backend's configuration."""
    found = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', call.rest)
    if 'custom_call_target="__cublas' not in call.rest or not found:
        return 0.0
    left = _dims(computation, call.operands[0])
    contracted = math.prod(left[int(d)] for d in re.findall(r"\d+", found[1]))
    return 2.0 * math.prod(arrays(call.shape)[0][1]) * contracted


def _convolution_flops(computation: Computation, convolution: Instruction) -> float:
    """Only positions of the window that hit an element count, as in XLA's cost analysis.

    A batched product is a convolution on TPUs, with the batch as a dilated spatial dimension.
    """
    labels = re.search(r"\bdim_labels=(\w+)_(\w+)->(\w+)", convolution.rest)
    if not labels:
        raise HloError(f"convolution {convolution.name} has no dim_labels")
    inputs, kernel = (_dims(computation, name) for name in convolution.operands[:2])
    outputs = arrays(convolution.shape)[0][1]
    left, right, out = labels.groups()
    pairs = math.prod(
        _window_pairs(_window(convolution, int(d)), inputs[left.index(d)], outputs[out.index(d)])
        for d in sorted(c for c in out if c.isdigit())
    )
    ends = outputs[out.index("b")] * outputs[out.index("f")]
    return 2.0 * ends * kernel[right.index("i")] * pairs


def _window(convolution: Instruction, dimension: int) -> dict[str, int]:
    """Size, stride, padding before and dilations of one spatial dimension."""
    found = re.search(r"\bwindow=\{([^}]*)\}", convolution.rest)
    fields = dict(part.split("=") for part in found[1].split()) if found else {}
    names = ("size", "stride", "lhs_dilate", "rhs_dilate")
    window = {n: int(fields[n].split("x")[dimension]) if n in fields else 1 for n in names}
    pad = fields.get("pad", "").split("x")[dimension] if "pad" in fields else "0_0"
    return window | {"pad": int(pad.split("_")[0])}


def _window_pairs(window: Mapping[str, int], inputs: int, outputs: int) -> int:
    """Pairs of an output position and a window position that meet an element of the input."""
    position = (
        np.arange(outputs)[:, None] * window["stride"]
        + np.arange(window["size"]) * window["rhs_dilate"]
        - window["pad"]
    )
    element, between = np.divmod(position, window["lhs_dilate"])
    return int(np.sum((between == 0) & (element >= 0) & (element < inputs)))


# ---- collectives ---------------------------------------------------------------------------------


def replica_groups(instruction: Instruction) -> Groups:
    """Devices that take part together: `{{0,1},{2,3}}`, `[2,2]<=[4]` or the pairs of a permute.

    Empty where the text has no groups: all devices are one.

    Raises:
        HloError: the groups are written in another way.
    """
    pairs = re.search(r"\bsource_target_pairs=\{((?:\{[\d,]*\},?)*)\}", instruction.rest)
    listed = re.search(r"\breplica_groups=\{((?:\{[\d,]*\},?)*)\}", instruction.rest) or pairs
    if listed:
        groups = re.findall(r"\{([\d,]*)\}", listed[1])
        return tuple(tuple(int(n) for n in group.split(",") if n) for group in groups)
    iota = re.search(
        r"\breplica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", instruction.rest
    )
    if not iota:
        raise HloError(f"{instruction.name}: replica groups are missing or in an unknown form")
    shape, dims, order = (
        [int(n) for n in part.split(",")] if part else [] for part in iota.groups()
    )
    devices = np.arange(math.prod(dims)).reshape(dims)
    rows = devices.transpose(order or None).reshape(shape)
    return tuple(tuple(row) for row in rows.tolist())


def ring_bytes(opcode: str, result: float, devices: int) -> float:
    """Bytes that each device sends in a ring of `devices`.

    Args:
        opcode: of the collective.
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
class Overlap:
    """Collectives of a module, each counted as often as the loops around it run.

    Attributes:
        collectives: how many stand in the text.
        seconds: that they take.
        hidden_seconds: thereof with independent compute at the same time.
    """

    collectives: int = 0
    seconds: float = 0.0
    hidden_seconds: float = 0.0

    @property
    def hidden_share(self) -> float:
        """Share of the time that is hidden; 0 if there are no collectives."""
        return self.hidden_seconds / self.seconds if self.seconds else 0.0

    def __add__(self, other: Overlap) -> Overlap:
        return Overlap(
            self.collectives + other.collectives,
            self.seconds + other.seconds,
            self.hidden_seconds + other.hidden_seconds,
        )

    def times(self, weight: float) -> Overlap:
        """The same, run `weight` times."""
        return Overlap(self.collectives, weight * self.seconds, weight * self.hidden_seconds)


@dataclass(frozen=True)
class Speeds:
    """Of one device.

    Attributes:
        flops: peak FLOP/s of its matrix products.
        link: bytes per second that it sends to its neighbour in a ring.
    """

    flops: float
    link: float


def overlap(
    module: Module,
    speeds: Speeds,
    counted: Callable[[Groups], bool],
    runs: Callable[[Instruction], float] = lambda loop: 1.0,
) -> Overlap:
    """How much of the collectives' time has compute of other data scheduled inside it.

    The network serves one collective after the other, in the order in which they start, and only
    while there is compute beside them: a product hides no more than its own time, however many
    collectives are in flight.

    Args:
        counted: whether collectives of these groups count.
        runs: mean iterations of a `while` of which the text does not tell them.

    Raises:
        HloError: a collective starts and is never done, or is done and never starts.
    """

    def of(name: str | None) -> Overlap:
        computation = module[name]
        total = _in_sequence(module, computation, speeds, counted)
        for instruction in computation.instructions:
            times = 1.0
            if instruction.opcode == "while":
                times = trips(module, instruction) or runs(instruction)
            for inner in _sequences(instruction):
                total += of(inner).times(times)
        return total

    return of(module.entry)


def _in_sequence(
    module: Module, computation: Computation, speeds: Speeds, counted: Callable[[Groups], bool]
) -> Overlap:
    """Overlap of the collectives that stand in `computation` itself."""
    total, left = Overlap(), dict[str, float]()
    events = _events(module, computation)
    for instruction in computation.instructions:
        event = events.get(instruction.name)
        if event is None or event.phase == "middle":
            if any(left.values()):
                compute = flops(module, computation, instruction) / speeds.flops
                total += Overlap(hidden_seconds=_hide(left, compute))
        elif event.phase == "done":
            left.pop(event.key, None)
        elif counted(replica_groups(event.collective)):
            seconds = collective_seconds(event.collective, event.result, speeds)
            total += Overlap(1, seconds)
            if event.phase == "start":
                left[event.key] = seconds
    return total


def _hide(left: dict[str, float], compute: float) -> float:
    """Take `compute` seconds off those that collectives still need, the oldest first."""
    spare = compute
    for name, seconds in left.items():
        left[name] = seconds - min(seconds, spare)
        spare -= seconds - left[name]
    return compute - spare


Phase = Literal["whole", "start", "middle", "done"]


class Event(NamedTuple):
    """What an instruction does for a collective.

    Attributes:
        phase: runs it as a `whole`, nothing beside it; or one phase of an asynchronous one. In the
            `middle` is compute that a TPU has fused with a part of the collective.
        key: the same for all phases of one collective.
        collective: the instruction with the groups.
        result: printed shape of what the collective computes.
    """

    phase: Phase
    key: str
    collective: Instruction
    result: str


def _events(module: Module, computation: Computation) -> dict[str, Event]:
    """Collectives of a computation, by the name of the instruction.

    Raises:
        HloError: a collective starts and is never done, or is done and never starts.
    """
    found = {i.name: event for i in computation.instructions if (event := _event(module, i))}
    done = {}
    for instruction in computation.instructions:
        if instruction.opcode.endswith("-done"):
            begin = found.get(_begin(computation, instruction))
            if begin is not None:  # else a copy, or another operation without a network
                done[instruction.name] = begin._replace(phase="done", result=instruction.shape)
    results = {event.key: event.result for event in done.values()}
    found = {
        name: event._replace(result=results.get(event.key, event.result))
        for name, event in (found | done).items()
    }
    keys = {
        phase: {event.key for event in found.values() if event.phase == phase}
        for phase in ("start", "done")
    }
    for key in sorted(keys["start"] ^ keys["done"]):
        what = "starts and is not done" if key in keys["start"] else "is done and does not start"
        raise HloError(f"the collective {key} {what} in {computation.name}")
    return found


def _event(module: Module, instruction: Instruction) -> Event | None:
    """What can be said of an instruction by itself: a native `-done` is known by its `-start`."""
    if instruction.opcode in COLLECTIVES:
        return Event("whole", instruction.name, instruction, instruction.shape)
    if instruction.opcode.removesuffix("-start") in COLLECTIVES:
        return Event("start", instruction.name, instruction, instruction.shape)
    if instruction.opcode not in ("async-start", "fusion"):
        return None
    inside = module[instruction.called("calls")].instructions
    collective = next((i for i in inside if i.opcode in COLLECTIVES), None)
    if collective is None:
        return None
    if instruction.opcode == "async-start":
        return Event("start", instruction.name, collective, collective.shape)
    chain = re.search(r'\bchain_id="(\w+)"', collective.rest)
    if not chain:
        return Event("whole", instruction.name, collective, collective.shape)
    phase: Phase = "middle"
    for name in ("start", "done"):
        if any(f'"AsyncCollective{name.title()}"' in i.rest for i in inside):
            phase = "start" if name == "start" else "done"
    return Event(phase, f"chain {chain[1]}", collective, collective.shape)


def _begin(computation: Computation, done: Instruction) -> str:
    """Name of the `-start` that `done` ends."""
    name = done.operands[0] if done.operands else ""
    begin = computation.by_name.get(name)
    if begin is not None and begin.opcode == "async-update":
        return _begin(computation, begin)
    if begin is None or not begin.opcode.endswith("-start"):
        raise HloError(
            f"{done.name} in {computation.name} ends {name!r}, which does not start there"
        )
    return name


def collective_seconds(collective: Instruction, result: str, speeds: Speeds) -> float:
    """Seconds of a collective whose result has the printed shape `result`.

    Raises:
        HloError: its groups are not listed.
    """
    groups = replica_groups(collective)
    if not groups:
        raise HloError(f"{collective.name}: replica groups are not listed")
    opcode = collective.opcode.removesuffix("-start")
    return ring_bytes(opcode, shape_bytes(result), len(groups[0])) / speeds.link


def _sequences(instruction: Instruction) -> list[str | None]:
    """Computations that an instruction runs one instruction after the other."""
    if instruction.opcode == "while":
        return [instruction.called("body")]
    if instruction.opcode == "call":
        return [instruction.called("to_apply")]
    return list(instruction.branches) if instruction.opcode == "conditional" else []
