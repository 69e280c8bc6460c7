"""Conversations to tokens by a released tokenizer and chat template.

When the template is read, probes find the form of messages that it accepts: for each role, content
as parts (`{"type": "text", "text": ...}`) or as a text; and whether it writes a placeholder for a
part that is an image or a clip. If it does not, the placeholder is put into the text.

`answers.py` says where answers begin and end. In front of an answer a template may write
more than its generation prompt (an empty thought), or less. Where answers begin with their text,
the prompt is what stands before it in training; where they begin behind the header, it is the
template's generation prompt, and all behind that is learnt. A conversation in which something else
than the prompt stands before an answer is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import AnswersBegin
from data.hf_format.answers import (
    ASKED,
    ConversationAnswer,
    end_of,
    excerpt_of,
    first_difference,
    learnt_tokens,
    prompt_before,
    template_with_prompt,
)
from data.hf_format.files import ReleasedFiles
from data.hf_format.marks import FoundMark, Span, add_marks, found_in, white_space, written_spaces
from data.hf_format.template import ChatTemplate, Message, TemplateError
from data.hf_format.tokens import ReleasedTokenizer, TokenizedText
from data.rows.spec import Kind
from data.sample import ConversationError, DataError, Role, Turn, pattern_of
from data.text.chat import PAD_ID, RenderedChat

_PROBES: dict[Role, str] = {"system": "Probe 1.", "user": "Probe 2.", "assistant": "Probe 3."}
_UNREAD = "Probe 4."  # in a key that no template reads
#: Another answer, which a template that changes cases does not leave as it is.
_OTHER = "yes, it IS Probe 5"
_ROLES = tuple(_PROBES)
#: Two questions with their answers.
_TALK = tuple(Turn(role, _PROBES[role]) for role in (_ROLES[1:] * 2))
#: Roles whose messages have parts, the first choice first.
_FORMS: tuple[frozenset[Role], ...] = (
    frozenset(_ROLES),
    frozenset(("user", "assistant")),
    frozenset(("user",)),
    frozenset(("system", "user")),
    frozenset(),
)


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
class _RenderedText:
    """A rendered conversation, and where samples speak in it.

    Attributes:
        text: text of the conversation.
        text_spans: places of the texts, without white space around them.
        answers: all answers.
    """

    text: str
    text_spans: tuple[Span, ...]
    answers: tuple[ConversationAnswer, ...]

    def cut_at(self, end: int) -> _RenderedText:
        """The first `end` characters, with the answers in them."""
        spans = ((a, min(b, end)) for a, b in self.text_spans if a < end)
        answers = (answer for answer in self.answers if answer.begin < end)
        return _RenderedText(self.text[:end], tuple(spans), tuple(answers))


class ReleasedChat:
    """See `data.text.chat.ConversationTokenizer`, and the module.

    Args:
        files: files of the processor's folder.
        marks: placeholders of media in the text of samples.
        today: see `ChatTemplate`.
        begin: where answers begin, see `data.config.AnswersBegin`.
        embeddings: see `DataConfig.embeddings`.

    Raises:
        DataError: the tokenizer or the template cannot be used, or they do not fit each other.
    """

    def __init__(
        self,
        files: ReleasedFiles,
        marks: Mapping[Kind, str],
        today: date,
        begin: AnswersBegin = "text",
        embeddings: int | None = None,
    ) -> None:
        self._arguments = (files, marks, today, begin, embeddings)
        self._embeddings = embeddings
        self._behind_header = begin == "header"
        self._folder, self._multimodal = files.folder, files.multimodal
        placeholders = files.placeholders
        self._written: dict[Kind, str] = {k: placeholders.get(k, mark) for k, mark in marks.items()}
        new = [self._written[kind] for kind in marks if kind not in placeholders]
        self._tokenizer = ReleasedTokenizer(files, new)
        self._kinds = {mark: kind for kind, mark in marks.items()}
        self._mark = pattern_of(self._kinds)
        self._placeholders = {
            kind: self._special_id(token) for kind, token in self._written.items()
        }
        # The model may have no room for tokens that its folder does not name.
        named = [kind for kind in marks if kind in placeholders]
        self._shown = dict.fromkeys(marks, PAD_ID) | {k: self._placeholders[k] for k in named}
        self._template = self._read_template(files, today)
        self._roles, self._kinds_in_parts = self._probe_roles()
        self._ends, self.end_ids, self.learns_end = self._read_ends(files.stops)
        self._same_prompts = self._begin_alike()
        self._check_embeddings()

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process reads the files itself.
        return ReleasedChat, self._arguments

    # ---- of the folder ---------------------------------------------------------------------------

    def _special_id(self, token: str) -> int:
        number = self._tokenizer.id_of(token)
        if number is None:
            raise DataError(
                f"data.processor: {self._folder}: the placeholder {token!r} is no special token of "
                "tokenizer.json"
            )
        return number

    def _read_template(self, files: ReleasedFiles, today: date) -> ChatTemplate:
        try:
            return ChatTemplate(files.template, self._tokenizer.tokens, today)
        except TemplateError as error:
            raise DataError(f"data.processor: chat template of {self._folder}: {error}") from error

    # ---- asking the template ---------------------------------------------------------------------

    def _probe_roles(self) -> tuple[frozenset[Role], frozenset[Kind]]:
        """Roles whose messages have parts, and kinds of media that are parts."""
        reasons: dict[str, None] = {}
        for asked, roles in product((_ROLES, _ROLES[1:]), _FORMS):
            reason = self._misreading_reason(asked, roles)
            if reason is None:
                return roles, frozenset(
                    k for k in self._written if self._writes_placeholder(k, roles)
                )
            reasons[reason] = None
        raise self._unusable_error("; ".join(reasons))

    def _misreading_reason(self, asked: Sequence[Role], roles: frozenset[Role]) -> str | None:
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

    def _writes_placeholder(self, kind: Kind, roles: frozenset[Role]) -> bool:
        """Whether a part that is a medium becomes a placeholder."""
        if "user" not in roles:
            return False
        parts = [{"type": kind, kind: ""}, {"type": "text", "text": _PROBES["user"]}]
        answer: Any = _PROBES["assistant"]
        if "assistant" in roles:
            answer = [{"type": "text", "text": answer}]
        messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]
        try:
            return self._template.render(messages).count(self._written[kind]) == 1
        except TemplateError:
            return False

    def _read_ends(self, stops: Sequence[int]) -> tuple[frozenset[int], tuple[int, ...], bool]:
        """Tokens that end answers; those at which generation stops; whether the first is learnt.

        These are the one that the template writes behind the last answer, if it writes any, the one
        that ends a text, and those of the release's own list.
        """
        rendering = self._render_probes(_TALK[:2])
        tokens = self._tokenize_rendering(rendering)
        written = self._end_token(rendering, tokens, rendering.answers[-1])
        name = self._tokenizer.tokens.get("eos_token")
        last = None if name is None else self._tokenizer.id_of(name)
        known = (n for n in (last, *stops) if n is not None and not self._is_behind(n))
        ends = [*dict.fromkeys([*([] if written is None else [written]), *known])]
        if not ends:
            raise self._unusable_error("nothing ends an answer, and there is no eos_token")
        return frozenset(ends), tuple(ends), written is not None

    def _end_token(
        self, rendering: _RenderedText, tokens: TokenizedText, answer: ConversationAnswer
    ) -> int | None:
        """The special token behind an answer, if one is there."""
        learnt = learnt_tokens(rendering.text, tokens, answer, answer.begin, None)
        return end_of(tokens, learnt)

    def _render_probes(self, turns: Sequence[Turn]) -> _RenderedText:
        """A conversation of probes. Raises DataError: the template does not take it."""
        try:
            return self._render_turns(turns, opened=False)
        except ConversationError as error:
            raise self._unusable_error(str(error)) from error

    def _begin_alike(self) -> bool:
        """Whether the same prompt stands before earlier answers as before the last one."""
        try:
            rendering = self._render_turns(_TALK, opened=False)
            return self._has_prompt(_TALK, rendering, rendering.answers[0])
        except ConversationError:  # of more than one question
            return True

    def check_training(self) -> tuple[str, ...]:
        """See that answers can be learnt by this template.

        Returns:
            What of answers is not learnt, for people.

        Raises:
            DataError: answers cannot be learnt; the message says why.
        """
        for answer in (_PROBES["assistant"], _OTHER):
            try:
                self.tokenize_turns((_TALK[0], Turn("assistant", answer)))
            except ConversationError as error:
                raise self._unusable_error(str(error)) from error
        notices = [] if self.learns_end else [self._without_end()]
        notices += [] if self._embeddings is None else [self._without_embedding()]
        notices += [] if self._same_prompts else [self._without_earlier()]
        if self.learns_end and self._same_prompts and not self._earlier_end():
            notices.append(self._without_earlier_end())
        return tuple(notices)

    @property
    def taught_ends(self) -> tuple[int, ...]:
        """The token that answers are taught to end with, if the template writes one."""
        return self.end_ids[:1] if self.learns_end else ()

    def template_for_others(self) -> str | None:
        """A chat template whose generation prompt is the prompt of answers in training.

        Returns:
            None if the release's own template has that prompt.

        Raises:
            DataError: there is no such template.
        """
        files, _, today, *_ = self._arguments
        asked = self._probe_questions()
        if all(
            self._render_messages(question, header=True) == prompt for question, prompt in asked
        ):
            return None
        source = template_with_prompt(files.template, "assistant" in self._roles)
        other = ChatTemplate(source, self._tokenizer.tokens, today)
        for messages, prompt in asked:
            same = other.render(messages) == self._template.render(messages)
            if not same or other.render(messages, add_generation_prompt=True) != prompt:
                raise self._unusable_error("its generation prompt cannot be made that of training")
        return source

    def _probe_questions(self) -> list[tuple[list[Message], str]]:
        """Messages that end with a question, and the prompt of their answer."""
        questions: list[tuple[list[Message], str]] = []
        for system, turns in product(
            ((), (Turn("system", _PROBES["system"]),)), (_TALK[:1], _TALK[:3])
        ):
            with suppress(ConversationError):  # not every template takes a system message
                conversation, texts = (*system, *turns), _MessageTexts(marking=False)
                messages: list[Message] = [self._make_message(turn, texts) for turn in conversation]
                self._render_messages(messages)
                questions.append((messages, self._prompt_text(conversation)))
        return questions

    def _earlier_end(self, unknown: bool = True) -> bool:
        """Whether the end of answers before the last is learnt; `unknown` if none can be there."""
        try:
            rendering = self._render_turns(_TALK, opened=False)
        except ConversationError:
            return unknown
        return (
            self._end_token(rendering, self._tokenize_rendering(rendering), rendering.answers[0])
            in self._ends
        )

    # ---- ids behind the embeddings ---------------------------------------------------------------

    def _is_behind(self, number: int) -> bool:
        """Whether the decoder has no embedding of a token."""
        return self._embeddings is not None and number >= self._embeddings

    def _describe_token(self, number: int) -> str:
        """A token that the decoder does not know, for messages."""
        (piece,) = self.token_texts([number])
        return f"{piece!r:.60} (id {number}, behind the decoder's {self._embeddings} embeddings)"

    def _check_embeddings(self) -> None:
        """Raise DataError if the template, or a placeholder, needs a token without an embedding."""
        if self._embeddings is None:
            return
        if texts := self._tokenizer.text_ids_from(self._embeddings):
            raise DataError(
                f"data.processor: {self._folder}: {texts} ids of texts are behind the decoder's "
                f"{self._embeddings} embeddings, so it is the tokenizer of another model; valid: "
                "the tokenizer of the decoder's release"
            )
        ids = [*self._shown.values()]
        for turns in (_TALK, _TALK[:2], (Turn("system", _PROBES["system"]), *_TALK[:2])):
            with suppress(ConversationError):  # not every template takes all of them
                ids += self._tokenize_rendering(
                    self._render_turns(turns, opened=False)
                ).ids.tolist()
        for number in filter(self._is_behind, ids):
            raise DataError(
                f"data.processor: chat template or placeholders of {self._folder} write "
                f"{self._describe_token(number)}; valid: a template or placeholder with other "
                "tokens, or weights with a row for it, such as transformers saves after "
                f"model.resize_token_embeddings({self.vocab_size})"
            )

    def _check_known(self, ids: Sequence[int]) -> None:
        """Raise ConversationError if a text has a token without an embedding."""
        for number in filter(self._is_behind, ids):
            raise ConversationError(f"a text has the token {self._describe_token(number)}")

    def _without_embedding(self) -> str:
        return (
            f"the tokenizer in {self._folder} has {self.vocab_size} ids, the decoder "
            f"{self._embeddings} embeddings: a sample whose text has one of the ids behind them "
            "is bad"
        )

    def _without_end(self) -> str:
        (end,) = self.token_texts(self.end_ids[:1])
        rendering = self._render_probes(_TALK[:2])
        after = rendering.text[rendering.answers[-1].end :].strip()
        writes = "writes no special token behind an answer: the end of answers is not learnt"
        if after:
            writes = (
                f"writes {excerpt_of(after, 0)} right behind an answer, where its end would be a "
                "special token: the end of answers is not learnt"
            )
        elif self._earlier_end(unknown=False):
            writes = (
                "writes no special token behind the last answer of a conversation: only the end of "
                "the others is learnt"
            )
        return (
            f"the chat template in {self._folder} {writes}, and generate may go on to "
            f"--max-new-tokens; a template that writes {end} there teaches it"
        )

    def _without_earlier(self) -> str:
        return (
            f"the chat template in {self._folder} writes something else before the last answer of "
            "a conversation than before the others, to which no prompt leads: only the last "
            "answer is learnt. To learn all of them, end a conversation with each, or set "
            "data.answers_begin to header"
        )

    def _without_earlier_end(self) -> str:
        (end,) = self.token_texts(self.end_ids[:1])
        return (
            f"the chat template in {self._folder} writes {end} behind the last answer of a "
            "conversation and not behind the others, whose end is not learnt; a template that "
            "writes it there as well teaches it"
        )

    def _unusable_error(self, reason: str) -> DataError:
        return DataError(f"data.processor: chat template of {self._folder}: {reason}")

    # ---- messages --------------------------------------------------------------------------------

    def _make_message(self, turn: Turn, texts: _MessageTexts) -> dict[str, Any]:
        split = turn.pieces(self._mark)
        pieces = [(piece, self._kinds[piece] if is_mark else None) for piece, is_mark in split]
        if turn.role in self._roles:
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
                    yield {"type": "text", "text": texts.add_text(text, turn)}

    # ---- rendering -------------------------------------------------------------------------------

    def _render_turns(self, turns: Sequence[Turn], opened: bool) -> _RenderedText:
        """The text of a conversation; with `opened`, up to where the next answer begins.

        Raises:
            ConversationError: the template does not write it, or not so that it can be found.
        """
        if not opened:
            return self._locate_texts(turns, header=False)
        if self._behind_header:
            return self._locate_texts(turns, header=True)
        rendering = self._locate_texts(
            (*turns, Turn("assistant", _PROBES["assistant"])), header=False
        )
        prompt = self._prompt_text(turns)
        if not rendering.text.startswith(prompt):
            raise ConversationError("what the chat template writes before an answer depends on it")
        return rendering.cut_at(len(prompt))

    def _locate_texts(self, turns: Sequence[Turn], header: bool) -> _RenderedText:
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
        return _RenderedText(text, tuple(text_spans), tuple(answers))

    def _render_template(self, turns: Sequence[Turn], header: bool, texts: _MessageTexts) -> str:
        """The output of the template. Raises ConversationError."""
        messages = []
        for texts.turn, turn in enumerate(turns):
            messages.append(self._make_message(turn, texts))
        return self._render_messages(messages, header)

    def _render_messages(self, messages: Sequence[Message], header: bool = False) -> str:
        try:
            return self._template.render(messages, header)
        except TemplateError as error:
            raise ConversationError(f"chat template: {error}") from error

    def _prompt_text(self, turns: Sequence[Turn], header: bool | None = None) -> str:
        """The text behind which an answer to `turns` is written.

        Args:
            turns: the turns before the answer.
            header: whether it is the template's generation prompt; None: as configured.

        Raises:
            ConversationError: the template does not write an answer there.
        """
        texts = _MessageTexts(marking=False)
        messages = [self._make_message(turn, texts) for turn in turns]
        if self._behind_header if header is None else header:
            return self._render_messages(messages, header=True)
        parts = "assistant" in self._roles
        content = [{"type": "text", "text": ASKED}] if parts else ASKED
        asked = [*messages, {"role": "assistant", "content": content}]
        prompt = prompt_before(self._render_messages(asked))
        if prompt is None:
            raise ConversationError("the chat template does not write an answer to it once")
        return prompt

    # ---- answers ---------------------------------------------------------------------------------

    def _has_prompt(
        self, turns: Sequence[Turn], rendering: _RenderedText, answer: ConversationAnswer
    ) -> bool:
        """Whether the prompt of an answer stands before it."""
        return rendering.text.startswith(self._prompt_text(turns[: answer.turn]))

    def _answer_starts(
        self, turns: Sequence[Turn], rendering: _RenderedText, opened: bool
    ) -> dict[int, int]:
        """Characters of the prompt of each answer, by the number of its turn.

        Answers to which no prompt leads have none.

        Raises:
            ConversationError: there are such answers, unless the template has told so of all before
                the last one.
        """
        starts: dict[int, int] = {}
        last = rendering.answers[-1].turn if rendering.answers and not opened else None
        for answer in rendering.answers:
            if answer.learnt and not opened and turns[answer.turn].pieces(self._mark)[0][1]:
                raise ConversationError("an answer begins with a medium, which nothing can write")
            prompt = self._prompt_text(turns[: answer.turn])
            if rendering.text.startswith(prompt) and len(prompt) < answer.spans[0][1]:
                starts[answer.turn] = len(prompt)
            elif answer.learnt and not opened and (self._same_prompts or answer.turn == last):
                raise self._other_prompt(turns[: answer.turn], rendering.text, prompt)
        return starts

    def _other_prompt(self, turns: Sequence[Turn], text: str, prompt: str) -> ConversationError:
        """The error of an answer to which no prompt leads."""
        at, valid = first_difference(text, prompt), "another template"
        with suppress(ConversationError):
            if text.startswith(self._prompt_text(turns, header=not self._behind_header)):
                valid = f"data.answers_begin: {'text' if self._behind_header else 'header'}"
        return ConversationError(
            f"the chat template writes {excerpt_of(text, at)} where the prompt of an answer has "
            f"{excerpt_of(prompt, at)}, so that no prompt leads to the answer; valid: {valid}"
        )

    def _split_at_prompts(
        self, rendering: _RenderedText, tokens: TokenizedText, starts: Mapping[int, int]
    ) -> TokenizedText:
        """The tokens of a conversation, in which a prompt has those that it has by itself.

        Raises:
            ConversationError: the tokenizer makes something else of the text behind a prompt.
        """
        text, text_spans, parted = rendering.text, rendering.text_spans, self._tokenizer.is_parted
        borders = [at for at in starts.values() if not parted(text, tokens, text_spans, at)]
        if not borders:
            return tokens
        retokenized = self._tokenize_rendering(rendering, borders)
        if not self._tokenizer.same_text(retokenized, tokens):
            raise ConversationError(
                "the tokenizer joins the beginning of an answer with what stands before it"
            )
        return retokenized

    def _other_spans(self, mark: FoundMark, text: str, rendered: str) -> list[Span]:
        """Places of a text that is no answer; raises ConversationError only if they matter."""
        spans = mark.text_spans(text, rendered)
        if spans is None and self._tokenizer.spells_special(text):
            raise ConversationError(
                "a text spells a special token, and cannot be found in what the chat template "
                "writes"
            )
        return spans or []

    def _tokenize_rendering(
        self, rendering: _RenderedText, borders: Sequence[int] = ()
    ) -> TokenizedText:
        first = self._tokenizer.tokens.get("bos_token")
        begun = first is not None and rendering.text.startswith(first)
        begins = self._multimodal and not begun
        return self._tokenizer.encode(rendering.text, begins, rendering.text_spans, borders)

    def _learnt_tokens(
        self, rendering: _RenderedText, tokens: TokenizedText, starts: Mapping[int, int]
    ) -> NDArray[np.bool_]:
        """`[tokens]`, which of them are learnt."""
        learnt = np.zeros(len(tokens.ids), bool)
        for answer in rendering.answers:
            if answer.learnt and answer.turn in starts:
                start = starts[answer.turn]
                learnt |= learnt_tokens(rendering.text, tokens, answer, start, self._ends)
        for placeholder in self._placeholders.values():
            learnt &= tokens.ids != placeholder
        return learnt

    # ---- what is asked of it ---------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the folder's files and of the placeholders of media."""
        files, marks, today, begin, embeddings = self._arguments
        other = "" if begin == "text" else f" {begin}"
        other += "" if embeddings is None else f" {embeddings} embeddings"
        return f"{files.fingerprint} {sorted(marks.items())} {today}{other}"

    @property
    def vocab_size(self) -> int:
        """The largest id plus one, added special tokens included."""
        return self._tokenizer.vocab_size

    def placeholder_id(self, kind: Kind) -> int:
        """The token at which outputs of the encoder of `kind` land, whose embedding is not read.

        That of the folder, or else, if it names none, any token.
        """
        return self._shown[kind]

    def tokenize_turns(self, turns: Sequence[Turn], opened: bool = False) -> RenderedChat:
        """Tokens of a conversation; with `opened`, those behind which the next answer is written.

        Raises:
            ConversationError: the template refuses it, writes media otherwise than once, changes
                answers so that they cannot be found, or writes something before one to which no
                prompt leads.
        """
        rendering = self._render_turns(turns, opened)
        starts = self._answer_starts(turns, rendering, opened)
        tokens = self._split_at_prompts(rendering, self._tokenize_rendering(rendering), starts)
        learnt = np.zeros(len(tokens.ids), bool)
        if opened:
            tokens = tokens.without_end()
        else:
            learnt = self._learnt_tokens(rendering, tokens, starts)
        ids = tokens.ids.tolist()
        kinds = {number: kind for kind, number in self._placeholders.items()}
        media = [(at, kinds[number]) for at, number in enumerate(ids) if number in kinds]
        self._check_media(turns, media)
        for at, kind in media:
            ids[at] = self._shown[kind]
        self._check_known(ids)
        return RenderedChat(ids, learnt[: len(ids)].tolist(), media)

    def _check_media(self, turns: Sequence[Turn], media: Sequence[tuple[int, Kind]]) -> None:
        for mark, kind in self._kinds.items():
            expected = sum(turn.count(mark) for turn in turns)
            count = sum(written == kind for _, written in media)
            if count != expected:
                raise ConversationError(
                    f"the chat template writes {count} placeholders {self._written[kind]!r} for "
                    f"{expected} media"
                )

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a text, in which nothing is a special token."""
        return self._tokenizer.encode_plain(text)

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens."""
        return self._tokenizer.decode(ids).strip()

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds."""
        return self._tokenizer.token_texts(ids)


def _answer_span(mark: FoundMark, text: str, rendered: str) -> Span:
    """The place of an answer. Raises ConversationError."""
    span = mark.text_span(text, rendered)
    if span is None:
        times = max(len(mark.opened), len(mark.closed))
        what = "does not write" if not times else "changes" if times == 1 else "repeats"
        raise ConversationError(f"the chat template {what} the answer {text!r:.60}")
    return span
