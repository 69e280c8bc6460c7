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
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np

from data.config import DataConfig
from data.faults import FaultKind
from data.kinds.modality import Modality
from data.kinds.tiles import Size
from data.processing.configured_chat import make_chat, read_files
from data.processing.readers import AudioReader, ConfiguredClips, ConfiguredImages, ImageReader
from data.released.audio import ReleasedAudio
from data.released.files import ReleasedFiles
from data.released.images import ReleasedImages
from data.sample import (
    ConversationError,
    DataError,
    Example,
    LengthError,
    Lengths,
    MediaError,
    Medium,
    Sample,
    SampleError,
    grids_of,
)
from data.text.chat import PAD_ID, marks_of

_VERSION = 2  # of what a sample becomes; raised when the same sample gets other lengths
_SURROGATES = re.compile("[\ud800-\udfff]")  # JSON may have them alone; no tokenizer takes them


#: By encoder, input positions of its media, or the tokens at which their outputs begin to land.
Numbers = dict[str, tuple[int, ...]]
Grids = dict[str, tuple[Size, ...]]


@dataclass(frozen=True)
class _Text:
    """Tokens: ids, whether each is learnt, and by encoder where the outputs of media begin."""

    ids: tuple[int, ...]
    learnt: tuple[bool, ...]
    starts: Numbers


class Processor:
    """Turns samples into examples for the given encoders.

    Raises:
        DataError: a tokenizer, chat template or processor that cannot be used or does not fit the
            encoders, or two encoders of one kind of media.
    """

    def __init__(self, config: DataConfig, modalities: Sequence[Modality]) -> None:
        self.config = config
        self.modalities = {modality.name: modality for modality in modalities}
        self._by_kind = {modality.kind: modality for modality in modalities}
        if len(self._by_kind) < len(modalities):
            raise DataError(f"two encoders take the same kind of media: {list(self.modalities)}")
        self._marks = marks_of(config)
        if len(set(self._marks.values())) < len(self._marks):
            raise DataError(f"image and audio have the same placeholder {self._marks['image']!r}")
        files = read_files(config)
        self.chat = make_chat(config, list(self._by_kind), files)
        image, audio = self._by_kind.get("image"), self._by_kind.get("audio")
        self._images = None if image is None else _image_reader(config, image, files)
        self._clips = None if audio is None else _audio_reader(config, audio, files)

    @property
    def fingerprint(self) -> str:
        """Of all that decides the lengths of a sample."""
        image = self.config.image.model_dump(mode="json", exclude={"mean", "std"})
        audio = self.config.audio.model_dump(mode="json")
        encoders = [asdict(modality) for modality in self.modalities.values()]
        contents = [_VERSION, image, audio, self.chat.fingerprint, encoders]
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()

    @property
    def end_id(self) -> int:
        """The end-of-turn id, at which generation stops."""
        return self.chat.end_id

    def placeholder_id(self, encoder: str) -> int:
        """The id at positions where outputs of `encoder` land."""
        return self.chat.placeholder_id(self.modalities[encoder].kind)

    # ------------------------------------------------------------------ lengths, examples

    def measure(self, sample: Sample) -> Lengths:
        """Lengths of `sample` from its text and from metadata of its media.

        Raises:
            SampleError: the sample cannot be used; the message says why.
        """
        with _naming(sample):
            self._check_turns(sample)
        media, grids = self._measure_media(sample)
        text = self._text(sample, media, grids)
        # The last token is only ever a target, so it takes no position.
        return Lengths(len(text.ids) - 1, media, text.starts, grids)

    def measure_prompt(self, sample: Sample) -> Lengths:
        """As `measure`, without the last answer and its media."""
        with _naming(sample):
            self._check_turns(sample)
        prompt = self._without_answer(sample)
        media, grids = self._measure_media(prompt)
        text = self._text(prompt, media, grids, opened=True)
        return Lengths(len(text.ids), media, text.starts, grids)

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
        with _naming(sample):
            self._check_turns(sample)
        media = self._read_media(sample)
        return _example(self._text(sample, _sizes(media), grids_of(media)), media)

    def prompt(self, sample: Sample, expected: Lengths | None = None) -> Example:
        """The example up to where the last answer begins; nothing in it is learnt.

        `expected` is what `measure_prompt` said (measured now if None).

        Raises:
            SampleError: as `process`.
        """
        expected = expected or self.measure_prompt(sample)
        prompt = self._without_answer(sample)
        media = self._read_media(prompt)
        text = self._text(prompt, _sizes(media), grids_of(media), opened=True)
        # One more stands for the first generated token, which is not an input.
        more = _Text((*text.ids, PAD_ID), (*text.learnt, False), text.starts)
        example = _example(more, media)
        nothing = np.zeros_like(example.loss_weight)
        return _agreeing(sample, expected, replace(example, loss_weight=nothing))

    def answer(self, sample: Sample) -> str:
        """The last answer as `decode` would print it."""
        return self.decode(self.encode(sample.turns[-1].text.strip()))

    def encode(self, text: str) -> Sequence[int]:
        """Ids of a text, in which nothing is a special token."""
        return self.chat.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of generated ids up to the first end-of-turn, without special tokens."""
        ids = [int(i) for i in ids]
        return self.chat.decode(ids[: ids.index(self.end_id)] if self.end_id in ids else ids)

    def text(self, sample: Sample, expected: Lengths) -> Example:
        """As `process`, without reading the media, whose lengths are taken as expected.

        Raises:
            LengthError: the text is not that of `expected`.
        """
        example = _example(self._text(sample, expected.media, expected.grids), {})
        found = replace(example.lengths, media=expected.media, grids=expected.grids)
        return _agreeing(sample, expected, example, found)

    def medium(self, sample: Sample, encoder: str, number: int, expected: Lengths) -> Medium:
        """Read one medium of a sample.

        Raises:
            SampleError: it cannot be read.
            LengthError: it is not as long as `expected` says.
        """
        with _naming(sample):
            medium = self._read(sample, self.modalities[encoder], number)
        length = expected.media[encoder][number]
        if len(medium.inputs) != length:
            raise LengthError(
                sample.name,
                f"medium {number} of {encoder} was measured as {length} positions but holds "
                f"{len(medium.inputs)}",
            )
        if medium.tiles is not None and medium.tiles.grid != expected.grids[encoder][number]:
            raise LengthError(
                sample.name,
                f"medium {number} of {encoder} was measured as {expected.grids[encoder][number]} "
                f"rows and columns of outputs but has {medium.tiles.grid}",
            )
        return medium

    # ------------------------------------------------------------------ parts

    def _check_turns(self, sample: Sample) -> None:
        """Raise ConversationError or MediaError for turns that cannot be learnt."""
        if not sample.turns or sample.turns[-1].role != "assistant":
            raise ConversationError("the conversation does not end with an answer")
        for number, turn in enumerate(sample.turns):
            broken = _SURROGATES.search(turn.text)
            if broken:
                raise ConversationError(
                    f"turn {number} has U+{ord(broken[0]):04X}, half of a character (a surrogate), "
                    f"at {broken.start()}"
                )
            if turn.role == "assistant" and not turn.text.strip():
                raise ConversationError(f"turn {number} is an empty answer")
        counts = {"image": len(sample.images), "audio": len(sample.audios)}
        for kind, mark in self._marks.items():
            count = sum(turn.text.count(mark) for turn in sample.turns)
            if count != counts[kind]:
                text = f"{count} {mark} placeholders for {counts[kind]} {kind} files"
                raise MediaError(FaultKind.MEDIA, text)
            if count and kind not in self._by_kind:
                text = f"has {kind} media, but no encoder takes {kind}"
                raise MediaError(FaultKind.MEDIA, text)

    def _without_answer(self, sample: Sample) -> Sample:
        """The sample without its last turn, and the media of that."""
        turns, last = sample.turns[:-1], sample.turns[-1].text
        images = len(sample.images) - last.count(self._marks["image"])
        audios = len(sample.audios) - last.count(self._marks["audio"])
        return replace(
            sample, turns=turns, images=sample.images[:images], audios=sample.audios[:audios]
        )

    def _measure_media(self, sample: Sample) -> tuple[Numbers, Grids]:
        """Input positions of the media by encoder, and grids of tiled images."""
        lengths: Numbers = {}
        grids: Grids = {}
        with _naming(sample):
            if self._images and sample.images:
                alone, name = len(sample.images) == 1, self._by_kind["image"].name
                found = [self._images.measure(image.size(), alone) for image in sample.images]
                lengths[name] = tuple(length for length, _ in found)
                tiled = tuple(grid for _, grid in found if grid is not None)
                grids |= {name: tiled} if tiled else {}
            if self._clips and sample.audios:
                clips = [self._clips.measure(*clip.info()) for clip in sample.audios]
                lengths[self._by_kind["audio"].name] = tuple(clips)
        return lengths, grids

    def _read_media(self, sample: Sample) -> dict[str, tuple[Medium, ...]]:
        media: dict[str, tuple[Medium, ...]] = {}
        with _naming(sample):
            for modality in self.modalities.values():
                count = len(sample.images if modality.kind == "image" else sample.audios)
                if count:
                    numbers = range(count)
                    media[modality.name] = tuple(self._read(sample, modality, n) for n in numbers)
        return media

    def _read(self, sample: Sample, modality: Modality, number: int) -> Medium:
        """One medium as encoder input. Raises MediaError."""
        if modality.kind == "image" and self._images:
            pixels = sample.images[number].load(modality.channels)
            return self._images.read(pixels, len(sample.images) == 1)
        if self._clips is None:
            raise MediaError(FaultKind.MEDIA, f"no encoder takes {modality.kind}")
        clip = sample.audios[number]
        self._clips.measure(*clip.info())  # refuses clips at another rate, or too long ones
        return self._clips.read(clip.load())

    def _text(self, sample: Sample, media: Numbers, grids: Grids, opened: bool = False) -> _Text:
        """Tokens of the conversation; with `opened`, an assistant's turn is begun at the end."""
        with _naming(sample):
            told = self.chat.tell(sample.turns, opened)
        own = Lengths(0, media, {}, grids)
        sizes = {
            name: zip(lengths, self.modalities[name].grids(own), strict=True)
            for name, lengths in media.items()
        }
        ids: list[int] = []
        learnt: list[bool] = []
        starts: dict[str, list[int]] = {name: [] for name in media}
        done = 0
        for at, kind in told.media:
            modality = self._by_kind[kind]
            ids += told.ids[done:at]
            learnt += told.learnt[done:at]
            starts[modality.name].append(len(ids))
            ids += modality.in_text(*next(sizes[modality.name]), told.ids[at])
            learnt += [False] * (len(ids) - len(learnt))
            done = at + 1
        return _Text((*ids, *told.ids[done:]), (*learnt, *told.learnt[done:]), _fixed(starts))


def make_processor(config: DataConfig, modalities: Sequence[Modality]) -> Processor:
    """The configured processor. Raises DataError, see `Processor`."""
    return Processor(config, modalities)


def _image_reader(
    config: DataConfig, modality: Modality, files: ReleasedFiles | None
) -> ImageReader:
    if files is None or files.image is None:
        return ConfiguredImages(config.image, modality)
    _check_idle(config, "image", ("height", "max_patches", "mean", "std"))
    tiling, most = modality.tiling, files.most_tiles
    if tiling is not None and most is not None and tiling.most != most:
        raise DataError(
            f"data.processor keeps the outputs of {most} tiles of an image "
            f"(vision_aspect_ratio), the encoder {modality.name!r} of {tiling.most}"
        )
    return ReleasedImages(files.image, modality, config.image.max_pixels)


def _audio_reader(
    config: DataConfig, modality: Modality, files: ReleasedFiles | None
) -> AudioReader:
    if files is None or files.audio is None:
        return ConfiguredClips(config.audio, modality)
    _check_idle(config, "audio", ("sample_rate", "hop", "window"))
    return ReleasedAudio(files.audio, modality)


def _check_idle(config: DataConfig, section: str, keys: Sequence[str]) -> None:
    """Raise DataError for keys that a released processor leaves without effect."""
    given = getattr(config, section)
    for key in keys:
        value, default = getattr(given, key), type(given).model_fields[key].default
        if value != default:
            raise DataError(
                f"data.{section}.{key}: {value} has no effect, as data.processor says how "
                f"{section} inputs are made; valid: leave it out"
            )


@contextmanager
def _naming(sample: Sample) -> Iterator[None]:
    """Name the sample whose text or media cannot be used."""
    try:
        yield
    except (ConversationError, MediaError) as error:
        raise SampleError(sample.name, error.fault) from error


def _fixed(starts: dict[str, list[int]]) -> Numbers:
    return {name: tuple(own) for name, own in starts.items()}


def _sizes(media: dict[str, tuple[Medium, ...]]) -> Numbers:
    return {name: tuple(len(m.inputs) for m in items) for name, items in media.items()}


def _example(text: _Text, media: dict[str, tuple[Medium, ...]]) -> Example:
    ids = np.array(text.ids, np.int32)
    weight = np.array(text.learnt[1:], np.float32)
    return Example(ids[:-1], ids[1:], weight, media, text.starts)


def _agreeing(
    sample: Sample, expected: Lengths, example: Example, found: Lengths | None = None
) -> Example:
    found = found or example.lengths
    if found != expected:
        raise LengthError(sample.name, f"was measured as {expected} but holds {found}")
    return example
