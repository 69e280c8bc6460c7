"""The sandbox of chat templates: jinja2's own, and bounded.

jinja2 keeps templates from Python's internals, but bounds no resources except `range`. Here the
work of a rendering is counted (`RenderBudget`), and operations with possibly large results are
measured beforehand: products, powers, formats, replacements, comparisons of nested values. Only
listed functions, methods, filters and tests may be called: those with a use in chat templates. No
text is `Markup`, whose methods are Python's.
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
class RenderBudget:
    """The remaining budget of one rendering.

    Attributes:
        turn: work of a turn of a loop and of a call.
        work: see `WORK`.
        characters: characters that may still be written.
    """

    turn: int
    work: int = WORK
    characters: int = LONGEST

    def use_work(self, work: int) -> None:
        """Raises SecurityError: there is nothing left."""
        self.work -= work
        if self.work < 0:
            raise SecurityError("it does too much work; is a loop endless?")

    def write_value(self, value: object) -> str:
        """The text of what is written. Raises SecurityError: it is too long."""
        text = _text_of(value)
        self.characters -= len(text)
        if self.characters < 0:
            raise SecurityError(f"it writes more than {LONGEST} characters")
        return text


#: Budget of the present rendering of this thread.
budget: ContextVar[RenderBudget] = ContextVar("budget")


# ---- measures ------------------------------------------------------------------------------------


def _check_length(length: int) -> None:
    budget.get().use_work(length)
    if length > LONGEST:
        raise SecurityError(f"it makes a value of more than {LONGEST} characters or items")


def _check_size(value: Any) -> Any:
    """`value`, unless it is too large."""
    if isinstance(value, str | list | tuple | dict):
        _check_length(len(value))
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise SecurityError("it computes with integers of more than 64 bits")
    return value


def _text_of(value: object) -> str:
    """`str(value)`, for values whose text is not much longer than they are."""
    if not isinstance(value, str):
        _charge_writing(value)
    return _check_size(str(value))


def _charge_writing(value: object) -> None:
    """Spend the work of writing `value`."""
    for item in _leaves_of(value):
        if not isinstance(item, str | int | float | range | Undefined | None):
            raise SecurityError(f"it writes a {type(item).__name__}; valid: JSON's types")


def _leaves_of(value: object) -> Iterator[object]:
    """Spend the work of visiting all of `value`, repeated parts included; yields its leaves."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        budget.get().use_work(_ITEM)
        _check_size(item)
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
        else:
            yield item


def _charge_visit(value: Any) -> Any:
    """`value`, after spending the work of visiting all of it."""
    for _ in _leaves_of(value):
        pass
    return value


# ---- what templates may call ---------------------------------------------------------------------


def _charge_input(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that spends the work of its input."""

    @wraps(function)  # with jinja's marks of what is passed besides the value
    def call_charged(*values: Any, **keywords: Any) -> Any:
        for value in (*values, *keywords.values()):
            if isinstance(value, str | list | tuple | dict | range):
                unit = 1 if isinstance(value, str) else _ITEM
                budget.get().use_work(unit * len(value))
        return _check_size(function(*values, **keywords))

    return call_charged


def _charge_comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or method that compares its arguments, and may nest them."""

    @wraps(function)
    def call_comparison(*values: Any, **keywords: Any) -> Any:
        for value in (*values, *keywords.values()):
            _charge_visit(value)
        return _charge_visit(function(*values, **keywords))

    return call_comparison


def _charge_strip(text: str, *arguments: Any) -> None:
    """Spend the work of stripping other characters than white space."""
    for characters in arguments:
        if isinstance(characters, str):
            budget.get().use_work(len(text) * len(characters))


def _strip_text(text: str, function: Callable[..., str], *characters: Any) -> str:
    _charge_strip(text, *characters)
    return function(*characters)


def _text_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that takes a text."""

    @wraps(function)
    def call_with_text(value: object, *arguments: Any) -> Any:
        text = _text_of(value)
        _charge_strip(text, *arguments)
        return _check_size(function(text, *arguments))

    return call_with_text


def _replace_text(text: object, old: object, new: object, count: int | None = None) -> str:
    string, part, other = _text_of(text), _text_of(old), _text_of(new)
    _check_length(len(string) + (string.count(part) if part else len(string) + 1) * len(other))
    return string.replace(part, other, -1 if count is None else count)


def _join_texts(items: Iterable[object], separator: object = "") -> str:
    texts, between = [_text_of(item) for item in items], _text_of(separator)
    _check_length(sum(map(len, texts)) + len(texts) * len(between))
    return between.join(texts)


def _write_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    _charge_writing(value)
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


def _round_number(value: Any, precision: int = 0, method: str = "common") -> Any:
    if not (isinstance(precision, int) and 0 <= precision <= 16):
        raise SecurityError(f"it rounds to {precision!r} places; valid: 0 to 16")
    return do_round(value, precision, method)  # type: ignore[arg-type]


def _sum_numbers(items: Iterable[Any], attribute: str | None = None, start: Any = 0) -> Any:
    values = [item[attribute] for item in items] if attribute else list(items)
    for value in (start, *values):
        if not isinstance(value, int | float):
            raise SecurityError(f"it adds up a {type(value).__name__}; valid: numbers")
    return sum(values, start)


def _format_text(text: object, *values: object) -> str:
    return str(_take_remainder(str(text), values))


def _raise_exception(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _multiply_values(left: Any, right: Any) -> Any:
    for count, items in ((left, right), (right, left)):
        if isinstance(count, int) and isinstance(items, str | list | tuple):
            _check_length(abs(count) * len(items))
    return left * right


def _raise_to_power(left: Any, right: Any) -> Any:
    if abs(left) > 1 << 15 or abs(right) > 4:
        raise SecurityError(f"it raises {left} to the power of {right}")
    return left**right


def _take_remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        if _WIDE.search(left):
            raise SecurityError(f"it formats by {left!r}")
        _charge_writing(right)
    return left % right


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "*": _multiply_values,
    "**": _raise_to_power,
    "%": _take_remainder,
}


# ---- the environment -----------------------------------------------------------------------------


#: Methods of `TemplateSandbox` that templates are compiled to call.
_SANDBOX_METHODS = ("count_items", "join_texts", "measure_value")


def _make_dict(**items: Any) -> dict[str, Any]:
    return items


class _GenerationTag(Extension):
    """`{% generation %}` around an answer, which some templates have: what is inside, as it is."""

    tags = {"generation"}  # noqa: RUF012  (as jinja2 has it)

    def parse(self, parser: Parser) -> nodes.Node:
        """The node of the tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The environment of templates, with a `budget` set.

    Args:
        strftime_now: function that gives templates the date.
    """

    intercepted_binops = frozenset(_OPERATORS)

    def __init__(self, strftime_now: Callable[[str], str]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_GenerationTag, loopcontrols],
            finalize=lambda value: budget.get().write_value(value),
        )
        filters = {name: _charge_input(self.filters[name]) for name in _FILTERS.split()}
        filters |= {name: _charge_comparison(filters[name]) for name in _COMPARING.split()}
        filters |= {name: _text_filter(self.filters[name]) for name in _TEXT_FILTERS.split()}
        bounded = {
            "format": _format_text,
            "join": _join_texts,
            "replace": _replace_text,
            "tojson": _write_json,
        }
        bounded |= {"round": _round_number, "safe": _text_of, "sum": _charge_input(_sum_numbers)}
        self.filters = filters | bounded
        tests: Mapping[str, Any] = self.tests
        compared = {name: _charge_comparison(tests[name]) for name in _COMPARING_TESTS.split()}
        self.tests = {name: tests[name] for name in _TESTS.split()} | compared
        self.globals = {
            "dict": _make_dict,
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
        return _check_size(_OPERATORS[operator](left, right))

    # The names leave room for keyword arguments of any name.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Any call that a template makes."""
        remaining = budget.get()
        remaining.use_work(remaining.turn)
        if _is_method(__obj, TemplateSandbox, _SANDBOX_METHODS):
            return super().call(__context, __obj, *args)
        _charge_visit((args, kwargs))
        return _check_size(
            super().call(__context, __self._allowed_function(__obj), *args, **kwargs)
        )

    def _allowed_function(self, function: Any) -> Any:
        """The function to call in place of `function`."""
        if isinstance(function, BuiltinMethodType):
            return _allowed_method(function)
        known = any(function is value for value in self.globals.values())
        if known or isinstance(function, Macro | Undefined):
            return function
        if _is_method(function, LoopContext, ("changed", "cycle")):
            return function
        raise SecurityError(f"it calls a {type(function).__name__}, which has no use here")

    def count_items(self, items: Iterable[Any]) -> Iterator[Any]:
        """Items of a loop, counted."""
        remaining = budget.get()
        for item in items:
            remaining.use_work(remaining.turn)
            yield item

    def measure_value(self, value: Any) -> Any:
        """A value that a template builds of other values, or compares."""
        return _charge_visit(value)

    def join_texts(self, items: Sequence[object]) -> str:
        """The text that `~` joins."""
        return _join_texts(items)


def _is_method(function: Any, kind: type, names: Sequence[str]) -> bool:
    """Whether `function` is a method of an instance of `kind`, by one of `names`."""
    return (
        isinstance(function, MethodType)
        and isinstance(function.__self__, kind)
        and function.__name__ in names
    )


def _allowed_method(function: BuiltinMethodType) -> Any:
    """The function to call in place of a method of a value."""
    owner, name = function.__self__, function.__name__
    if name not in _METHODS.get(type(owner), frozenset()):
        raise SecurityError(f"it calls {type(owner).__name__}.{name}, which has no use here")
    _check_size(owner)
    if isinstance(owner, str) and name in ("join", "replace"):
        return lambda *args: (
            _join_texts(args[0], owner) if name == "join" else _replace_text(owner, *args)
        )
    if isinstance(owner, str) and name.endswith("strip"):
        return partial(_strip_text, owner, function)
    if isinstance(owner, list | tuple):
        _charge_visit(owner)
        return _charge_comparison(function)
    return function
