"""Media that a text names between tags, as some models' own data have them: refused by name.

    {"from": "user", "value": "Picture 1: <img>a.png</img>\\nWhat is this?"}     Qwen-VL
    {"from": "user", "value": "[img]a.png[/img] What is this?"}                 forums
    {"from": "user", "value": "(<image>./</image>)\\nWhat is this?"}             MiniCPM-V

Read as a text, the path would be learnt, and the medium would not be seen. Markdown and HTML that
refer to files, `![](a.png)` and `<img src="a.png">`, are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from data.media.registry import KINDS
from data.quotes import quoted
from data.rows.spec import Kind

#: Kinds by the names of tags.
_TAGS: Mapping[str, Kind] = {"img": "image", "picture": "image", **{kind: kind for kind in KINDS}}
_NAMES = "|".join(_TAGS)
_ENDINGS = "|".join(ending for kind in KINDS.values() for ending in kind.endings)
#: What is between the tags of a medium: `<img>a.png</img>`, `<|img|>a.png<|/img|>`.
_ANGLED = re.compile(rf"(<\|?({_NAMES})\|?>)([^<>]*)<\|?/\2\|?>", re.IGNORECASE)
_SQUARE = re.compile(rf"(\[({_NAMES})\])([^\[\]]*)\[/\2\]", re.IGNORECASE)
#: A file behind a tag that nothing closes: `<img>a.png`.
_OPEN = re.compile(
    rf"(<\|?({_NAMES})\|?>|\[({_NAMES})\])[ \t]*[^\s<>\[\]]+\.({_ENDINGS})\b", re.IGNORECASE
)
#: The end of the name of a file, in which there are blanks.
_ENDING = re.compile(r"\.[a-z]\w{1,4}\Z", re.IGNORECASE)


def tagged(text: str, marks: Mapping[Kind, str]) -> str:
    """Why a text is refused that names a medium between tags; empty if it names none.

    Args:
        text: the text.
        marks: placeholders of media by kind.
    """
    if "<" not in text and "[" not in text:
        return ""
    found = next(_named(text, frozenset(marks.values())), None)
    if found is None:
        return ""
    kind = _TAGS[(found[2] or found[3]).lower()]
    field = KINDS[kind].fields[1]
    return (
        f"{quoted(found[0])}: {kind} media are not read from tags in a text; valid: "
        f"{marks.get(kind, f'<{kind}>')} in its place and the path in {field}; or, where it is no "
        "medium but words, messages with a part of type text"
    )


def _named(text: str, marks: frozenset[str]) -> Iterator[re.Match[str]]:
    """Places at which a text names a medium."""
    for pattern in (_ANGLED, _SQUARE):
        yield from (
            own for own in pattern.finditer(text) if _is_file(own[3].strip(), own[1] in marks)
        )
    yield from (own for own in _OPEN.finditer(text) if own[1] not in marks)


def _is_file(name: str, is_mark: bool) -> bool:
    """Whether what is between tags names a file; nothing is there beside a placeholder."""
    if not name:
        return is_mark
    words = name.split()
    return len(words) == 1 or ("\n" not in name and _ENDING.search(name) is not None)
