"""Chat templates: from messages to the text of a conversation.

A template is a program that came with a file of weights, so it runs in a sandbox
(`data.hf_format.sandbox`); forbidden operations that are visible in its source are refused when it
is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, cast

import jinja2
from jinja2 import nodes

from data.hf_format.sandbox import LONGEST, RenderBudget, TemplateSandbox, budget

#: Characters of a template's file.
LONGEST_TEMPLATE = 1 << 18
_TURN = 1 << 12  # work of a turn of a loop or of a call, at least
_DATES = re.compile(r"(%[a-zA-Z%]|[^%])*")
_OTHER_FILES = (nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include)

Message = Mapping[str, Any]


class TemplateError(Exception):
    """A template that cannot be used, or not for these messages."""


class ChatTemplate:
    """A chat template, as transformers renders it.

    Args:
        source: source of the template.
        tokens: special tokens by name (`bos_token`), which it may write.
        today: date that `strftime_now` formats: always the same, so that runs can be repeated.

    Raises:
        TemplateError: the source is no jinja template, or uses a forbidden operation.
    """

    def __init__(self, source: str, tokens: Mapping[str, str], today: date) -> None:
        self._source, self._tokens = source, dict(tokens)
        if len(source) > LONGEST_TEMPLATE:
            raise TemplateError(
                f"it has {len(source)} characters; valid: at most {LONGEST_TEMPLATE}"
            )
        self._sandbox = TemplateSandbox(_date_function(today))
        self._template = self._run_bounded(self._compile_template)

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The text of a conversation; with a generation prompt, up to where an answer begins.

        Raises:
            TemplateError: the template refuses the messages, or fails, or does not come to an end.
        """
        variables = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
        }
        text = self._run_bounded(lambda: self._template.render(self._tokens | variables))
        if len(text) > LONGEST:
            raise TemplateError(f"it writes more than {LONGEST} characters")
        return text

    def _run_bounded(self, function: Callable[[], Any]) -> Any:
        """The result of `function`, with a budget of its own."""
        mark = budget.set(RenderBudget(turn=max(_TURN, len(self._source))))
        try:
            return function()
        # The template is a program of others: it may raise any error.
        except Exception as error:
            raise TemplateError(_explain_error(error)) from error
        finally:
            budget.reset(mark)

    def _compile_template(self) -> jinja2.Template:
        tree = self._sandbox.parse(self._source)
        _check_operations(tree)
        _count_work(tree)
        code = self._sandbox.compile(tree)
        variables = self._sandbox.make_globals(None)
        return self._sandbox.template_class.from_code(self._sandbox, code, variables)


def _date_function(today: date) -> Callable[[str], str]:
    def strftime_now(form: str) -> str:
        if not _DATES.fullmatch(form):
            raise TemplateError(f"strftime_now formats by {form!r}; valid: such as '%d %b %Y'")
        return datetime.combine(today, time()).strftime(form)

    return strftime_now


def _explain_error(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or calls itself without an end"
    if isinstance(error, TemplateError | jinja2.exceptions.SecurityError):
        return str(error)
    line = f"line {error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
    if isinstance(error, jinja2.TemplateError):
        return f"{line}{error.message}"
    return f"{type(error).__name__}: {error}"


def _check_operations(tree: nodes.Template) -> None:
    """Raise TemplateError for forbidden operations that are visible without running."""
    for other in tree.find_all(_OTHER_FILES):
        raise TemplateError(f"line {other.lineno}: it reads another file, of which there are none")
    for other in tree.find_all(nodes.EvalContextModifier):
        raise TemplateError(f"line {other.lineno}: it escapes what it writes, which is no HTML")
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            raise TemplateError(f"line {loop.lineno}: recursive loops are refused")
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Keyword, nodes.NSRef)):
        name = _reached_name(node)
        if isinstance(name, str) and name.startswith("_"):
            raise TemplateError(
                f"line {node.lineno}: it reaches for {name!r}; names with an underscore in front "
                "are Python's"
            )


def _reached_name(node: nodes.Node) -> object:
    """The name that a node looks up, if it is written there."""
    if isinstance(node, nodes.Getitem):
        return node.arg.value if isinstance(node.arg, nodes.Const) else None
    return node.key if isinstance(node, nodes.Keyword) else getattr(node, "attr", None)


def _count_work(tree: nodes.Template) -> None:
    """Let the sandbox count turns of loops, joins by `~`, and nested and compared values."""
    for loop in tree.find_all(nodes.For):
        loop.iter = _call_sandbox("count_items", cast(nodes.Expr, loop.iter))
    _measure_nodes(tree)


def _call_sandbox(method: str, value: nodes.Expr) -> nodes.Expr:
    """`value` as a method of the sandbox gives it."""
    function = nodes.EnvironmentAttribute(method)
    return nodes.Call(function, [value], [], None, None, lineno=value.lineno)


def _measure_nodes(node: nodes.Node) -> None:
    for field, value in list(node.iter_fields()):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, nodes.Node):
                _measure_nodes(child)
        if isinstance(value, list):
            setattr(node, field, [_measure_node(child) for child in value])
        else:
            setattr(node, field, _measure_node(value))


def _measure_node(node: Any) -> Any:
    match node:
        case nodes.Concat():
            return _call_sandbox("join_texts", nodes.List(node.nodes, lineno=node.lineno))
        case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
            return _call_sandbox("measure_value", node)
        case nodes.Compare():
            node.expr = _call_sandbox("measure_value", node.expr)
        case nodes.Operand():
            node.expr = _call_sandbox("measure_value", node.expr)
    return node
