"""From prompts to answers: measure prompts, sort them by length, read and decode batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from data.faults import FaultKind, SampleFault
from data.loading.evaluation import PromptBatch
from data.loading.prompts import prompt_rows
from data.sample import Lengths, SampleError
from data.sources.formats.prompts import (
    QuestionSet,
    QuestionSource,
    open_questions,
    program_questions,
)
from data.sources.source import Source
from mllm_jax.config.sections import ConfigError
from mllm_jax.generate.answers import AnswerReply, AnswerSet, AnswerTiming
from mllm_jax.generate.opened import OpenedModel
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.decoding.columns import AnswerColumns
from mllm_jax.train.decoding.programs import DecodingPrograms, Gather
from mllm_jax.train.decoding.sampling import TokenSampling
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.step.batch_placement import local_rows

#: Prompts that are answered at a time, and most tokens of an answer, by default.
ROWS, NEW_TOKENS = 8, 256
#: Least seconds between two lines of progress.
TOLD = 10.0
#: A prompt for a program: a text, or a record as in a file (`data.sources.formats.prompts`).
Prompt = str | Mapping[str, Any]


@dataclass(frozen=True)
class AnswerOptions:
    """Options of the answers to prompts.

    Attributes:
        sampling: how tokens are chosen.
        new_tokens: most tokens of an answer.
        rows: prompts that are answered at a time; rounded up to the ranks that share them.
    """

    sampling: TokenSampling = field(default_factory=TokenSampling)
    new_tokens: int = NEW_TOKENS
    rows: int = ROWS

    def __post_init__(self) -> None:
        for name in ("new_tokens", "rows"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError("generate", [f"{name}: {value} is refused; valid: at least 1"])


@dataclass(frozen=True)
class _MeasuredPrompt:
    """A prompt within the limits: its index in the source, and its lengths."""

    index: int
    lengths: Lengths


class AnswerGenerator:
    """A model that answers prompts under its plans.

    Args:
        opened: the model, whose devices have been started.
        gather: when parameters are made whole along fsdp, see `train.decoding`.
        notify: shows a line of progress.

    Raises:
        PlanError: the plans do not fit the devices. DataError: its processor cannot be made.
        CheckpointError, PretrainedError: its parameters cannot be read, with the first prompts.
    """

    def __init__(
        self,
        opened: OpenedModel,
        gather: Gather = "step",
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.opened, self.config, self._notify = opened, opened.config, notify
        self.experiment = Experiment.build(opened.config)
        self.processor, self._step = self.experiment.processor, self.experiment.forward_step
        self.ends = self.processor.end_ids
        self._decoding = DecodingPrograms(self._step, self.ends, gather)

    @cached_property
    def _parameters_read(self) -> Any:
        """Parameters for `DecodingPrograms`, read when the first prompts are known to fit."""
        current_peers().note_activity("restoring the state", limited=False)
        self._notify(f"reading {self.opened.named}")
        params = self._decoding.prepare_parameters(self.opened.load(self.experiment))
        current_peers().note_activity("answering", limited=False)
        return params

    def __call__(
        self,
        prompts: Prompt | Sequence[Prompt],
        options: AnswerOptions | None = None,
        folder: Path | None = None,
    ) -> AnswerSet:
        """Answers to prompts of a program.

        Args:
            prompts: one or several. Paths of media are relative to `folder`, or the working folder.
            options: what answers are wanted; None: greedy ones of at most `NEW_TOKENS`.
            folder: see there.

        Raises:
            SampleError: a prompt cannot be used.
        """
        prompt_list = [prompts] if isinstance(prompts, str | Mapping) else prompts
        records = [
            {"prompt": prompt} if isinstance(prompt, str) else prompt for prompt in prompt_list
        ]
        source = program_questions(self.config.data, records, folder or Path.cwd())
        return self.answers(source, options or AnswerOptions(), strict=True)

    def open_questions(self, file: Path, media: Path | None = None) -> QuestionSet:
        """Prompts of a file. Raises DataError: it cannot be read."""
        return open_questions(self.config.data, str(file), None if media is None else str(media))

    def answers(
        self,
        source: QuestionSource,
        options: AnswerOptions,
        *,
        strict: bool = False,
        known_replies: Mapping[int, AnswerReply] = MappingProxyType({}),
        on_answered: Callable[[Mapping[int, AnswerReply]], None] = lambda replies: None,
    ) -> AnswerSet:
        """Answers to all prompts of a source.

        Args:
            source: the prompts; an answer at the end of a conversation is not read.
            options: what answers are wanted.
            strict: raise the error of a prompt that cannot be used, rather than report it in place
                of its answer.
            known_replies: answers that are there already, by the indices of their prompts; the same
                prompts on all processes.
            on_answered: is given the replies to the prompts of every batch, by index.

        Raises:
            SampleError: see there.
        """
        replies = dict(known_replies)

        def note_missing(index: int, error: SampleError) -> None:
            if strict:
                raise error
            replies[index] = AnswerReply(source.name(index), None, error=str(error.fault))

        text = self.processor.text.module
        unanswered = [index for index in range(len(source)) if index not in known_replies]
        fitting = [
            prompt
            for index in unanswered
            if (prompt := self._measure_prompt(source, index, note_missing))
        ]
        fitting.sort(key=lambda prompt: (prompt.lengths.total(text), prompt.index))
        rows, timing = self._choose_rows(min(len(fitting), options.rows)), AnswerTiming()
        last_progress = time.monotonic()
        for begin in range(0, len(fitting), rows):
            chosen = fitting[begin : begin + rows]
            timing += self._answer_batch(source, chosen, rows, options, replies, note_missing)
            on_answered({prompt.index: replies[prompt.index] for prompt in chosen})
            if time.monotonic() - last_progress > TOLD:
                self._notify(f"{begin + len(chosen)} of {len(fitting)} prompts answered; {timing}")
                last_progress = time.monotonic()
        every = range(len(source))
        return AnswerSet(
            [replace(replies[index], id=source.record_id(index)) for index in every], timing
        )

    # ---- parts -----------------------------------------------------------------------------------

    def _choose_rows(self, prompts: int) -> int:
        """Rows of a batch for so many prompts, which the plans of all modules divide."""
        plans = self._step.program.grid.plans.values()
        shares = math.lcm(*(plan.batch for plan in plans))
        return max(1, -(-prompts // shares)) * shares

    def _measure_prompt(
        self, source: Source, index: int, miss: Callable[[int, SampleError], None]
    ) -> _MeasuredPrompt | None:
        """A prompt with its lengths, unless it cannot be used."""
        model = self.config.model
        longest, key = model.backbone_config.max_positions, self.config.model_key(model.backbone)
        try:
            lengths = self.processor.measure_prompt(source[index, 0], answered=False)
            tokens = lengths.total(self.processor.text.module)
            if tokens > longest:
                text = (
                    f"the prompt has {tokens} tokens, above the {longest} of "
                    f"{key}.max_positions; valid: a shorter prompt, or fewer media"
                )
                raise SampleError(source.name(index), SampleFault(FaultKind.BUDGET, text))
        except SampleError as error:
            miss(index, error)
            return None
        return _MeasuredPrompt(index, lengths)

    def _answer_batch(
        self,
        source: Source,
        chosen: Sequence[_MeasuredPrompt],
        rows: int,
        options: AnswerOptions,
        replies: dict[int, AnswerReply],
        miss: Callable[[int, SampleError], None],
    ) -> AnswerTiming:
        """Answer the prompts of a batch."""
        rows_here = local_rows(self._step, rows)
        batch = self._read_batch(source, chosen, rows, rows_here)
        by_name = {source.name(prompt.index): prompt.index for prompt in chosen}
        for name, fault in batch.skipped:
            miss(by_name[name], SampleError(name, fault))
        longest = self.config.model.backbone_config.max_positions
        limits = [min(options.new_tokens, 1 + longest - slot.tokens) for slot in batch.slots]
        columns = AnswerColumns.from_prompts(
            batch.slots, rows_here[self.config.model.backbone], self._decoding.columns_unit, limits
        )
        written = self._decoding.write_answers(
            self._parameters_read, batch.batch, columns, options.new_tokens, options.sampling
        )
        for slot, tokens in zip(batch.slots, written.answers, strict=True):
            replies[slot.index] = self._make_reply(source, slot.index, slot.tokens, tokens)
        count = sum(map(len, written.answers))
        return AnswerTiming(
            sum(slot.tokens for slot in batch.slots),
            len(batch.slots),
            count - len(batch.slots),
            written.prefill_seconds,
            written.decode_seconds,
            written.compile_seconds,
        )

    def _read_batch(
        self,
        source: Source,
        chosen: Sequence[_MeasuredPrompt],
        rows: int,
        rows_here: Mapping[str, Sequence[int]],
    ) -> PromptBatch:
        """The prompts of a batch with their media."""
        config = self.config.data.model_copy(update={"rows": rows, "on_error": "skip"})
        prompts = [(prompt.index, prompt.lengths) for prompt in chosen]
        units = self.config.budget_units
        return prompt_rows(source, self.processor, config, rows_here, prompts, units)

    def _make_reply(
        self, source: Source, index: int, prompt: int, tokens: Sequence[int]
    ) -> AnswerReply:
        ended = bool(tokens) and tokens[-1] in self.ends
        text = self.processor.chat.decode(list(tokens[:-1] if ended else tokens))
        reply = source.name(index), text, tuple(tokens), prompt
        return AnswerReply(*reply, stopped="end" if ended else "length")
