"""Messages as values whose types are checked, as messages of other machines are not trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mllm_jax.runtime.wire import Message

T = TypeVar("T")


class MessageError(ValueError):
    """A message that nobody of a run sends."""


def parse_content(kind: type[T], message: Message | None) -> T:
    """The fields of a message as a value of `kind`, a dataclass; nothing is converted.

    Args:
        message: a message, which may hold more; None: none has come.

    Raises:
        MessageError: a field is missing or has another type; the message says which.
    """
    if message is None:
        raise MessageError("no message has come, or what has come is no JSON object in a line")
    names = [field.name for field in fields(kind) if field.name in message]  # type: ignore[arg-type]
    try:
        text = json.dumps({name: message[name] for name in names})
        value: T = _type_adapter(kind).validate_json(text, strict=True)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        problem = first["msg"][:1].lower() + first["msg"][1:]
        raise MessageError(f"{message.get('kind')!s:.40}: {where}: {problem}") from None
    return value


def parse_message(kinds: Mapping[str, type[Any]], message: Message | None) -> Any:
    """The content of a message of one of several kinds, by `kind`.

    Raises:
        MessageError: it is of none of them, or as of `content`.
    """
    kind = str((message or {}).get("kind"))
    if message is not None and kind not in kinds:
        raise MessageError(f"kind: {kind[:40]!r}; valid: {', '.join(kinds)}")
    return parse_content(kinds.get(kind, object), message)


@cache
def _type_adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
