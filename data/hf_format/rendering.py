"""Conversations to text by a chat template, with the places of the texts of samples in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from data.hf_format.answers import ASKED, ConversationAnswer, prompt_before
from data.hf_format.marks import FoundMark, Span, add_marks, found_in, white_space, written_spaces
from data.hf_format.probes import PROBES, MessageForm
from data.hf_format.template import ChatTemplate, Message, TemplateError
from data.rows.spec import Kind
from data.sample import ConversationError, Turn, pattern_of


@dataclass
class _MessageTexts:
    """Texts of messages in their order.

    Attributes:
        marking: whether messages have them with marks.
        bare: whether answers have no white space around them there.
        texts: texts without white space around them.
        answers: whether each is an answer.
        learnt: whether each is an answer that is learnt.
        turns: numbers of the turns of which they are.
        turn: number of the present turn.
        spaces: white space of answers, see `marks.white_space`; empty for other texts.
    """

    marking: bool
    bare: bool = False
    texts: list[str] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)
    learnt: list[bool] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    turn: int = 0
    spaces: list[tuple[str, str]] = field(default_factory=list)

    def add_text(self, text: str, turn: Turn) -> str:
        """The content of a message for `text`, which is one of the turn."""
        if not text.strip():
            return text
        answer = turn.role == "assistant"
        self.texts.append(text.strip())
        self.answers.append(answer)
        self.learnt.append(turn.is_learnt)
        self.turns.append(self.turn)
        self.spaces.append(white_space(text) if answer else ("", ""))
        text = text.strip() if answer and self.bare else text
        return add_marks(text, len(self.texts) - 1) if self.marking else text


@dataclass(frozen=True)
class RenderedText:
    """A rendered conversation, and where samples speak in it.

    Attributes:
        text: text of the conversation.
        text_spans: places of the texts, without white space around them.
        answers: all answers.
    """

    text: str
    text_spans: tuple[Span, ...]
    answers: tuple[ConversationAnswer, ...]

    def cut_at(self, end: int) -> RenderedText:
        """The first `end` characters, with the answers in them."""
        spans = ((a, min(b, end)) for a, b in self.text_spans if a < end)
        answers = (answer for answer in self.answers if answer.begin < end)
        return RenderedText(self.text[:end], tuple(spans), tuple(answers))


class TurnRenderer:
    """Renders turns by a chat template, and finds their texts in what the template writes.

    Args:
        template: the template.
        form: form of the messages that the template accepts.
        kinds: kind of the media that each placeholder in the text of samples stands for.
        written: placeholder of each kind that the template writes.
        at_header: whether the prompt of an answer is the template's generation prompt; otherwise it
            is what the template writes before an answer.
        spells_special: whether a text spells a special token of the tokenizer.
    """

    def __init__(
        self,
        template: ChatTemplate,
        form: MessageForm,
        kinds: Mapping[str, Kind],
        written: Mapping[Kind, str],
        at_header: bool,
        spells_special: Callable[[str], bool],
    ) -> None:
        self._template, self._form, self._written = template, form, written
        self._kinds, self._mark = kinds, pattern_of(kinds)
        self.at_header, self._spells_special = at_header, spells_special

    # ---- messages --------------------------------------------------------------------------------

    def make_messages(self, turns: Sequence[Turn]) -> list[Message]:
        """Messages of turns, as the template takes them."""
        texts = _MessageTexts(marking=False)
        return [self._make_message(turn, texts) for turn in turns]

    def _make_message(self, turn: Turn, texts: _MessageTexts) -> dict[str, Any]:
        split = turn.split_at(self._mark)
        pieces = [(piece, self._kinds[piece] if is_mark else None) for piece, is_mark in split]
        if turn.role in self._form.roles:
            content: Any = list(self._make_parts(pieces, turn, texts))
        else:
            content = "".join(
                texts.add_text(piece, turn) if kind is None else self._written[kind]
                for piece, kind in pieces
            )
        return {"role": turn.role, "content": content}

    def _make_parts(
        self, pieces: list[tuple[str, Kind | None]], turn: Turn, texts: _MessageTexts
    ) -> Iterator[dict[str, str]]:
        """Content as parts. A line break next to a medium is the template's to write."""
        for number, (piece, kind) in enumerate(pieces):
            if kind in self._form.kinds and kind is not None:
                yield {"type": kind, kind: ""}
            elif kind is not None:
                yield {"type": "text", "text": self._written[kind]}
            else:
                text = piece.removeprefix("\n") if number else piece
                text = text.removesuffix("\n") if number + 1 < len(pieces) else text
                if text.strip() or len(pieces) == 1:
                    yield {"type": "text", "text": texts.add_text(text, turn)}

    # ---- rendering -------------------------------------------------------------------------------

    def render_turns(self, turns: Sequence[Turn], opened: bool) -> RenderedText:
        """The text of a conversation; with `opened`, up to where the next answer begins.

        Raises:
            ConversationError: the template does not write it, or not so that it can be found.
        """
        if not opened:
            return self._locate_texts(turns, header=False)
        if self.at_header:
            return self._locate_texts(turns, header=True)
        rendering = self._locate_texts(
            (*turns, Turn("assistant", PROBES["assistant"])), header=False
        )
        prompt = self.prompt_text(turns)
        if not rendering.text.startswith(prompt):
            raise ConversationError("what the chat template writes before an answer depends on it")
        return rendering.cut_at(len(prompt))

    def _locate_texts(self, turns: Sequence[Turn], header: bool) -> RenderedText:
        """What the template writes, and where the texts of the turns are in it."""
        plain, marking = _MessageTexts(marking=False), _MessageTexts(marking=True)
        text, with_marks = (
            self._render_template(turns, header, texts) for texts in (plain, marking)
        )
        spaces = [(0, 0)] * len(plain.texts)
        if any(leading or trailing for leading, trailing in plain.spaces):
            bare = self._render_template(turns, header, _MessageTexts(marking=True, bare=True))
            spaces = written_spaces(with_marks, bare, plain.spaces)
        text_spans, answer_spans = [], dict[int, list[Span]]()
        for number, mark in enumerate(found_in(text, with_marks, plain.texts)):
            if plain.answers[number]:
                begin, end = _answer_span(mark, plain.texts[number], text)
                leading, trailing = spaces[number]
                text_spans.append((begin, end))
                span = begin - leading, end + trailing
                answer_spans.setdefault(plain.turns[number], []).append(span)
            else:
                text_spans += self._other_spans(mark, plain.texts[number], text)
        answers = (
            ConversationAnswer(n, turns[n].is_learnt, tuple(spans))
            for n, spans in answer_spans.items()
        )
        return RenderedText(text, tuple(text_spans), tuple(answers))

    def _render_template(self, turns: Sequence[Turn], header: bool, texts: _MessageTexts) -> str:
        """The output of the template. Raises ConversationError."""
        messages = []
        for texts.turn, turn in enumerate(turns):
            messages.append(self._make_message(turn, texts))
        return self.render_messages(messages, header)

    def render_messages(self, messages: Sequence[Message], header: bool = False) -> str:
        """The text of messages; with `header`, up to where the template begins an answer.

        Raises:
            ConversationError: the template refuses the messages.
        """
        try:
            return self._template.render(messages, header)
        except TemplateError as error:
            raise ConversationError(f"chat template: {error}") from error

    def prompt_text(self, turns: Sequence[Turn], header: bool | None = None) -> str:
        """The text after which an answer to `turns` is written.

        Args:
            turns: the turns before the answer.
            header: whether it is the template's generation prompt; None: as configured.

        Raises:
            ConversationError: the template does not write an answer there.
        """
        messages = self.make_messages(turns)
        if self.at_header if header is None else header:
            return self.render_messages(messages, header=True)
        parts = "assistant" in self._form.roles
        content = [{"type": "text", "text": ASKED}] if parts else ASKED
        asked = [*messages, {"role": "assistant", "content": content}]
        prompt = prompt_before(self.render_messages(asked))
        if prompt is None:
            raise ConversationError("the chat template does not write an answer to it once")
        return prompt

    def _other_spans(self, mark: FoundMark, text: str, rendered: str) -> list[Span]:
        """Places of a text that is no answer; raises ConversationError only if they matter."""
        spans = mark.text_spans(text, rendered)
        if spans is None and self._spells_special(text):
            raise ConversationError(
                "a text spells a special token, and cannot be found in what the chat template "
                "writes"
            )
        return spans or []


def _answer_span(mark: FoundMark, text: str, rendered: str) -> Span:
    """The place of an answer. Raises ConversationError."""
    span = mark.text_span(text, rendered)
    if span is None:
        times = max(len(mark.opened), len(mark.closed))
        what = "does not write" if not times else "changes" if times == 1 else "repeats"
        raise ConversationError(f"the chat template {what} the answer {text!r:.60}")
    return span
