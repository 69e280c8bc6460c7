"""Probes that find the form of messages that a chat template accepts.

For each role the template takes content as parts (`{"type": "text", "text": ...}`) or as a text;
and it writes a placeholder for a part that is an image or a clip, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from data.hf_format.template import ChatTemplate, Message, TemplateError
from data.rows.spec import Kind
from data.sample import Role, Turn

PROBES: dict[Role, str] = {"system": "Probe 1.", "user": "Probe 2.", "assistant": "Probe 3."}
_UNREAD = "Probe 4."  # in a key that no template reads
#: Another answer, which a template that changes cases does not leave as it is.
OTHER_ANSWER = "yes, it IS Probe 5"
_ROLES = tuple(PROBES)
#: Two questions with their answers.
TALK = tuple(Turn(role, PROBES[role]) for role in (_ROLES[1:] * 2))
#: Roles whose messages have parts, the first choice first.
_FORMS: tuple[frozenset[Role], ...] = (
    frozenset(_ROLES),
    frozenset(("user", "assistant")),
    frozenset(("user",)),
    frozenset(("system", "user")),
    frozenset(),
)


@dataclass(frozen=True)
class MessageForm:
    """The form of the messages that a template accepts.

    Attributes:
        roles: roles whose messages have parts; messages of other roles have a text.
        kinds: kinds of media that are parts; for media of other kinds, the placeholder is written
            into the text.
    """

    roles: frozenset[Role]
    kinds: frozenset[Kind]


def probe_form(template: ChatTemplate, written: Mapping[Kind, str]) -> MessageForm:
    """Find the form of messages that a template accepts.

    Args:
        template: the template.
        written: by kind of media, the placeholder that the template should write.

    Raises:
        TemplateError: the template accepts none of the forms.
    """
    reasons: dict[str, None] = {}
    for asked, roles in product((_ROLES, _ROLES[1:]), _FORMS):
        reason = _misreading_reason(template, asked, roles)
        if reason is None:
            kinds = (k for k in written if _writes_placeholder(template, k, written[k], roles))
            return MessageForm(roles, frozenset(kinds))
        reasons[reason] = None
    raise TemplateError("; ".join(reasons))


def _misreading_reason(
    template: ChatTemplate, asked: Sequence[Role], roles: frozenset[Role]
) -> str | None:
    """Why messages of the roles `asked` cannot have parts in `roles` and a text in others."""
    messages: list[Message] = []
    for role in asked:
        part = {"type": "text", "text": PROBES[role], "probe": _UNREAD}
        messages.append({"role": role, "content": [part] if role in roles else PROBES[role]})
    try:
        text = template.render(messages)
    except TemplateError as error:
        return str(error)
    if _UNREAD in text:
        return "it writes parts as they are"
    lost = [role for role in asked if text.count(PROBES[role]) != 1]
    return f"it does not write messages of {', '.join(lost)} once" if lost else None


def _writes_placeholder(
    template: ChatTemplate, kind: Kind, placeholder: str, roles: frozenset[Role]
) -> bool:
    """Whether a part that is a medium becomes a placeholder."""
    if "user" not in roles:
        return False
    parts = [{"type": kind, kind: ""}, {"type": "text", "text": PROBES["user"]}]
    answer: Any = PROBES["assistant"]
    if "assistant" in roles:
        answer = [{"type": "text", "text": answer}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]
    try:
        return template.render(messages).count(placeholder) == 1
    except TemplateError:
        return False
