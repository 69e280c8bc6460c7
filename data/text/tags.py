"""Media that a text names by other words than placeholders, as data of other models do: refused.

    {"from": "user", "value": "Picture 1: <img>a.png</img>\\nWhat is this?"}     Qwen-VL
    {"from": "user", "value": "[img]a.png[/img] What is this?"}                 forums
    {"from": "user", "value": "(<image>./</image>)\\nWhat is this?"}             MiniCPM-V
    {"question": "<image 1> or <image 2>?"}                                     MMMU
    {"from": "user", "value": "<|image_1|>\\nWhat is this?"}                     Phi-3

Read as a text, the name would be learnt, and the medium would not be seen or not have its place.
`RULES` lists what is refused. These are words: Markdown and HTML that refer to files,
`![](a.png)` and `<img src="a.png">`; all that is between backticks; tags with other contents,
`<file>report</file>`, and a tag around words, `<img>a cat</img>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from data.media.naming import KIND_OF_WORD, file_kind, medium_of
from data.media.registry import MEDIA_TYPES
from data.quotes import quoted
from data.rows.spec import Kind
from data.sample import pattern_of

#: Names of tags whose contents are media by themselves, whatever they look like, and their kinds.
_TAGS: Mapping[str, Kind] = {
    "img": "image",
    "picture": "image",
    **{kind: kind for kind in MEDIA_TYPES},
}
#: Names of tags whose contents are media if they look like files of media.
_FILE_TAGS = frozenset(
    (
        *("file", "files", "filename", "file_name", "filepath", "file_path", "path", "attachment"),
        *("media", "medium", "media_path", "media_file", "media_url"),
    )
)
_NAME = r"[a-z]\w*(?:-\w+)*"
_ENDINGS = "|".join(ending for kind in MEDIA_TYPES.values() for ending in kind.endings)
#: The end of the name of a file, in which there are blanks.
_ENDING = re.compile(r"\.[a-z]\w{1,4}\Z", re.IGNORECASE)
#: What is between backticks; see the head.
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)

#: Words that are a placeholder by themselves: `<Image>`, `<img>`.
_ALONE = frozenset(("img", *MEDIA_TYPES))
#: Words for media of several kinds, in tokens: `<|vision_start|>`.
_ANY_KIND = frozenset(("vision", "media", "multimodal"))
#: Words besides, in tokens: `<image_pad>`, `<start_of_image>`, `<ImageHere>`.
_OF_TOKENS = frozenset(
    (
        *("start", "end", "begin", "of", "bos", "eos", "pad", "placeholder", "token", "tokens"),
        *("soft", "patch", "here", "context", "break", "newline", "sep", "embed", "embeds"),
        *("embedding", "embeddings", "feature", "features"),
    )
)
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_JOINED = re.compile(rf"\b({'|'.join(_ALONE)})({'|'.join(_OF_TOKENS)})\b", re.IGNORECASE)
_CLOSING = re.compile(rf"[^<>]+</({_NAME})>", re.IGNORECASE)


@dataclass(frozen=True)
class TagRule:
    """A way in which texts name media.

    Attributes:
        reason: why such a text is refused.
        pattern: where a text may do so.
        meant: the kind of the medium at such a place, `""` for any; None: these are words.
        is_masked: whether placeholders of the project are left out of the text before.
        is_file: whether the medium itself is named, and not only its place.
    """

    reason: str
    pattern: re.Pattern[str]
    meant: Callable[[re.Match[str], Mapping[Kind, str]], Kind | None]
    is_masked: bool = False
    is_file: bool = True


def refuse_tags(text: str, marks: Mapping[Kind, str]) -> str:
    """Why a text is refused that names a medium by other words; empty if it names none.

    Args:
        text: the text.
        marks: placeholders of media by kind.
    """
    if "<" not in text and "[" not in text and "data:" not in text:
        return ""
    plain = _CODE.sub("``", text) if "`" in text else text
    masked = pattern_of(marks.values()).sub(" ", plain) if marks else plain
    for rule in RULES:
        for match in rule.pattern.finditer(masked if rule.is_masked else plain):
            kind = rule.meant(match, marks)
            if kind is not None:
                return f"{quoted(match[0])}: {_explain_refusal(rule, kind, marks)}"
    return ""


def _explain_refusal(rule: TagRule, kind: Kind, marks: Mapping[Kind, str]) -> str:
    """Why a medium of a kind is refused, and what is valid."""
    kinds = (kind,) if kind else tuple(MEDIA_TYPES)
    mark = " or ".join(marks.get(each, f"<{each}>") for each in kinds)
    field = " or ".join(MEDIA_TYPES[each].record_fields[1] for each in kinds)
    subject = f"{kind} media" if kind else "media"
    valid = (
        f"{mark} in its place and the path in {field}"
        if rule.is_file
        else f"{mark} where each medium lies, and the media in {field} in the order of the text"
    )
    words = "where it is no medium but words, messages with a part of type text"
    return f"{subject} {rule.reason}; valid: {valid}; or, {words}"


# ---- what names a medium -------------------------------------------------------------------------


def _kind_between(match: re.Match[str], marks: Mapping[Kind, str]) -> Kind | None:
    """Of `<img>a.png</img>`; nothing is there besides a placeholder."""
    name, inner = match[2].lower(), match[3].strip()
    if name in _TAGS:
        is_mark = match[1] in marks.values()
        return _TAGS[name] if (_is_file(inner) if inner else is_mark) else None
    kind = medium_of(match[2])
    if kind is None and name not in _FILE_TAGS:
        return None
    named = next(filter(None, map(file_kind, inner.splitlines())), None)
    if named is None and kind is not None and "://" in inner and len(inner.split()) == 1:
        return kind
    return named and (kind or named)


def _is_file(name: str) -> bool:
    words = name.split()
    return len(words) == 1 or ("\n" not in name and _ENDING.search(name) is not None)


def _kind_opened(match: re.Match[str], marks: Mapping[Kind, str]) -> Kind | None:
    """Of `<img>a.png`, a file after a tag that nothing closes."""
    name = match[1] or match[2]
    return _TAGS.get(name.lower()) or medium_of(name)


def _kind_within(match: re.Match[str], marks: Mapping[Kind, str]) -> Kind | None:
    """Of `<image:a.png>`."""
    kind, named = medium_of(match[1]), file_kind(match[2])
    return named and (kind or (named if match[1].lower() in _FILE_TAGS else None))


def _in_base64(match: re.Match[str], marks: Mapping[Kind, str]) -> Kind | None:
    kind = match[1].lower()
    return kind if kind in MEDIA_TYPES else None


def _kind_angled(match: re.Match[str], marks: Mapping[Kind, str]) -> Kind | None:
    """Of `<image_1>`, `<|image_pad|>`, `<img>`."""
    name, is_token = match[2].strip(), bool(match[1]) or match[2].startswith("__")
    around = _CLOSING.match(match.string, match.end())
    if not is_token and around is not None and around[1].lower() == name.lower():
        return None
    before = match.string[: match.start()][-1:]
    if name.istitle() and name.isalpha() and (before.isalnum() or before == "_"):
        return None  # a type of a program: `List<Image>`
    kind = _placeholder_kind(name, is_token=is_token)
    is_default = kind is not None and name == kind
    return None if is_default and kind not in marks and not is_token else kind


def _kind_squared(match: re.Match[str], marks: Mapping[Kind, str]) -> Kind | None:
    """Of `[IMG]` and `[image 1]`; `[image]` and `[VIDEO]` are words, as in headlines."""
    name = match[1]
    if name in ("IMG", "IMAGE"):
        return "image"
    numbered = name[-1].isdigit()
    is_word = name.isalpha() or not (name.isupper() or numbered)
    return None if is_word else _placeholder_kind(name, is_token=False)


def _placeholder_kind(name: str, *, is_token: bool) -> Kind | None:
    """The kind of the media that a token or a tag stands for; `""` for any kind."""
    pieces = [word.lower() for word in _PIECE.findall(_JOINED.sub(r"\1_\2", name))]
    if pieces == ["im", "patch"]:
        return "image"
    media = [piece for piece in pieces if piece in KIND_OF_WORD or piece in _ANY_KIND]
    others = [piece for piece in pieces if piece not in media]
    if len(media) != 1 or not all(word.isdigit() or word in _OF_TOKENS for word in others):
        return None
    is_numbered = bool(others) and all(word.isdigit() for word in others)
    if others and not is_numbered and " " in name:
        return None
    if not others and not is_token and media[0] not in _ALONE:
        return None
    return KIND_OF_WORD.get(media[0], "")


_TAGS_IN_TEXT = "are not read from tags in a text"
_NO_PLACEHOLDER = "have another placeholder, and would have no place in the text"

#: What is refused, in the order in which it is looked for.
RULES: tuple[TagRule, ...] = (
    # <img>a.png</img>, <|audio|>a.wav<|/audio|>, <image_path>a.png</image_path>, <file>a.png</file>
    TagRule(
        _TAGS_IN_TEXT,
        re.compile(rf"(<\|?({_NAME})\|?>)([^<>]*)<\|?/\2\|?>", re.IGNORECASE),
        _kind_between,
    ),
    # [img]a.png[/img]
    TagRule(
        _TAGS_IN_TEXT,
        re.compile(rf"(\[({_NAME})\])([^\[\]]*)\[/\2\]", re.IGNORECASE),
        _kind_between,
    ),
    # <img>a.png, [img] a.png, and not [image](a.png)
    TagRule(
        _TAGS_IN_TEXT,
        re.compile(
            rf"(?:<\|?({_NAME})\|?>|\[({_NAME})\])[ \t]*(?![(\s])[^\s<>\[\]]+\.({_ENDINGS})\b",
            re.IGNORECASE,
        ),
        _kind_opened,
    ),
    # <image:a.png>, <img a.png>, [Image: a.png], and neither <img src=a.png> nor [image a.png](b)
    TagRule(
        _TAGS_IN_TEXT,
        re.compile(
            rf"[<\[]\|?({_NAME})[\s:=]{{1,3}}[\"']?"
            r"(\w+://[^\s<>\[\]\"']{1,400}|[^<>\[\]=\"'\n]{1,400})"
            r"[\"']?[ ]?/?\|?[>\]](?!\()",
            re.IGNORECASE,
        ),
        _kind_within,
    ),
    # data:image/png;base64,iVBO..., but for one in quotes or brackets, as in HTML, CSS and programs
    TagRule(
        "are not read from within a text",
        re.compile(
            r"(?<![\w\"'(=`<])data:([a-z]+)/[\w.+-]+(?:;[\w=-]+)*;base64,[a-z0-9+/]{8,80}",
            re.IGNORECASE,
        ),
        _in_base64,
    ),
    # <|image_1|>, <image 1>, <Image>, <img/>, <ImageHere>, <|vision_start|>, <start_of_image>
    TagRule(
        _NO_PLACEHOLDER,
        re.compile(r"<[ ]?(\|?)([a-z_][\w \t:#-]{0,40})\|?[ ]?/?>", re.IGNORECASE),
        _kind_angled,
        is_masked=True,
        is_file=False,
    ),
    # [IMG], [IMG_BREAK], [image 1], and neither ![][image1] nor [image1]: https://a.b
    TagRule(
        _NO_PLACEHOLDER,
        re.compile(r"(?<![\]!\\])\[([a-z][\w #-]{1,40})\](?![(\[]|:[ \t]*<?\w+:)", re.IGNORECASE),
        _kind_squared,
        is_masked=True,
        is_file=False,
    ),
)
