"""Conversations to tokens by a released tokenizer and chat template.

When the template is read, `probes.py` finds the form of messages that it accepts; `rendering.py`
renders turns in this form, and finds their texts in the result. `answers.py` says where answers
begin and end. Before an answer a template may write more than its generation prompt (an empty
thought), or less. Where answers begin with their text, the prompt is what comes before it in
training; where they begin after the header, it is the template's generation prompt, and all that
follows is learnt. A conversation in which something else than the prompt comes before an answer is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import product

import numpy as np
from numpy.typing import NDArray

from data.config import AnswersBegin
from data.hf_format.answers import (
    ConversationAnswer,
    end_of,
    excerpt_of,
    first_difference,
    learnt_tokens,
    template_with_prompt,
)
from data.hf_format.files import ReleasedFiles
from data.hf_format.probes import OTHER_ANSWER, PROBES, TALK, MessageForm, probe_form
from data.hf_format.rendering import RenderedText, TurnRenderer
from data.hf_format.template import ChatTemplate, Message, TemplateError
from data.hf_format.tokens import ReleasedTokenizer, TokenizedText
from data.rows.spec import Kind
from data.sample import ConversationError, DataError, Turn, pattern_of
from data.text.chat import PAD_ID, RenderedChat


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
        self._form = self._probe_form()
        self._renderer = TurnRenderer(
            self._template,
            self._form,
            self._kinds,
            self._written,
            begin == "header",
            self._tokenizer.spells_special,
        )
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

    def _probe_form(self) -> MessageForm:
        try:
            return probe_form(self._template, self._written)
        except TemplateError as error:
            raise self._unusable_error(str(error)) from error

    def _read_ends(self, stops: Sequence[int]) -> tuple[frozenset[int], tuple[int, ...], bool]:
        """Tokens that end answers; those at which generation stops; whether the first is learnt.

        These are the one that the template writes after the last answer, if it writes any, the one
        that ends a text, and those of the release's own list.
        """
        rendering = self._render_probes(TALK[:2])
        tokens = self._tokenize_rendering(rendering)
        written = self._end_token(rendering, tokens, rendering.answers[-1])
        name = self._tokenizer.tokens.get("eos_token")
        last = None if name is None else self._tokenizer.id_of(name)
        known = (n for n in (last, *stops) if n is not None and not self._lacks_embedding(n))
        ends = [*dict.fromkeys([*([] if written is None else [written]), *known])]
        if not ends:
            raise self._unusable_error("nothing ends an answer, and there is no eos_token")
        return frozenset(ends), tuple(ends), written is not None

    def _end_token(
        self, rendering: RenderedText, tokens: TokenizedText, answer: ConversationAnswer
    ) -> int | None:
        """The special token after an answer, if one is there."""
        learnt = learnt_tokens(rendering.text, tokens, answer, answer.begin, None)
        return end_of(tokens, learnt)

    def _render_probes(self, turns: Sequence[Turn]) -> RenderedText:
        """A conversation of probes. Raises DataError: the template does not take it."""
        try:
            return self._renderer.render_turns(turns, opened=False)
        except ConversationError as error:
            raise self._unusable_error(str(error)) from error

    def _begin_alike(self) -> bool:
        """Whether the same prompt comes before earlier answers as before the last one."""
        try:
            rendering = self._renderer.render_turns(TALK, opened=False)
            return self._has_prompt(TALK, rendering, rendering.answers[0])
        except ConversationError:  # of more than one question
            return True

    def check_training(self) -> tuple[str, ...]:
        """Check that answers can be learnt by this template.

        Returns:
            What of answers is not learnt, for people.

        Raises:
            DataError: answers cannot be learnt; the message says why.
        """
        for answer in (PROBES["assistant"], OTHER_ANSWER):
            try:
                self.tokenize_turns((TALK[0], Turn("assistant", answer)))
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
            self._renderer.render_messages(question, header=True) == prompt
            for question, prompt in asked
        ):
            return None
        source = template_with_prompt(files.template, "assistant" in self._form.roles)
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
            ((), (Turn("system", PROBES["system"]),)), (TALK[:1], TALK[:3])
        ):
            with suppress(ConversationError):  # not every template takes a system message
                conversation = (*system, *turns)
                messages = self._renderer.make_messages(conversation)
                self._renderer.render_messages(messages)
                questions.append((messages, self._renderer.prompt_text(conversation)))
        return questions

    def _earlier_end(self, unknown: bool = True) -> bool:
        """Whether the end of answers before the last is learnt; `unknown` if none can be there."""
        try:
            rendering = self._renderer.render_turns(TALK, opened=False)
        except ConversationError:
            return unknown
        return (
            self._end_token(rendering, self._tokenize_rendering(rendering), rendering.answers[0])
            in self._ends
        )

    # ---- ids beyond the embeddings ---------------------------------------------------------------

    def _lacks_embedding(self, number: int) -> bool:
        """Whether the decoder has no embedding of a token."""
        return self._embeddings is not None and number >= self._embeddings

    def _describe_token(self, number: int) -> str:
        """A token that the decoder does not know, for messages."""
        (piece,) = self.token_texts([number])
        return f"{piece!r:.60} (id {number}, beyond the decoder's {self._embeddings} embeddings)"

    def _check_embeddings(self) -> None:
        """Raise DataError if the template, or a placeholder, needs a token without an embedding."""
        if self._embeddings is None:
            return
        if texts := self._tokenizer.text_ids_from(self._embeddings):
            raise DataError(
                f"data.processor: {self._folder}: {texts} ids of texts are beyond the decoder's "
                f"{self._embeddings} embeddings, so it is the tokenizer of another model; valid: "
                "the tokenizer of the decoder's release"
            )
        ids = [*self._shown.values()]
        for turns in (TALK, TALK[:2], (Turn("system", PROBES["system"]), *TALK[:2])):
            with suppress(ConversationError):  # not every template takes all of them
                ids += self._tokenize_rendering(
                    self._renderer.render_turns(turns, opened=False)
                ).ids.tolist()
        for number in filter(self._lacks_embedding, ids):
            raise DataError(
                f"data.processor: chat template or placeholders of {self._folder} write "
                f"{self._describe_token(number)}; valid: a template or placeholder with other "
                "tokens, or weights with a row for it, such as transformers saves after "
                f"model.resize_token_embeddings({self.vocab_size})"
            )

    def _check_known(self, ids: Sequence[int]) -> None:
        """Raise ConversationError if a text has a token without an embedding."""
        for number in filter(self._lacks_embedding, ids):
            raise ConversationError(f"a text has the token {self._describe_token(number)}")

    def _without_embedding(self) -> str:
        return (
            f"the tokenizer in {self._folder} has {self.vocab_size} ids, the decoder "
            f"{self._embeddings} embeddings: a sample whose text has one of the ids beyond them "
            "is bad"
        )

    def _without_end(self) -> str:
        (end,) = self.token_texts(self.end_ids[:1])
        rendering = self._render_probes(TALK[:2])
        after = rendering.text[rendering.answers[-1].end :].strip()
        writes = "writes no special token after an answer: the end of answers is not learnt"
        if after:
            writes = (
                f"writes {excerpt_of(after, 0)} right after an answer, where its end would be a "
                "special token: the end of answers is not learnt"
            )
        elif self._earlier_end(unknown=False):
            writes = (
                "writes no special token after the last answer of a conversation: only the end of "
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
            f"the chat template in {self._folder} writes {end} after the last answer of a "
            "conversation and not after the others, whose end is not learnt; a template that "
            "writes it there as well teaches it"
        )

    def _unusable_error(self, reason: str) -> DataError:
        return DataError(f"data.processor: chat template of {self._folder}: {reason}")

    # ---- answers ---------------------------------------------------------------------------------

    def _has_prompt(
        self, turns: Sequence[Turn], rendering: RenderedText, answer: ConversationAnswer
    ) -> bool:
        """Whether the prompt of an answer comes before it."""
        return rendering.text.startswith(self._renderer.prompt_text(turns[: answer.turn]))

    def _answer_starts(
        self, turns: Sequence[Turn], rendering: RenderedText, opened: bool
    ) -> dict[int, int]:
        """Characters of the prompt of each answer, by the number of its turn.

        Answers to which no prompt leads have none.

        Raises:
            ConversationError: there are such answers, unless the template is known to write
                something else before all answers but the last.
        """
        starts: dict[int, int] = {}
        last = rendering.answers[-1].turn if rendering.answers and not opened else None
        for answer in rendering.answers:
            if answer.learnt and not opened and turns[answer.turn].split_at(self._mark)[0][1]:
                raise ConversationError("an answer begins with a medium, which nothing can write")
            prompt = self._renderer.prompt_text(turns[: answer.turn])
            if rendering.text.startswith(prompt) and len(prompt) < answer.spans[0][1]:
                starts[answer.turn] = len(prompt)
            elif answer.learnt and not opened and (self._same_prompts or answer.turn == last):
                raise self._other_prompt(turns[: answer.turn], rendering.text, prompt)
        return starts

    def _other_prompt(self, turns: Sequence[Turn], text: str, prompt: str) -> ConversationError:
        """The error of an answer to which no prompt leads."""
        at, valid = first_difference(text, prompt), "another template"
        with suppress(ConversationError):
            if text.startswith(
                self._renderer.prompt_text(turns, header=not self._renderer.at_header)
            ):
                valid = f"data.answers_begin: {'text' if self._renderer.at_header else 'header'}"
        return ConversationError(
            f"the chat template writes {excerpt_of(text, at)} where the prompt of an answer has "
            f"{excerpt_of(prompt, at)}, so that no prompt leads to the answer; valid: {valid}"
        )

    def _split_at_prompts(
        self, rendering: RenderedText, tokens: TokenizedText, starts: Mapping[int, int]
    ) -> TokenizedText:
        """The tokens of a conversation, in which a prompt has those that it has by itself.

        Raises:
            ConversationError: the tokenizer makes something else of the text after a prompt.
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

    def _tokenize_rendering(
        self, rendering: RenderedText, borders: Sequence[int] = ()
    ) -> TokenizedText:
        first = self._tokenizer.tokens.get("bos_token")
        begun = first is not None and rendering.text.startswith(first)
        begins = self._multimodal and not begun
        return self._tokenizer.encode(rendering.text, begins, rendering.text_spans, borders)

    def _learnt_tokens(
        self, rendering: RenderedText, tokens: TokenizedText, starts: Mapping[int, int]
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
        """The token at which outputs of the encoder of `kind` are merged, with an unused embedding.

        That of the folder, or else, if it names none, any token.
        """
        return self._shown[kind]

    def tokenize_turns(self, turns: Sequence[Turn], opened: bool = False) -> RenderedChat:
        """Tokens of a conversation; with `opened`, those after which the next answer is written.

        Raises:
            ConversationError: the template refuses it, writes media otherwise than once, changes
                answers so that they cannot be found, or writes something before one to which no
                prompt leads.
        """
        rendering = self._renderer.render_turns(turns, opened)
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
