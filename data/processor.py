"""Samples to examples: chat template, placeholders, patches, log-mel frames.

`measure` and `process` are two readings of one sample: the first from text and metadata, the
second from the media themselves. A sample on which they disagree (say, a file whose header lies)
is refused by name, because every host plans from measurements.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from data.config import DataConfig
from data.media import frames_medium, frames_of, grid_of, patches_of, with_class_token
from data.modality import Kind, Modality
from data.sample import (
    DataError,
    Example,
    LengthError,
    Lengths,
    MediaError,
    Medium,
    Sample,
    SampleError,
    Turn,
)
from data.tokenizer import ChatTokenizer

_VERSION = 1  # of what a sample becomes; raised when the same sample gets other lengths
PAD_ID = 0  # what fills unused positions; never attended to, so any id would do


@dataclass
class _Text:
    """Tokens under construction: ids, whether each is learnt, and where media begin to land."""

    ids: list[int]
    learnt: list[bool]
    starts: dict[str, list[int]]

    def add(self, ids: Sequence[int], learnt: bool = False) -> None:
        self.ids.extend(ids)
        self.learnt.extend([learnt] * len(ids))

    @property
    def first(self) -> dict[str, tuple[int, ...]]:
        """By encoder, the token at which the outputs of each medium begin to land."""
        return {name: tuple(starts) for name, starts in self.starts.items()}


class Processor:
    """Turns samples into examples for the given encoders.

    Raises:
        DataError: a tokenizer that cannot be used, two encoders of one kind of media, or
            normalisation constants that fit neither one nor all channels.
    """

    def __init__(self, config: DataConfig, modalities: Sequence[Modality]) -> None:
        self.config = config
        self.modalities = {modality.name: modality for modality in modalities}
        self._by_kind = {modality.kind: modality for modality in modalities}
        if len(self._by_kind) < len(modalities):
            raise DataError(f"two encoders take the same kind of media: {list(self.modalities)}")
        self._check_normalisation()
        marks: dict[Kind, str] = {
            "image": config.image.placeholder,
            "audio": config.audio.placeholder,
        }
        self._kind_of = {mark: kind for kind, mark in marks.items()}
        if len(self._kind_of) < len(marks):
            raise DataError(f"image and audio have the same placeholder {marks['image']!r}")
        self._split = re.compile("(" + "|".join(map(re.escape, self._kind_of)) + ")")
        self.tokenizer = ChatTokenizer(config.tokenizer, config.chat, tuple(self._kind_of))

    def _check_normalisation(self) -> None:
        image = self._by_kind.get("image")
        if image is None:
            return
        for name in ("mean", "std"):
            values = getattr(self.config.image, name)
            if len(values) not in (1, image.channels):
                raise DataError(
                    f"data.image.{name} has {len(values)} values; valid: 1 or {image.channels}"
                )

    @property
    def fingerprint(self) -> str:
        """Of all that decides the lengths of a sample."""
        image = self.config.image.model_dump(mode="json", exclude={"mean", "std"})
        audio = self.config.audio.model_dump(mode="json")
        encoders = [asdict(modality) for modality in self.modalities.values()]
        contents = [_VERSION, image, audio, self.tokenizer.fingerprint, encoders]
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()

    @property
    def end_id(self) -> int:
        """The end-of-turn id, at which generation stops."""
        return self.tokenizer.end_id

    def placeholder_id(self, encoder: str) -> int:
        """The id at positions where outputs of `encoder` land."""
        kind = self.modalities[encoder].kind
        marks = {kind: mark for mark, kind in self._kind_of.items()}
        return self.tokenizer.placeholder_ids[marks[kind]]

    # ------------------------------------------------------------------ lengths, examples

    def measure(self, sample: Sample) -> Lengths:
        """Lengths of `sample` from its text and from metadata of its media.

        Raises:
            SampleError: the sample cannot be used; the message says why.
        """
        self._check_turns(sample)
        media = self._measure_media(sample)
        text = self._text(sample, media)
        # The last token is only ever a target, so it takes no position.
        return Lengths(len(text.ids) - 1, media, text.first)

    def measure_prompt(self, sample: Sample) -> Lengths:
        """As `measure`, without the last answer."""
        self._check_turns(sample)
        media = self._measure_media(sample)
        text = self._text(_without_answer(sample), media, opened=True)
        return Lengths(len(text.ids), media, text.first)

    def process(self, sample: Sample, expected: Lengths | None = None) -> Example:
        """Read the media and build the example.

        Raises:
            SampleError: as `measure`; unreadable media.
            LengthError: lengths other than `expected`, which is what `measure` said (measured now
                if None).
        """
        return _agreeing(sample, expected or self.measure(sample), self.read(sample))

    def read(self, sample: Sample) -> Example:
        """As `process`, whatever the sample's metadata promise.

        Raises:
            SampleError: the sample cannot be used; the message says why.
        """
        self._check_turns(sample)
        media = self._read_media(sample)
        return _example(self._text(sample, _sizes(media)), media)

    def prompt(self, sample: Sample, expected: Lengths | None = None) -> Example:
        """The example up to where the last answer begins; nothing in it is learnt.

        `expected` is what `measure_prompt` said (measured now if None).

        Raises:
            SampleError: as `process`.
        """
        expected = expected or self.measure_prompt(sample)
        media = self._read_media(sample)
        text = self._text(_without_answer(sample), _sizes(media), opened=True)
        text.add([PAD_ID])  # stands for the first generated token, which is not an input
        example = _example(text, media)
        nothing = np.zeros_like(example.loss_weight)
        return _agreeing(sample, expected, replace(example, loss_weight=nothing))

    def answer(self, sample: Sample) -> str:
        """The last answer as `decode` would print it."""
        return self.decode(self.tokenizer.encode(sample.turns[-1].text.strip()))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of generated ids up to the first end-of-turn, without special tokens."""
        ids = [int(i) for i in ids]
        return self.tokenizer.decode(ids[: ids.index(self.end_id)] if self.end_id in ids else ids)

    def text(self, sample: Sample, expected: Lengths) -> Example:
        """As `process`, without reading the media, whose lengths are taken as expected.

        Raises:
            LengthError: the text is not that of `expected`.
        """
        example = _example(self._text(sample, expected.media), {})
        found = replace(example.lengths, media=expected.media)
        return _agreeing(sample, expected, example, found)

    def medium(self, sample: Sample, encoder: str, number: int, expected: Lengths) -> Medium:
        """Read one medium of a sample.

        Raises:
            SampleError: it cannot be read.
            LengthError: it is not as long as `expected` says.
        """
        modality = self.modalities[encoder]
        try:
            medium = self._read(sample, modality, number)
        except MediaError as error:
            raise SampleError(sample.name, str(error)) from error
        length = expected.media[encoder][number]
        if len(medium.inputs) != length:
            raise LengthError(
                sample.name,
                f"medium {number} of {encoder} was measured as {length} positions but holds "
                f"{len(medium.inputs)}",
            )
        return medium

    # ------------------------------------------------------------------ parts

    def _check_turns(self, sample: Sample) -> None:
        if not sample.turns or sample.turns[-1].role != "assistant":
            raise SampleError(sample.name, "the conversation does not end with an answer")
        for number, turn in enumerate(sample.turns):
            if turn.role == "assistant" and not turn.text.strip():
                raise SampleError(sample.name, f"turn {number} is an empty answer")
        for kind, media in (("image", sample.images), ("audio", sample.audios)):
            marks = [m for m, k in self._kind_of.items() if k == kind]
            count = sum(turn.text.count(mark) for turn in sample.turns for mark in marks)
            if count != len(media):
                raise SampleError(
                    sample.name, f"{count} {marks[0]} placeholders for {len(media)} {kind} files"
                )
            if media and kind not in self._by_kind:
                raise SampleError(sample.name, f"has {kind} media, but no encoder takes {kind}")

    def _measure_media(self, sample: Sample) -> dict[str, tuple[int, ...]]:
        image, audio = self._by_kind.get("image"), self._by_kind.get("audio")
        lengths: dict[str, tuple[int, ...]] = {}
        try:
            if image and sample.images:
                grids = [grid_of(i.size(), image, self.config.image) for i in sample.images]
                lengths[image.name] = tuple(
                    rows * cols + image.class_tokens for rows, cols in grids
                )
            if audio and sample.audios:
                lengths[audio.name] = tuple(
                    frames_of(*clip.info(), self.config.audio, audio.longest) + audio.lookahead
                    for clip in sample.audios
                )
        except MediaError as error:
            raise SampleError(sample.name, str(error)) from error
        return lengths

    def _read_media(self, sample: Sample) -> dict[str, tuple[Medium, ...]]:
        media: dict[str, tuple[Medium, ...]] = {}
        try:
            for modality in self.modalities.values():
                count = len(sample.images if modality.kind == "image" else sample.audios)
                if count:
                    numbers = range(count)
                    media[modality.name] = tuple(self._read(sample, modality, n) for n in numbers)
        except MediaError as error:
            raise SampleError(sample.name, str(error)) from error
        return media

    def _read(self, sample: Sample, modality: Modality, number: int) -> Medium:
        """One medium as encoder input. Raises MediaError."""
        if modality.kind == "image":
            pixels = sample.images[number].load(modality.channels)
            return with_class_token(patches_of(pixels, modality, self.config.image), modality)
        return frames_medium(sample.audios[number].load(), modality, self.config.audio)

    def _text(
        self, sample: Sample, media: dict[str, tuple[int, ...]], opened: bool = False
    ) -> _Text:
        """Tokens of the conversation; with `opened`, an assistant's turn is begun at the end."""
        text = _Text([], [], {name: [] for name in media})
        remaining = {name: iter(lengths) for name, lengths in media.items()}
        separator = self.tokenizer.mark("separator")
        for number, turn in enumerate(sample.turns):
            text.add(separator if number else ())
            text.add(self.tokenizer.mark(turn.role))
            self._add_turn(text, turn, remaining)
            text.add([self.end_id], learnt=turn.role == "assistant")
        if opened:
            text.add(separator if sample.turns else ())
            text.add(self.tokenizer.mark("assistant"))
        return text

    def _add_turn(self, text: _Text, turn: Turn, remaining: dict[str, Iterator[int]]) -> None:
        for piece in self._split.split(turn.text.strip()):
            kind = self._kind_of.get(piece)
            if kind is None:
                text.add(self.tokenizer.encode(piece), learnt=turn.role == "assistant")
                continue
            modality = self._by_kind[kind]
            outputs = modality.outputs(next(remaining[modality.name]))
            text.starts[modality.name].append(len(text.ids))
            text.add([self.tokenizer.placeholder_ids[piece]] * outputs)


def make_processor(config: DataConfig, modalities: Sequence[Modality]) -> Processor:
    """The configured processor. Raises DataError, see `Processor`."""
    return Processor(config, modalities)


def _without_answer(sample: Sample) -> Sample:
    return replace(sample, turns=sample.turns[:-1])


def _sizes(media: dict[str, tuple[Medium, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(len(m.inputs) for m in items) for name, items in media.items()}


def _example(text: _Text, media: dict[str, tuple[Medium, ...]]) -> Example:
    ids = np.array(text.ids, np.int32)
    weight = np.array(text.learnt[1:], np.float32)
    return Example(ids[:-1], ids[1:], weight, media, text.first)


def _agreeing(
    sample: Sample, expected: Lengths, example: Example, found: Lengths | None = None
) -> Example:
    found = found or example.lengths
    if found != expected:
        raise LengthError(sample.name, f"was measured as {expected} but holds {found}")
    return example
