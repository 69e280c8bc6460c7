"""Compiled, scheduled HLO modules, read off their text.

`Compiled.as_text()` lists the instructions of every computation in the order in which the device
starts them. Compute is counted in the FLOPs of matrix products: dots, convolutions, calls of
cuBLAS and kernels for products by groups, inside fusions as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,<=]*)\]")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_END = re.compile(r'^\}(, execution_thread="\w+")?$')
_TWO_BRANCHES = re.compile(r"\b(?:true|false)_computation=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_COMMENT = re.compile(r"/\*.*?\*/")


class HloError(ValueError):
    """The text is no compiled HLO module, or has parts that this module cannot read."""


@dataclass(frozen=True)
class HloInstruction:
    """One line of a computation.

    Attributes:
        name: unique in its computation.
        shape: shape of the result, with layouts.
        opcode: such as `fusion`.
        inputs: text in the brackets after the opcode.
        attributes: attributes, metadata and backend configuration as printed.
        root: whether it is the computation's result.
    """

    name: str
    shape: str
    opcode: str
    inputs: str
    attributes: str
    root: bool

    @property
    def operands(self) -> list[str]:
        """Names of the instructions whose results it takes."""
        return re.findall(r"%([\w.\-]+)", self.inputs)

    def called_computation(self, role: str) -> str | None:
        """Name of the computation with the role `calls`, `to_apply`, `body` or `condition`."""
        match = re.search(rf"\b{role}=%?([\w.\-]+)", self.attributes)
        return match[1] if match else None

    @property
    def branches(self) -> list[str]:
        """Names of the computations that a `conditional` chooses from."""
        several = re.search(r"\bbranch_computations=\{([^}]*)\}", self.attributes)
        listed = several[1] if several else " ".join(_TWO_BRANCHES.findall(self.attributes))
        return re.findall(r"[\w.\-]+", listed)

    @property
    def scopes(self) -> list[str]:
        """Scopes and operations of the source around it, the outermost first."""
        match = re.search(r'\bop_name="([^"]*)"', self.attributes)
        return match[1].split("/") if match else []

    def attribute_numbers(self, attribute: str) -> list[int]:
        """`attribute={1,2}` as numbers, empty if there is none."""
        match = re.search(rf"\b{attribute}=\{{([\d,]*)\}}", self.attributes)
        return [int(n) for n in match[1].split(",") if n] if match else []


@dataclass(frozen=True)
class HloComputation:
    """Instructions in the order in which the device starts them."""

    name: str
    instructions: tuple[HloInstruction, ...]

    @cached_property
    def by_name(self) -> dict[str, HloInstruction]:
        """Instructions by name."""
        return {instruction.name: instruction for instruction in self.instructions}

    @property
    def root(self) -> HloInstruction:
        """The instruction that is the result."""
        return next(i for i in reversed(self.instructions) if i.root)


@dataclass(frozen=True)
class HloModule:
    """A parsed module.

    Attributes:
        computations: computations by name.
        entry: name of the one that runs.
    """

    computations: Mapping[str, HloComputation]
    entry: str

    def __getitem__(self, name: str | None) -> HloComputation:
        try:
            return self.computations[name or ""]
        except KeyError:
            raise HloError(f"computation {name!r} is called, but not in the text") from None


def parse_hlo(text: str) -> HloModule:
    """The computations of `Compiled.as_text()`.

    Raises:
        HloError: the text is no HLO module or its instructions are not scheduled.
    """
    lines = text.splitlines()
    if not lines or not lines[0].startswith("HloModule"):
        raise HloError("the text does not begin with 'HloModule': it is no HLO module")
    if "is_scheduled=true" not in lines[0]:
        raise HloError(f"{_shorten(lines[0])}: not scheduled; give the text of a compiled module")
    computations: dict[str, HloComputation] = {}
    entry, name, body = None, None, list[str]()
    for line in lines[1:]:
        header = _HEADER.match(line)
        if header:
            name, body = header[2], []
            entry = name if header[1] else entry
        elif _END.match(line) and name is not None:
            computations[name] = HloComputation(name, tuple(map(_parse_instruction, body)))
            name = None
        elif line.startswith("  ") and name is not None:
            body.append(_COMMENT.sub("", line))
        elif body and name is not None:  # the configuration of a kernel may go on in further lines
            body[-1] += line
    if entry is None:
        raise HloError("the module has no ENTRY computation")
    return HloModule(computations, entry)


def _parse_instruction(line: str) -> HloInstruction:
    match = _INSTRUCTION.match(line)
    if not match:
        raise HloError(f"{_shorten(line)!r} is no instruction")
    root, name, right = match.groups()
    end = _closing_bracket(right, 0) if right.startswith("(") else right.find(" ")
    opcode, _, _ = right[end:].strip().partition("(")
    begin = right.find("(", end)
    if min(end, begin) < 0 or not re.fullmatch(r"[a-z][a-z\d\-]*", opcode):
        raise HloError(f"{_shorten(line)!r} is no instruction")
    close = _closing_bracket(right, begin)
    inputs, attributes = right[begin + 1 : close - 1], right[close:]
    return HloInstruction(name, right[:end], opcode, inputs, attributes, bool(root))


def _closing_bracket(text: str, begin: int) -> int:
    """Position after the bracket that closes the one at `begin`."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, begin):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    raise HloError(f"{_shorten(text)!r}: a bracket is not closed")


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) < 80 else f"{text[:77]}..."


# ---- sizes and work ------------------------------------------------------------------------------


def parse_arrays(shape: str) -> list[tuple[float, list[int]]]:
    """Bytes of an element and dimensions of every array of a printed shape, tuples flattened."""
    arrays = []
    for kind, bits, dims in _ARRAY.findall(shape):
        sizes = [int(size.lstrip("<=")) for size in dims.split(",") if size]
        arrays.append((1.0 if kind == "pred" else int(bits) / 8, sizes))
    return arrays


def shape_bytes(shape: str) -> float:
    """Bytes of all arrays of a printed shape without padding: `(bf16[2,8], f32[])` has 36."""
    return sum(size * math.prod(dims) for size, dims in parse_arrays(shape))


def instruction_flops(
    module: HloModule, computation: HloComputation, instruction: HloInstruction
) -> float:
    """FLOPs of the matrix products of one instruction and of the computations that it calls.

    Products count two FLOPs per multiply-add. Other kernels than those of products by groups count
    nothing, nor do conditionals and loops of unknown length.
    """
    if instruction.opcode == "dot":
        return _dot_flops(computation, instruction)
    if instruction.opcode == "convolution":
        return _convolution_flops(computation, instruction)
    if instruction.opcode == "custom-call":
        return _gemm_flops(computation, instruction) + _grouped_flops(computation, instruction)
    if instruction.opcode == "while":
        return (loop_trips(module, instruction) or 0) * _computation_flops(
            module, instruction.called_computation("body")
        )
    if instruction.opcode in ("fusion", "call", "async-start"):
        return _computation_flops(
            module,
            instruction.called_computation("calls") or instruction.called_computation("to_apply"),
        )
    return 0.0


def total_flops(module: HloModule) -> float:
    """FLOPs of all matrix products that a module runs, as far as `flops` knows them."""
    return _computation_flops(module, module.entry)


def loop_trips(module: HloModule, loop: HloInstruction) -> int | None:
    """Number of iterations of a `while`; None if the number is not known when it is compiled."""
    known = _TRIPS.search(loop.attributes)
    if known:
        return int(known[1])
    condition = module[loop.called_computation("condition")]
    test = condition.root  # of a scan: counter < constant
    if test.opcode != "compare" or "direction=LT" not in test.attributes:
        return None
    bound = condition.by_name.get(test.operands[-1])
    return int(bound.inputs) if bound is not None and bound.opcode == "constant" else None


def _computation_flops(module: HloModule, name: str | None) -> float:
    computation = module[name]
    return sum(instruction_flops(module, computation, i) for i in computation.instructions)


def _result_dimensions(computation: HloComputation, name: str) -> list[int]:
    """Dimensions of the first array of the result of `name`."""
    try:
        return parse_arrays(computation.by_name[name].shape)[0][1]
    except KeyError:
        raise HloError(f"{name} is read in {computation.name}, but not computed there") from None


def _dot_flops(computation: HloComputation, dot: HloInstruction) -> float:
    left = _result_dimensions(computation, dot.operands[0])
    contracted = math.prod(left[d] for d in dot.attribute_numbers("lhs_contracting_dims"))
    return 2.0 * math.prod(parse_arrays(dot.shape)[0][1]) * contracted


def _gemm_flops(computation: HloComputation, call: HloInstruction) -> float:
    """FLOPs of cuBLAS calls, whose contracted dimensions are in the backend's configuration."""
    match = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', call.attributes)
    if 'custom_call_target="__cublas' not in call.attributes or not match:
        return 0.0
    left = _result_dimensions(computation, call.operands[0])
    contracted = math.prod(left[int(d)] for d in re.findall(r"\d+", match[1]))
    return 2.0 * math.prod(parse_arrays(call.shape)[0][1]) * contracted


def _grouped_flops(computation: HloComputation, call: HloInstruction) -> float:
    """FLOPs of kernels of `mllm_jax.layers.experts.grouped`, as if all their rows were of groups.

    Such a kernel has one array of kernels, an operand or the result; both others have its rows.
    """
    if not any(scope.startswith("grouped_product") for scope in call.scopes):
        return 0.0
    operands = (_result_dimensions(computation, name) for name in call.operands)
    shapes = [*operands, parse_arrays(call.shape)[0][1]]
    kernels = [shape for shape in shapes if len(shape) == 3]
    return 2.0 * shapes[-3][0] * math.prod(kernels[0][1:]) if kernels else 0.0


def _convolution_flops(computation: HloComputation, convolution: HloInstruction) -> float:
    """FLOPs of a convolution; window positions outside of the array do not count, as in XLA.

    A batched product is a convolution on TPUs, with the batch as a dilated spatial dimension.
    """
    labels = re.search(r"\bdim_labels=(\w+)_(\w+)->(\w+)", convolution.attributes)
    if not labels:
        raise HloError(f"convolution {convolution.name} has no dim_labels")
    inputs, kernel = (_result_dimensions(computation, name) for name in convolution.operands[:2])
    outputs = parse_arrays(convolution.shape)[0][1]
    left, right, out = labels.groups()
    pairs = math.prod(
        _window_pairs(
            _window_dimension(convolution, int(d)), inputs[left.index(d)], outputs[out.index(d)]
        )
        for d in sorted(c for c in out if c.isdigit())
    )
    ends = outputs[out.index("b")] * outputs[out.index("f")]
    return 2.0 * ends * kernel[right.index("i")] * pairs


def _window_dimension(convolution: HloInstruction, dimension: int) -> dict[str, int]:
    """Size, stride, padding before and dilations of one spatial dimension."""
    match = re.search(r"\bwindow=\{([^}]*)\}", convolution.attributes)
    fields = dict(part.split("=") for part in match[1].split()) if match else {}
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
