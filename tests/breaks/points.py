"""Breaks of a module: each changes one operator, constant or condition, as a slip would.

===============  ==================================================================
what             becomes
===============  ==================================================================
`a < b`          `a <= b`; `==` becomes `!=`, `in` becomes `not in`, `is` `is not`
`a and b`        `a or b`, `a`, `b`
`not a`          `a`
`if a`           `if not a`, of statements, expressions and comprehensions
`a + b`          `a - b`; `*` becomes `/`, `//` `*`, `%` `//`, `|` `&`
`7`, `0.5`       `8` and `6`; `1.0`
`True`           `False`
`min`, `any`     `max`, `all`
`(a, *b)`        `(a,)`
===============  ==================================================================

Annotations, decorators, assertions, texts and what is formatted or logged stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Methods of loggers, whose arguments are texts and what is written into them.
LOGGING = ("debug", "info", "warning", "error", "exception", "log", "warn")


@dataclass(frozen=True)
class Break:
    """One change of one module.

    Attributes:
        path: the module, relative to the root of the repository.
        line: its line, from 1.
        start: first byte of what is replaced.
        stop: byte after it.
        before: what stands there, as one line.
        after: what takes its place.
    """

    path: str
    line: int
    start: int
    stop: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.before}  ->  {self.after}"

    def made(self, source: bytes) -> bytes:
        """The module with the break."""
        return source[: self.start] + self.after.encode() + source[self.stop :]


def breaks_of(root: Path, path: str) -> list[Break]:
    """All breaks of a module, in the order of its lines."""
    source = (root / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, after in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[node.end_lineno - 1] + node.end_col_offset
        text = ast.unparse(after)
        # Whatever stands around an expression may bind more closely than what takes its place.
        text = f"({text})" if isinstance(after, ast.expr) and not _is_atom(after) else text
        found.append(Break(path, node.lineno, start, stop, ast.unparse(node), text))
    return sorted(set(found), key=lambda own: (own.start, own.stop, own.after))


def _is_atom(node: ast.expr) -> bool:
    negative = isinstance(node, ast.Constant) and str(node.value).startswith("-")
    return isinstance(node, ast.Constant | ast.Name | ast.Call | ast.Tuple) and not negative


Change = tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]


def _changes(tree: ast.AST) -> Iterator[Change]:
    """Nodes, and what takes their places."""
    for node in _within(tree):
        for change in _CHANGES.get(type(node), ()):
            yield from change(node)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may be broken."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_alone(child):
                yield from _within(child)


def _is_left_alone(node: ast.AST) -> bool:
    """Whether nothing within a node is broken."""
    match node:
        case ast.JoinedStr() | ast.Assert():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)):
            return attr in LOGGING and name in ("logger", "logging", "warnings")
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name == "__all__" or _is_type(value)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _is_type(node: ast.expr) -> bool:
    """Whether an expression can only be a union of types, as `A | B`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return all(_is_type(own) or _is_class(own) for own in (node.left, node.right))
    return False


def _is_class(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "None")
    return name[:1].isupper() or name in ("int", "str", "float", "bool", "tuple", "list", "dict")


def _compared(node: ast.Compare) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        after = copy.deepcopy(node)
        after.ops[place] = COMPARISONS[type(operator)]()
        yield node, after


def _joined(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield node, ast.BoolOp(other, node.values)
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Not | ast.USub) and not isinstance(node.operand, ast.Constant):
        yield node, node.operand


def _condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[Change]:
    yield from _negated(node.test)


def _conditions(node: ast.comprehension) -> Iterator[Change]:
    for test in node.ifs:
        yield from _negated(test)


def _negated(test: ast.expr) -> Iterator[Change]:
    """A condition the other way round, unless another change is just that."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return
    if isinstance(test, ast.UnaryOp | ast.Constant):
        return
    yield test, ast.UnaryOp(ast.Not(), test)


def _binary(node: ast.BinOp) -> Iterator[Change]:
    text = isinstance(node.left, ast.Constant | ast.JoinedStr) and not _is_number(node.left)
    if type(node.op) in OPERATORS and not text:
        yield node, ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _augmented(node: ast.AugAssign) -> Iterator[Change]:
    if type(node.op) in OPERATORS:
        yield node, ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)


def _constant(node: ast.Constant) -> Iterator[Change]:
    match node.value:
        case bool():
            yield node, ast.Constant(not node.value)
        case int():
            yield node, ast.Constant(node.value + 1)
            yield node, ast.Constant(node.value - 1)
        case float():
            yield node, ast.Constant(2 * node.value if node.value else 1.0)


def _called(node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        yield node.func, ast.Name(FUNCTIONS[node.func.id])


def _starred(node: ast.Tuple | ast.List) -> Iterator[Change]:
    if not isinstance(node.ctx, ast.Load) or len(node.elts) < 2:
        return
    for place, item in enumerate(node.elts):
        if isinstance(item, ast.Starred):
            yield node, type(node)(node.elts[:place] + node.elts[place + 1 :], ast.Load())


_CHANGES: dict[type[ast.AST], tuple[Callable[..., Iterator[Change]], ...]] = {
    ast.Compare: (_compared,),
    ast.BoolOp: (_joined,),
    ast.UnaryOp: (_unary,),
    ast.If: (_condition,),
    ast.While: (_condition,),
    ast.IfExp: (_condition,),
    ast.comprehension: (_conditions,),
    ast.BinOp: (_binary,),
    ast.AugAssign: (_augmented,),
    ast.Constant: (_constant,),
    ast.Call: (_called,),
    ast.Tuple: (_starred,),
    ast.List: (_starred,),
}
