"""The sandbox of chat templates: jinja2's own, and bounded.

jinja2 keeps templates from Python's internals, but bounds no resources except `range`. Here the
work of a rendering is counted (`Budget`), and operations with possibly large results are measured
beforehand: products, powers, formats, replacements, comparisons of nested values. Only listed
functions, methods, filters and tests may be called: those with a use in chat templates. No text is
`Markup`, whose methods are Python's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from types import BuiltinMethodType, MethodType
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_round
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Characters of a value that a template computes, and of all that it writes; items of a list.
LONGEST = 1 << 22
#: Bound on a rendering's work: characters read and written, and those of the template for each turn
#: of a loop.
WORK = 1 << 30
_LARGEST = 1 << 63  # of integers
_ITEM = 1 << 10  # work of looking at an item
_FILTERS = (
    "abs count d default dictsort first float groupby int items last length list map max min "
    "reject rejectattr reverse select selectattr sort unique"
)
#: Filters among these that compare whole items.
_COMPARING = "dictsort groupby max min sort unique"
_TEXT_FILTERS = "capitalize lower string title trim upper wordcount"
_TESTS = (
    "boolean defined divisibleby even false float integer iterable mapping none number odd sameas "
    "sequence string true undefined"
)
_COMPARING_TESTS = "!= < <= == > >= eq equalto ge greaterthan gt in le lessthan lt ne"
_STRING_METHODS = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit "
    "islower isnumeric isspace istitle isupper join lower lstrip partition removeprefix "
    "removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip "
    "swapcase title upper"
)
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(_STRING_METHODS.split()),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
}
_WIDE = re.compile(r"%[^%a-zA-Z]*(\d{4}|\*)")  # a format of a thousand characters or more


@dataclass
class Budget:
    """The remaining budget of one rendering.

    Attributes:
        turn: work of a turn of a loop and of a call.
        work: see `WORK`.
        characters: characters that may still be written.
    """

    turn: int
    work: int = WORK
    characters: int = LONGEST

    def spend(self, work: int) -> None:
        """Raises SecurityError: there is nothing left."""
        self.work -= work
        if self.work < 0:
            raise SecurityError("it does too much work; is a loop endless?")

    def write(self, value: object) -> str:
        """The text of what is written. Raises SecurityError: it is too long."""
        text = _text(value)
        self.characters -= len(text)
        if self.characters < 0:
            raise SecurityError(f"it writes more than {LONGEST} characters")
        return text


#: Budget of the present rendering of this thread.
budget: ContextVar[Budget] = ContextVar("budget")


# ---- measures ------------------------------------------------------------------------------------


def _room(length: int) -> None:
    budget.get().spend(length)
    if length > LONGEST:
        raise SecurityError(f"it makes a value of more than {LONGEST} characters or items")


def _bounded(value: Any) -> Any:
    """`value`, unless it is too large."""
    if isinstance(value, str | list | tuple | dict):
        _room(len(value))
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise SecurityError("it computes with integers of more than 64 bits")
    return value


def _text(value: object) -> str:
    """`str(value)`, for values whose text is not much longer than they are."""
    if not isinstance(value, str):
        _weigh(value)
    return _bounded(str(value))


def _weigh(value: object) -> None:
    """Spend the work of writing `value`."""
    for item in _leaves_of(value):
        if not isinstance(item, str | int | float | range | Undefined | None):
            raise SecurityError(f"it writes a {type(item).__name__}; valid: JSON's types")


def _leaves_of(value: object) -> Iterator[object]:
    """Spend the work of visiting all of `value`, repeated parts included; yields its leaves."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        budget.get().spend(_ITEM)
        _bounded(item)
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
        else:
            yield item


def _visited(value: Any) -> Any:
    """`value`, after spending the work of visiting all of it."""
    for _ in _leaves_of(value):
        pass
    return value


# ---- what templates may call ---------------------------------------------------------------------


def _charged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that spends the work of its input."""

    @wraps(function)  # with jinja's marks of what is passed beside the value
    def charged(*values: Any, **keywords: Any) -> Any:
        for value in (*values, *keywords.values()):
            if isinstance(value, str | list | tuple | dict | range):
                unit = 1 if isinstance(value, str) else _ITEM
                budget.get().spend(unit * len(value))
        return _bounded(function(*values, **keywords))

    return charged


def _comparing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or method that compares its arguments, and may nest them."""

    @wraps(function)
    def comparing(*values: Any, **keywords: Any) -> Any:
        for value in (*values, *keywords.values()):
            _visited(value)
        return _visited(function(*values, **keywords))

    return comparing


def _strips(text: str, *arguments: Any) -> None:
    """Spend the work of stripping other characters than white space."""
    for characters in arguments:
        if isinstance(characters, str):
            budget.get().spend(len(text) * len(characters))


def _stripped(text: str, function: Callable[..., str], *characters: Any) -> str:
    _strips(text, *characters)
    return function(*characters)


def _textual(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that takes a text."""

    @wraps(function)
    def textual(value: object, *arguments: Any) -> Any:
        text = _text(value)
        _strips(text, *arguments)
        return _bounded(function(text, *arguments))

    return textual


def _replace(text: object, old: object, new: object, count: int | None = None) -> str:
    string, part, other = _text(text), _text(old), _text(new)
    _room(len(string) + (string.count(part) if part else len(string) + 1) * len(other))
    return string.replace(part, other, -1 if count is None else count)


def _join(items: Iterable[object], separator: object = "") -> str:
    texts, between = [_text(item) for item in items], _text(separator)
    _room(sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    _weigh(value)
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 16):
        raise SecurityError(f"tojson indents by {indent!r}; valid: 0 to 16")
    if separators is not None and max(map(len, separators)) > 16:
        raise SecurityError("tojson separates by more than 16 characters")
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    if not (isinstance(precision, int) and 0 <= precision <= 16):
        raise SecurityError(f"it rounds to {precision!r} places; valid: 0 to 16")
    return do_round(value, precision, method)  # type: ignore[arg-type]


def _sum(items: Iterable[Any], attribute: str | None = None, start: Any = 0) -> Any:
    values = [item[attribute] for item in items] if attribute else list(items)
    for value in (start, *values):
        if not isinstance(value, int | float):
            raise SecurityError(f"it adds up a {type(value).__name__}; valid: numbers")
    return sum(values, start)


def _format(text: object, *values: object) -> str:
    return str(_remainder(str(text), values))


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _times(left: Any, right: Any) -> Any:
    for count, items in ((left, right), (right, left)):
        if isinstance(count, int) and isinstance(items, str | list | tuple):
            _room(abs(count) * len(items))
    return left * right


def _power(left: Any, right: Any) -> Any:
    if abs(left) > 1 << 15 or abs(right) > 4:
        raise SecurityError(f"it raises {left} to the power of {right}")
    return left**right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        if _WIDE.search(left):
            raise SecurityError(f"it formats by {left!r}")
        _weigh(right)
    return left % right


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "*": _times,
    "**": _power,
    "%": _remainder,
}


# ---- the environment -----------------------------------------------------------------------------


#: Methods of `Sandbox` that templates are compiled to call.
_SANDBOX_METHODS = ("counted", "joined", "measured")


def _dict(**items: Any) -> dict[str, Any]:
    return items


class _Generation(Extension):
    """`{% generation %}` around an answer, which some templates have: what is inside, as it is."""

    tags = {"generation"}  # noqa: RUF012  (as jinja2 has it)

    def parse(self, parser: Parser) -> nodes.Node:
        """The node of the tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of templates, with a `budget` set.

    Args:
        strftime_now: function that gives templates the date.
    """

    intercepted_binops = frozenset(_OPERATORS)

    def __init__(self, strftime_now: Callable[[str], str]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            finalize=lambda value: budget.get().write(value),
        )
        filters = {name: _charged(self.filters[name]) for name in _FILTERS.split()}
        filters |= {name: _comparing(filters[name]) for name in _COMPARING.split()}
        filters |= {name: _textual(self.filters[name]) for name in _TEXT_FILTERS.split()}
        bounded = {"format": _format, "join": _join, "replace": _replace, "tojson": _tojson}
        bounded |= {"round": _round, "safe": _text, "sum": _charged(_sum)}
        self.filters = filters | bounded
        tests: Mapping[str, Any] = self.tests
        compared = {name: _comparing(tests[name]) for name in _COMPARING_TESTS.split()}
        self.tests = {name: tests[name] for name in _TESTS.split()} | compared
        self.globals = {
            "dict": _dict,
            "namespace": self.globals["namespace"],
            "raise_exception": _raise_exception,
            "range": self.globals["range"],
            "strftime_now": strftime_now,
        }

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        """Raises SecurityError."""
        raise SecurityError(f"it reaches for {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> None:
        """Raises SecurityError: for `str.format`, whose arguments may have formats of their own."""
        if isinstance(value, BuiltinMethodType) and value.__name__ in ("format", "format_map"):
            raise SecurityError("it calls str.format; valid: `%` and `~`")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operator of `intercepted_binops`."""
        return _bounded(_OPERATORS[operator](left, right))

    # The names leave room for keyword arguments of any name.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Any call that a template makes."""
        remaining = budget.get()
        remaining.spend(remaining.turn)
        if _is_method(__obj, Sandbox, _SANDBOX_METHODS):
            return super().call(__context, __obj, *args)
        _visited((args, kwargs))
        return _bounded(super().call(__context, __self._allowed(__obj), *args, **kwargs))

    def _allowed(self, function: Any) -> Any:
        """The function to call in place of `function`."""
        if isinstance(function, BuiltinMethodType):
            return _method(function)
        known = any(function is value for value in self.globals.values())
        if known or isinstance(function, Macro | Undefined):
            return function
        if _is_method(function, LoopContext, ("changed", "cycle")):
            return function
        raise SecurityError(f"it calls a {type(function).__name__}, which has no use here")

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        """Items of a loop, counted."""
        remaining = budget.get()
        for item in items:
            remaining.spend(remaining.turn)
            yield item

    def measured(self, value: Any) -> Any:
        """A value that a template builds of other values, or compares."""
        return _visited(value)

    def joined(self, items: Sequence[object]) -> str:
        """The text that `~` joins."""
        return _join(items)


def _is_method(function: Any, kind: type, names: Sequence[str]) -> bool:
    """Whether `function` is a method of an instance of `kind`, by one of `names`."""
    return (
        isinstance(function, MethodType)
        and isinstance(function.__self__, kind)
        and function.__name__ in names
    )


def _method(function: BuiltinMethodType) -> Any:
    """The function to call in place of a method of a value."""
    owner, name = function.__self__, function.__name__
    if name not in _METHODS.get(type(owner), frozenset()):
        raise SecurityError(f"it calls {type(owner).__name__}.{name}, which has no use here")
    _bounded(owner)
    if isinstance(owner, str) and name in ("join", "replace"):
        return lambda *args: _join(args[0], owner) if name == "join" else _replace(owner, *args)
    if isinstance(owner, str) and name.endswith("strip"):
        return partial(_stripped, owner, function)
    if isinstance(owner, list | tuple):
        _visited(owner)
        return _comparing(function)
    return function
