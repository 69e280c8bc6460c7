"""Conversations to tokens by a released tokenizer and chat template.

When the template is read, probes find the form of messages that it accepts: for each role, content
as parts (`{"type": "text", "text": ...}`) or as a text; and whether it writes a placeholder for a
part that is an image or a clip. If it does not, the placeholder is put into the text.

The learnt tokens are those that touch an answer's characters, with the white space around them that
the template writes, and the special token right after the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.kinds.modality import Kind
from data.released.files import ReleasedFiles
from data.released.marks import Found, Span, found_in, marked, white_space, written
from data.released.template import ChatTemplate, Message, TemplateError
from data.released.tokens import ReleasedTokenizer, Tokens
from data.sample import ConversationError, DataError, Role, Turn, pattern_of
from data.text.chat import PAD_ID, Told

_PROBES: dict[Role, str] = {"system": "Probe 1.", "user": "Probe 2.", "assistant": "Probe 3."}
_UNREAD = "Probe 4."  # in a key that no template reads
_ROLES = tuple(_PROBES)
#: Roles whose messages have parts, the first choice first.
_FORMS: tuple[frozenset[Role], ...] = (
    frozenset(_ROLES),
    frozenset(("user", "assistant")),
    frozenset(("user",)),
    frozenset(("system", "user")),
    frozenset(),
)


@dataclass
class _Texts:
    """Texts of messages in their order.

    Attributes:
        marking: whether messages have them with marks.
        bare: whether answers have no white space around them there.
        texts: texts without white space around them.
        answers: whether each is an answer.
        learnt: whether each is an answer that is learnt.
        spaces: white space of answers, see `marks.white_space`; empty for other texts.
    """

    marking: bool
    bare: bool = False
    texts: list[str] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)
    learnt: list[bool] = field(default_factory=list)
    spaces: list[tuple[str, str]] = field(default_factory=list)

    def add(self, text: str, turn: Turn) -> str:
        """The content of a message for `text`, which is one of the turn."""
        if not text.strip():
            return text
        answer = turn.role == "assistant"
        self.texts.append(text.strip())
        self.answers.append(answer)
        self.learnt.append(turn.is_learnt)
        self.spaces.append(white_space(text) if answer else ("", ""))
        text = text.strip() if answer and self.bare else text
        return marked(text, len(self.texts) - 1) if self.marking else text


@dataclass(frozen=True)
class _Rendering:
    """A rendered conversation, and where samples speak in it.

    Attributes:
        text: text of the conversation.
        told: texts, without white space around them.
        answers: texts that are learnt, with the white space around them.
    """

    text: str
    told: tuple[Span, ...]
    answers: tuple[Span, ...]


class ReleasedChat:
    """See `data.text.chat.Chat`, and the module.

    Args:
        files: files of the processor's folder.
        marks: placeholders of media in the text of samples.
        today: see `ChatTemplate`.

    Raises:
        DataError: the tokenizer or the template cannot be used, or they do not fit each other.
    """

    def __init__(self, files: ReleasedFiles, marks: Mapping[Kind, str], today: date) -> None:
        self._arguments = (files, marks, today)
        self._folder, self._multimodal = files.folder, files.multimodal
        given = files.placeholders
        self._written: dict[Kind, str] = {kind: given.get(kind, marks[kind]) for kind in marks}
        new = [self._written[kind] for kind in marks if kind not in given]
        self._tokenizer = ReleasedTokenizer(files, new)
        self._kinds = {mark: kind for kind, mark in marks.items()}
        self._mark = pattern_of(self._kinds)
        self._placeholders = {kind: self._id(token) for kind, token in self._written.items()}
        # The model may have no room for tokens that its folder does not name.
        named = [kind for kind in marks if kind in given]
        self._shown = dict.fromkeys(marks, PAD_ID) | {k: self._placeholders[k] for k in named}
        self._template = self._read_template(files, today)
        self._roles, self._kinds_in_parts = self._probe()
        self.end_ids, self.learns_end = self._ends()

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process reads the files itself.
        return ReleasedChat, self._arguments

    # ---- of the folder ---------------------------------------------------------------------------

    def _id(self, token: str) -> int:
        found = self._tokenizer.id_of(token)
        if found is None:
            raise DataError(
                f"data.processor: {self._folder}: the placeholder {token!r} is no special token of "
                "tokenizer.json"
            )
        return found

    def _read_template(self, files: ReleasedFiles, today: date) -> ChatTemplate:
        try:
            return ChatTemplate(files.template, self._tokenizer.tokens, today)
        except TemplateError as error:
            raise DataError(f"data.processor: chat template of {self._folder}: {error}") from error

    # ---- asking the template ---------------------------------------------------------------------

    def _probe(self) -> tuple[frozenset[Role], frozenset[Kind]]:
        """Roles whose messages have parts, and kinds of media that are parts."""
        reasons: dict[str, None] = {}
        for asked, roles in product((_ROLES, _ROLES[1:]), _FORMS):
            reason = self._misread(asked, roles)
            if reason is None:
                return roles, frozenset(k for k in self._written if self._writes(k, roles))
            reasons[reason] = None
        raise self._unusable("; ".join(reasons))

    def _misread(self, asked: Sequence[Role], roles: frozenset[Role]) -> str | None:
        """Why messages of the roles `asked` cannot have parts in `roles` and a text in others."""
        messages: list[Message] = []
        for role in asked:
            part = {"type": "text", "text": _PROBES[role], "probe": _UNREAD}
            messages.append({"role": role, "content": [part] if role in roles else _PROBES[role]})
        try:
            text = self._template.render(messages)
        except TemplateError as error:
            return str(error)
        if _UNREAD in text:
            return "it writes parts as they are"
        lost = [role for role in asked if text.count(_PROBES[role]) != 1]
        return f"it does not write messages of {', '.join(lost)} once" if lost else None

    def _writes(self, kind: Kind, roles: frozenset[Role]) -> bool:
        """Whether a part that is a medium becomes a placeholder."""
        if "user" not in roles:
            return False
        parts = [{"type": kind, kind: ""}, {"type": "text", "text": _PROBES["user"]}]
        told: Any = _PROBES["assistant"]
        if "assistant" in roles:
            told = [{"type": "text", "text": told}]
        messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": told}]
        try:
            return self._template.render(messages).count(self._written[kind]) == 1
        except TemplateError:
            return False

    def _ends(self) -> tuple[tuple[int, ...], bool]:
        """The token behind an answer, if the template writes any, and the one that ends a text.

        Beside them, whether the template writes any.
        """
        turns = (Turn("user", _PROBES["user"]), Turn("assistant", _PROBES["assistant"]))
        try:
            rendering = self._render(turns, opened=False)
        except ConversationError as error:
            raise self._unusable(str(error)) from error
        tokens = self._tokens(rendering)
        learnt = self._learnt(rendering, tokens)
        found = tokens.ids[learnt & tokens.special][-1:].tolist()
        learns, name = bool(found), self._tokenizer.tokens.get("eos_token")
        last = None if name is None else self._tokenizer.id_of(name)
        found += [] if last is None else [last]
        if not found:
            raise self._unusable("nothing ends an answer, and there is no eos_token")
        return tuple(dict.fromkeys(map(int, found))), learns

    def _unusable(self, reason: str) -> DataError:
        return DataError(f"data.processor: chat template of {self._folder}: {reason}")

    # ---- messages --------------------------------------------------------------------------------

    def _message(self, turn: Turn, texts: _Texts) -> dict[str, Any]:
        split = turn.pieces(self._mark)
        pieces = [(own, self._kinds[own] if is_mark else None) for own, is_mark in split]
        if turn.role in self._roles:
            content: Any = list(self._parts(pieces, turn, texts))
        else:
            content = "".join(
                texts.add(own, turn) if kind is None else self._written[kind]
                for own, kind in pieces
            )
        return {"role": turn.role, "content": content}

    def _parts(
        self, pieces: list[tuple[str, Kind | None]], turn: Turn, texts: _Texts
    ) -> Iterator[dict[str, str]]:
        """Content as parts. A line break beside a medium is the template's to write."""
        for number, (piece, kind) in enumerate(pieces):
            if kind in self._kinds_in_parts and kind is not None:
                yield {"type": kind, kind: ""}
            elif kind is not None:
                yield {"type": "text", "text": self._written[kind]}
            else:
                text = piece.removeprefix("\n") if number else piece
                text = text.removesuffix("\n") if number + 1 < len(pieces) else text
                if text.strip() or len(pieces) == 1:
                    yield {"type": "text", "text": texts.add(text, turn)}

    # ---- rendering -------------------------------------------------------------------------------

    def _render(self, turns: Sequence[Turn], opened: bool) -> _Rendering:
        """The text of a conversation. Raises ConversationError."""
        plain, marking = _Texts(marking=False), _Texts(marking=True)
        text, with_marks = (self._rendered(turns, opened, texts) for texts in (plain, marking))
        kept = [(0, 0)] * len(plain.texts)
        if any(front or behind for front, behind in plain.spaces):
            bare = self._rendered(turns, opened, _Texts(marking=True, bare=True))
            kept = written(with_marks, bare, plain.spaces)
        told, answers = [], []
        for number, own in enumerate(found_in(text, with_marks, plain.texts)):
            if plain.answers[number]:
                begin, end = _answer(own, plain.texts[number], text)
                front, behind = kept[number]
                told.append((begin, end))
                if plain.learnt[number]:
                    answers.append((begin - front, end + behind))
            else:
                told += self._others(own, plain.texts[number], text)
        return _Rendering(text, tuple(told), tuple(answers))

    def _rendered(self, turns: Sequence[Turn], opened: bool, texts: _Texts) -> str:
        """The output of the template. Raises ConversationError."""
        messages = [self._message(turn, texts) for turn in turns]
        try:
            return self._template.render(messages, opened)
        except TemplateError as error:
            raise ConversationError(f"chat template: {error}") from error

    def _others(self, found: Found, told: str, text: str) -> list[Span]:
        """Places of a text that is no answer; raises ConversationError only if they matter."""
        spans = found.spans(told, text)
        if spans is None and self._tokenizer.spells_special(told):
            raise ConversationError(
                "a text spells a special token, and cannot be found in what the chat template "
                "writes"
            )
        return spans or []

    def _tokens(self, rendering: _Rendering) -> Tokens:
        first = self._tokenizer.tokens.get("bos_token")
        begun = first is not None and rendering.text.startswith(first)
        begins = self._multimodal and not begun
        return self._tokenizer.encode(rendering.text, begins, rendering.told)

    def _learnt(self, rendering: _Rendering, tokens: Tokens) -> NDArray[np.bool_]:
        """`[tokens]`, which of them are learnt."""
        learnt = np.zeros(len(tokens.ids), bool)
        for span in rendering.answers:
            # A special token may take in the white space beside it.
            touching = np.flatnonzero(tokens.touching(span) & ~tokens.special)
            learnt[touching] = True
            behind = touching[-1:] + 1
            learnt[behind[behind < len(learnt)]] |= tokens.special[behind[behind < len(learnt)]]
        for placeholder in self._placeholders.values():
            learnt &= tokens.ids != placeholder
        return learnt

    # ---- what is asked of it ---------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the folder's files and of the placeholders of media."""
        files, marks, today = self._arguments
        return f"{files.fingerprint} {sorted(marks.items())} {today}"

    @property
    def vocab_size(self) -> int:
        """The largest id plus one, added special tokens included."""
        return self._tokenizer.vocab_size

    def placeholder_id(self, kind: Kind) -> int:
        """The token at which outputs of the encoder of `kind` land, whose embedding is not read.

        That of the folder, or else, if it names none, any token.
        """
        return self._shown[kind]

    def tell(self, turns: Sequence[Turn], opened: bool = False) -> Told:
        """Tokens of a conversation; with `opened`, an assistant's turn is begun at its end.

        Raises:
            ConversationError: the template refuses it, writes media otherwise than once, or changes
                answers so that they cannot be found.
        """
        rendering = self._render(turns, opened)
        tokens = self._tokens(rendering)
        ids = tokens.ids.tolist()
        kinds = {number: kind for kind, number in self._placeholders.items()}
        media = [(at, kinds[number]) for at, number in enumerate(ids) if number in kinds]
        self._check_media(turns, media)
        for at, kind in media:
            ids[at] = self._shown[kind]
        return Told(ids, self._learnt(rendering, tokens).tolist(), media)

    def _check_media(self, turns: Sequence[Turn], media: Sequence[tuple[int, Kind]]) -> None:
        for mark, kind in self._kinds.items():
            wanted = sum(turn.count(mark) for turn in turns)
            found = sum(own == kind for _, own in media)
            if found != wanted:
                raise ConversationError(
                    f"the chat template writes {found} placeholders {self._written[kind]!r} for "
                    f"{wanted} media"
                )

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a text, in which nothing is a special token."""
        return self._tokenizer.plain(text)

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens."""
        return self._tokenizer.decode(ids).strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds."""
        return self._tokenizer.pieces(ids)


def _answer(found: Found, told: str, text: str) -> Span:
    """The place of an answer. Raises ConversationError."""
    span = found.span(told, text)
    if span is None:
        times = max(len(found.opened), len(found.closed))
        what = "does not write" if not times else "changes" if times == 1 else "repeats"
        raise ConversationError(f"the chat template {what} the answer {told!r:.60}")
    return span
