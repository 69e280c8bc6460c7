"""Samples to examples: chat template, placeholders, patches, log-mel frames.

`measure` and `process` are two readings of one sample: the first from text and metadata, the
second from the media themselves. A sample on which they disagree (say, a file whose header lies)
is refused by name, because every host plans from measurements.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from data.batch import NEXT_TOKEN
from data.config import DataConfig, counts
from data.hf_format.media import ReleasedProcessors
from data.media.preview import MediaPreview
from data.media.processor import MediaProcessor
from data.media.registry import MEDIA_TYPES
from data.processing.configured_chat import make_chat, read_files
from data.processing.media_routes import MediaRoutes, check_same_tokens
from data.processing.turn_checks import check_turns
from data.rows.spec import Kind, MediaRowSpec, RowSpec
from data.rows.tokens import media_of, text_of
from data.sample import (
    ConversationError,
    DataError,
    Example,
    LengthError,
    Lengths,
    MediaError,
    MediumLengths,
    ProcessedMedium,
    Sample,
    SampleError,
    Turn,
    lengths_of,
    pattern_of,
)
from data.targets import NEXT_TOKEN_ONLY, TargetSpec
from data.text.chat import PAD_ID, RenderedChat, marks_of

_VERSION = 3  # version of the processing; raised when the same sample gets other lengths

#: Without a family, no class of a released processor is known.
NO_CLASSES = ReleasedProcessors()
#: Lengths of media, by encoder.
Measured = Mapping[str, tuple[MediumLengths, ...]]
#: Lengths of media in the order of the text, by encoder and kind.
_Sizes = Mapping[tuple[str, Kind], Iterator[MediumLengths]]


@dataclass(frozen=True)
class _Text:
    """Tokens: ids, whether each is learnt, and by encoder the starts of the outputs of media."""

    ids: tuple[int, ...]
    learnt: tuple[bool, ...]
    starts: dict[str, tuple[int, ...]]


class Processor:
    """Turns samples into examples for the given encoders; lengths and media are by encoder.

    Args:
        config: configuration of the data.
        specs: descriptions of the rows of all buckets, that of the text among them.
        longest: number of tokens of the longest sample that the decoder has positions for; None
            for any number. Plans leave longer samples out; their lengths are measured all the same.
        targets: by objective, what it needs of a sample. Without the next token among them, all
            tokens of a sample are inputs, and none has a weight.
        released: classes that a folder `data.processor` may name.

    Attributes:
        longest, targets: as given.
        specs: descriptions of all rows by the name of the bucket, that of the text first.
        text: that of the text.
        media: those of all media of a module, by the module's name.

    Raises:
        DataError: a tokenizer, chat template or processor cannot be used or does not fit the
            encoders, or a route names an encoder that does not exist.
    """

    def __init__(
        self,
        config: DataConfig,
        specs: Sequence[RowSpec],
        longest: int | None = None,
        targets: Mapping[str, TargetSpec] = NEXT_TOKEN_ONLY,
        released: ReleasedProcessors = NO_CLASSES,
    ) -> None:
        self.config, self.longest, self.text = config, longest, text_of(specs)
        self.targets, media = dict(targets), media_of(specs)
        self.specs: dict[str, RowSpec] = {spec.name: spec for spec in (self.text, *media)}
        self.media = {spec.module: spec.of_module for spec in media}
        self._routes = MediaRoutes(config, self.media)
        self._marks = marks_of(config)
        if len(set(self._marks.values())) < len(self._marks):
            raise DataError(f"kinds of media have the same placeholder: {self._marks}")
        files = read_files(config, released)
        self.chat = make_chat(config, list(self._routes.by_kind), files)
        self._processors: dict[tuple[str, Kind], MediaProcessor] = {}
        for name, spec in self.media.items():
            reader = files.make_reader(config, spec) if files else None
            for kind in spec.kinds:
                processor = MEDIA_TYPES[kind].make_processor(config, spec, reader)
                self._processors[name, kind] = processor

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all that decides the lengths of a sample."""
        sections = {
            kind: section.model_dump(mode="json", exclude={"mean", "std", "modules"})
            for kind, section in self.config.media.items()
            if counts(kind, self._routes.by_kind)
        }
        encoders = [[spec.kind, spec.length_fields()] for spec in self.media.values()]
        contents = [_VERSION, sections, self.chat.fingerprint, encoders]
        if routes := {k: r.model_dump(mode="json") for k, r in self.config.routes.items()}:
            contents.append(routes)
        if NEXT_TOKEN not in self.targets:
            contents.append("every token is an input")
        if others := {n: repr(spec) for n, spec in self.targets.items() if n != NEXT_TOKEN}:
            contents.append(others)
        spec = self.config.image.modules
        if single := {name: spec[name].model_dump(mode="json") for name in sorted(spec)}:
            contents.append(single)
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The ids at which generation stops; the first is that of the end of a turn."""
        return self.chat.end_ids

    @property
    def module_specs(self) -> tuple[RowSpec, ...]:
        """Descriptions of the rows of all modules, that of the text first."""
        return (self.text, *self.media.values())

    @property
    def is_drawn(self) -> bool:
        """Whether some media are drawn anew in every epoch, and so the lengths of samples."""
        return any(MEDIA_TYPES[kind].is_drawn for kind in self._routes.by_kind)

    def placeholder_id(self, encoder: str) -> int:
        """The id at positions where outputs of `encoder` are merged."""
        return self.chat.placeholder_id(self.media[encoder].kind)

    # ------------------------------------------------------------------ lengths, examples

    def measure(self, sample: Sample) -> Lengths:
        """Lengths of `sample` from its text and from metadata of its media.

        Raises:
            SampleError: the sample cannot be used; the message says why.
        """
        with _name_sample_errors(sample):
            check_turns(sample, self.targets.values(), self._marks, self._routes.by_kind)
        media = self._measure_media(sample)
        text = self._tokenize_sample(sample, media)
        # The last token is only a target, so it takes no position.
        return self._lengths_of(len(text.ids) - (NEXT_TOKEN in self.targets), media, text)

    def measure_prompt(self, sample: Sample, *, answered: bool = True) -> Lengths:
        """The lengths of a sample without its last answer and the media of this answer.

        Args:
            answered: whether the sample must have an answer; else it may end with a question.
        """
        with _name_sample_errors(sample):
            check_turns(
                sample,
                NEXT_TOKEN_ONLY.values() if answered else (),
                self._marks,
                self._routes.by_kind,
            )
            if answered and not sample.turns[-1].learnt:
                raise ConversationError("the last answer has a weight of 0")
        prompt = self._without_answer(sample)
        media = self._measure_media(prompt)
        text = self._tokenize_sample(prompt, media, opened=True)
        return self._lengths_of(len(text.ids), media, text)

    def _lengths_of(self, tokens: int, media: Measured, text: _Text) -> Lengths:
        """Lengths of a sample of so many tokens."""
        return Lengths({self.text.module: (MediumLengths(tokens),), **media}, text.starts)

    def process(self, sample: Sample, expected: Lengths | None = None) -> Example:
        """Read the media and build the example.

        Raises:
            SampleError: as `measure`; unreadable media.
            LengthError: the lengths differ from `expected`, the result of `measure` (measured now
                if None).
        """
        return _check_lengths(
            sample, expected or self.measure(sample), self.process_unchecked(sample)
        )

    def process_unchecked(self, sample: Sample) -> Example:
        """The example of `process`, without comparing lengths with the sample's metadata.

        Raises:
            SampleError: the sample cannot be used; the message says why.
        """
        with _name_sample_errors(sample):
            check_turns(sample, self.targets.values(), self._marks, self._routes.by_kind)
        media = self._read_media(sample)
        return self._make_example(sample, self._tokenize_sample(sample, lengths_of(media)), media)

    def process_prompt(self, sample: Sample, expected: Lengths | None = None) -> Example:
        """The example up to the start of the last answer; nothing in it is learnt.

        `expected` is the result of `measure_prompt` (measured now if None).

        Raises:
            SampleError: as `process`.
        """
        expected = expected or self.measure_prompt(sample)
        prompt = self._without_answer(sample)
        media = self._read_media(prompt)
        text = self._tokenize_sample(prompt, lengths_of(media), opened=True)
        # One more position is for the first generated token, which is not an input.
        more = _Text((*text.ids, PAD_ID), (*text.learnt, False), text.starts)
        example = self._shift_targets(more, media)
        nothing = np.zeros_like(example.loss_weight)
        return _check_lengths(sample, expected, replace(example, loss_weight=nothing))

    def answer_text(self, sample: Sample) -> str:
        """The last answer as `decode` returns it."""
        return self.decode(self.answer_ids(sample))

    def answer_ids(self, sample: Sample) -> list[int]:
        """The tokens of the last answer that are learnt: those that generation should write."""
        turns = self._rendered_turns(sample)
        chat, prompt = (
            self.chat.tokenize_turns(turns),
            self.chat.tokenize_turns(turns[:-1], opened=True),
        )
        answer = slice(len(prompt.ids), None)
        pairs = zip(chat.ids[answer], chat.learnt[answer], strict=True)
        return [number for number, learnt in pairs if learnt]

    def encode(self, text: str) -> Sequence[int]:
        """Ids of a text, in which nothing is a special token."""
        return self.chat.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of generated ids up to the first that ends an answer, without special tokens."""
        ends = {*self.end_ids}
        return self.chat.decode([*takewhile(lambda number: number not in ends, map(int, ids))])

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token of `ids` adds, special tokens by their names."""
        return self.chat.token_texts([int(i) for i in ids])

    def process_text(self, sample: Sample, expected: Lengths) -> Example:
        """The text of `process`' example; media are not read, and have their expected lengths.

        Raises:
            LengthError: the text has other lengths than `expected`.
        """
        media = {name: expected.of(name) for name in self.media if expected.of(name)}
        text = self._tokenize_sample(sample, media)
        example = self._make_example(sample, text, {})
        return _check_lengths(
            sample, expected, example, self._lengths_of(len(example.tokens), media, text)
        )

    def read_medium(
        self, sample: Sample, encoder: str, number: int, expected: Lengths
    ) -> ProcessedMedium:
        """Read one medium of a sample.

        Raises:
            SampleError: the medium cannot be read.
            LengthError: the medium has another length than `expected`.
        """
        with _name_sample_errors(sample):
            medium = self._read_medium(
                sample, encoder, *self._routes.places_of(sample)[encoder][number]
            )
        measured = expected.of(encoder)[number]
        if len(medium.inputs) != measured.count:
            raise LengthError(
                sample.name,
                f"medium {number} of {encoder} was measured as {measured.count} positions but "
                f"holds {len(medium.inputs)}",
            )
        grid, measured_grid = map(self.media[encoder].grid_of, (medium.lengths, measured))
        if grid != measured_grid:
            raise LengthError(
                sample.name,
                f"medium {number} of {encoder} was measured as {measured_grid} of outputs but has "
                f"{grid}",
            )
        if medium.entries != measured.entries:
            raise LengthError(
                sample.name,
                f"medium {number} of {encoder} was measured as {measured.entries} entries on "
                f"{', '.join(self.media[encoder].axes)} but has {medium.entries}",
            )
        return medium

    def preview_medium(
        self, sample: Sample, encoder: str, number: int, processed: ProcessedMedium
    ) -> MediaPreview:
        """One medium of a sample to look at, as it is and as its encoder gets it.

        Args:
            number: number of the medium among those of the encoder.
            processed: the medium as encoder input, see `read_medium`.

        Raises:
            SampleError: the medium cannot be read.
        """
        with _name_sample_errors(sample):
            kind, place = self._routes.places_of(sample)[encoder][number]
            medium = sample.of(kind)[place]
            return self._processors[encoder, kind].preview_medium(medium, processed)

    # ------------------------------------------------------------------ parts

    def _make_example(
        self, sample: Sample, text: _Text, media: dict[str, tuple[ProcessedMedium, ...]]
    ) -> Example:
        values_of = {name: spec.make(sample) for name, spec in self.targets.items()}
        values = {name: value for name, value in values_of.items() if value is not None}
        if NEXT_TOKEN in self.targets:
            return replace(self._shift_targets(text, media), values=values)
        ids = np.array(text.ids, np.int32)
        weights, module = np.zeros(len(ids), np.float32), self.text.module
        return Example(ids, np.zeros_like(ids), weights, media, text.starts, module, values)

    def _shift_targets(self, text: _Text, media: dict[str, tuple[ProcessedMedium, ...]]) -> Example:
        """The example in which every token but the last is an input, and the next its target."""
        ids = np.array(text.ids, np.int32)
        weight, module = np.array(text.learnt[1:], np.float32), self.text.module
        return Example(ids[:-1], ids[1:], weight, media, text.starts, module)

    # ---- media and text --------------------------------------------------------------------------

    def _without_answer(self, sample: Sample) -> Sample:
        """The sample without the answer that it ends with, if it does, and the answer's media."""
        if sample.turns[-1].role != "assistant":
            return sample
        turns, last = sample.turns[:-1], sample.turns[-1]
        media = {
            kind: items[: len(items) - last.count(self._marks[kind])]
            for kind, items in sample.media.items()
        }
        encoders = {kind: items[: len(media[kind])] for kind, items in sample.encoders.items()}
        return replace(sample, turns=turns, media=media, encoders=encoders)

    def _measure_media(self, sample: Sample) -> Measured:
        """Lengths of the media of a sample."""
        with _name_sample_errors(sample):
            return {
                name: tuple(self._measure_medium(sample, name, *place) for place in places)
                for name, places in self._routes.places_of(sample).items()
            }

    def _read_media(self, sample: Sample) -> dict[str, tuple[ProcessedMedium, ...]]:
        media: dict[str, tuple[ProcessedMedium, ...]] = {}
        with _name_sample_errors(sample):
            for name, places in self._routes.places_of(sample).items():
                media[name] = tuple(self._read_medium(sample, name, *place) for place in places)
        return media

    def _measure_medium(
        self, sample: Sample, encoder: str, kind: Kind, number: int
    ) -> MediumLengths:
        """Lengths of a medium. Raises MediaError."""
        media = sample.of(kind)
        return self._processors[encoder, kind].measure(media[number], len(media) == 1)

    def _read_medium(
        self, sample: Sample, encoder: str, kind: Kind, number: int
    ) -> ProcessedMedium:
        """A medium as encoder input. Raises MediaError."""
        media = sample.of(kind)
        return self._processors[encoder, kind].process(media[number], len(media) == 1)

    def _tokenize_sample(self, sample: Sample, media: Measured, opened: bool = False) -> _Text:
        """Tokens of the conversation; with `opened`, an assistant's turn is begun at the end."""
        with _name_sample_errors(sample):
            chat = self.chat.tokenize_turns(self._rendered_turns(sample), opened)
        with _name_sample_errors(sample):
            going = {
                kind: iter(self._routes.encoders_of(sample, kind)) for kind in self._routes.by_kind
            }
            return self._merge_media_tokens(chat, going, self._lengths_in_text(sample, media))

    def _rendered_turns(self, sample: Sample) -> tuple[Turn, ...]:
        """Turns, in which placeholders of what neither model nor sample has are words."""
        words = [
            mark
            for kind, mark in self._marks.items()
            if kind not in self._routes.by_kind and not sample.of(kind)
        ]
        marks = pattern_of(words)
        return tuple(turn.with_words(marks) for turn in sample.turns) if words else sample.turns

    def _lengths_in_text(self, sample: Sample, media: Measured) -> _Sizes:
        """Lengths of the media, by encoder and kind."""
        lengths_of_place = defaultdict[tuple[str, Kind], list[MediumLengths]](list)
        for name, places in self._routes.places_of(sample).items():
            for (kind, _), lengths in zip(places, media[name], strict=True):
                lengths_of_place[name, kind].append(lengths)
        return {place: iter(lengths) for place, lengths in lengths_of_place.items()}

    def _merge_media_tokens(
        self,
        chat: RenderedChat,
        going: Mapping[Kind, Iterator[tuple[MediaRowSpec, ...]]],
        sizes: _Sizes,
    ) -> _Text:
        """Tokens in which each medium's placeholder is replaced by the medium's tokens.

        Raises:
            MediaError: encoders whose outputs are added up make different tokens of a medium.
        """
        ids: list[int] = []
        learnt: list[bool] = []
        starts: dict[tuple[str, Kind], list[int]] = {place: [] for place in sizes}
        done = 0
        for at, kind in chat.media:
            ids += chat.ids[done:at]
            learnt += chat.learnt[done:at]
            added = self.config.route_of(kind).join == "sum"
            begin, first = len(ids), None
            for spec in next(going[kind]):
                place = spec.name, kind
                processor = self._processors[place]
                tokens = processor.layout(next(sizes[place]), chat.ids[at]).tokens
                if spec.selected:
                    starts[place].append(0)
                    continue
                starts[place].append(begin if added else len(ids))
                if added and first is not None:
                    check_same_tokens(kind, spec, first[0], first[1], tokens)
                    continue
                first = spec, tokens
                ids += tokens
            learnt += [False] * (len(ids) - len(learnt))
            done = at + 1
        return _Text((*ids, *chat.ids[done:]), (*learnt, *chat.learnt[done:]), _join_starts(starts))


def make_processor(
    config: DataConfig,
    specs: Sequence[RowSpec],
    longest: int | None = None,
    targets: Mapping[str, TargetSpec] = NEXT_TOKEN_ONLY,
    released: ReleasedProcessors = NO_CLASSES,
) -> Processor:
    """The configured processor. Raises DataError, see `Processor`."""
    return Processor(config, specs, longest, targets, released)


@contextmanager
def _name_sample_errors(sample: Sample) -> Iterator[None]:
    """Turn errors of a sample's text or media into SampleError with its name."""
    try:
        yield
    except (ConversationError, MediaError) as error:
        raise SampleError(sample.name, error.fault) from error


def _join_starts(starts: Mapping[tuple[str, Kind], list[int]]) -> dict[str, tuple[int, ...]]:
    """Starts by encoder, of whose kinds of media one lies after the other."""
    by_encoder: dict[str, tuple[int, ...]] = {}
    for (name, _), numbers in starts.items():
        by_encoder[name] = (*by_encoder.get(name, ()), *numbers)
    return by_encoder


def _check_lengths(
    sample: Sample, expected: Lengths, example: Example, actual: Lengths | None = None
) -> Example:
    actual = actual or example.lengths
    if actual != expected:
        raise LengthError(sample.name, f"was measured as {expected} but holds {actual}")
    return example
