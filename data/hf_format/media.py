"""How a released processor's folder says that media are processed.

    preprocessor_config.json, or in processor_config.json (`image_processor`, `feature_extractor`)
    video_preprocessor_config.json, or in processor_config.json (`video_processor`)

Each file names the class of the processor whose settings it has. What a class makes of them,
families of models know (`ReleasedProcessors`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel

from data.config import DataConfig
from data.hf_format.typed import TYPED, parse_settings, stated_values
from data.rows.spec import Kind
from data.sample import DataError

PREPROCESSOR, VIDEOS = "preprocessor_config.json", "video_preprocessor_config.json"
PROCESSOR = "processor_config.json"


@dataclass(frozen=True)
class SettingsSource:
    """The file that settings are read from.

    Attributes:
        folder: folder of the file.
        class_name: class that the file names.
        processor: contents of processor_config.json.
    """

    folder: Path
    class_name: str
    processor: Mapping[str, Any]

    def refused_error(self, key: str, value: object, valid: str, of: str) -> DataError:
        """The error that a key has a value which is not supported, of some media."""
        return DataError(f"data.processor: {self.folder}: {key} {value} of {of}; valid: {valid}")


class MediaSettings(BaseModel, ABC):
    """The settings of one class of a released processor.

    Keys that a file leaves out have the defaults of the class in transformers.
    """

    model_config = TYPED

    #: Kind of media that processors of the class make.
    kind: ClassVar[Kind]
    #: Keys of processor_config.json that say how the media are processed.
    processor_keys: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, source: SettingsSource) -> Any:
        """How media are processed.

        Raises:
            DataError: the settings say what is not supported.
        """

    @classmethod
    def make_reader(cls, recipes: Mapping[Kind, Any], config: DataConfig, spec: Any) -> Any:
        """The reader of media for one encoder; None if `data` says how they are read.

        Args:
            recipes: results of `read` by kind, for all kinds that the folder describes.
            config: configuration of the data.
            spec: row spec of the encoder.

        Raises:
            DataError: the processor does not fit the encoder, or a key of `data` has no effect.
        """
        del recipes, config, spec


@dataclass(frozen=True)
class ReleasedProcessors:
    """What families know of released processors; picklable.

    Attributes:
        media: settings by the class that a file names.
        placeholders: the tokens of media by kind that a processor has if its files name none, by
            the class of the processor.
    """

    media: Mapping[str, type[MediaSettings]] = field(default_factory=dict)
    placeholders: Mapping[str, Mapping[Kind, str]] = field(default_factory=dict)

    def classes_of(self, kind: Kind) -> dict[str, type[MediaSettings]]:
        """The settings of a kind of media."""
        return {name: each for name, each in self.media.items() if each.kind == kind}

    def names_of(self, kind: Kind) -> str:
        """The names of the classes that make a kind of media."""
        return ", ".join(self.classes_of(kind))

    @property
    def processor_keys(self) -> frozenset[str]:
        """Keys of processor_config.json that say how media are processed."""
        nested = {part.nested for part in _PARTS.values()}
        return frozenset(nested.union(*(each.processor_keys for each in self.media.values())))


@dataclass(frozen=True)
class ReleasedMedia:
    """The media of one kind that a folder describes.

    Attributes:
        settings: class of their settings.
        recipe: how they are processed, as `MediaSettings.read` returns it.
    """

    settings: type[MediaSettings]
    recipe: Any


@dataclass(frozen=True)
class _Part:
    """Where a folder has the settings of a kind of media.

    Attributes:
        file: file of the settings.
        nested: key of the settings in processor_config.json, which comes first.
        types: keys that may name the class.
    """

    file: str
    nested: str
    types: tuple[str, ...]


_PARTS: Mapping[Kind, _Part] = MappingProxyType(
    {
        "image": _Part(
            PREPROCESSOR, "image_processor", ("image_processor_type", "feature_extractor_type")
        ),
        "audio": _Part(PREPROCESSOR, "feature_extractor", ("feature_extractor_type",)),
        # The latter is what transformers wrote before processors of videos had files.
        "video": _Part(VIDEOS, "video_processor", ("video_processor_type", "image_processor_type")),
    }
)


class MediaReader:
    """Reads of parsed files how media are processed.

    Args:
        folder: folder of the files, for messages.
        contents: objects of JSON files, by name.
        released: classes of processors.
    """

    def __init__(
        self,
        folder: Path,
        contents: Mapping[str, dict[str, Any]],
        released: ReleasedProcessors,
    ) -> None:
        self._folder, self._contents, self._released = folder, contents, released

    def read_media(self) -> dict[Kind, ReleasedMedia]:
        """What the files say of media, by kind; media of other kinds are processed as `data` says.

        Raises:
            DataError: a file says what is not supported.
        """
        media = {kind: self._read_kind(kind) for kind in _PARTS}
        return {kind: each for kind, each in media.items() if each is not None}

    def _read_kind(self, kind: Kind) -> ReleasedMedia | None:
        stated = self._find_settings(_PARTS[kind])
        if stated is None:
            self._check_classless(kind)
            return None
        name, values = stated
        settings = self._released.media.get(name)
        if settings is None or settings.kind != kind:
            self._check_other(kind, name, settings)
            return None
        processor = self._contents.get(PROCESSOR, {})
        parsed = parse_settings(settings, self._folder / _PARTS[kind].file, stated_values(values))
        return ReleasedMedia(settings, parsed.read(SettingsSource(self._folder, name, processor)))

    def _find_settings(self, part: _Part) -> tuple[str, dict[str, Any]] | None:
        """The class of the processor of some media, without `Fast`, and its settings."""
        nested = self._contents.get(PROCESSOR, {}).get(part.nested)
        for values in (nested, self._contents.get(part.file, {})):
            if not isinstance(values, dict):
                continue
            for key in part.types:
                if isinstance(values.get(key), str):
                    return values[key].removesuffix("Fast").removesuffix("Pil"), values
        return None

    def _check_classless(self, kind: Kind) -> None:
        """Raise DataError for settings that do not say of which class they are."""
        settings = self._contents.get(_PARTS[kind].file, {})
        if kind == "video" and settings:
            raise self._video_error(f"no {_PARTS[kind].types[0]}")
        if kind != "image":  # of clips, its file has the settings as well
            return
        classes = {**self._released.classes_of("image"), **self._released.classes_of("audio")}
        fields = {name for each in classes.values() for name in each.model_fields}
        if known := sorted(settings.keys() & fields):
            raise DataError(
                f"data.processor: {self._folder / PREPROCESSOR} has {', '.join(known)}, but no "
                "image_processor_type or feature_extractor_type; valid: "
                f"{self._released.names_of('image')} or {self._released.names_of('audio')}"
            )

    def _check_other(self, kind: Kind, name: str, settings: type[MediaSettings] | None) -> None:
        """Raise DataError for a class of no kind; one file has the settings of images or clips."""
        if kind == "video":
            raise self._video_error(f"{_PARTS[kind].types[0]} {name}")
        if kind == "image" and (settings is None or settings.kind != "audio"):
            raise DataError(
                f"data.processor: {self._folder} has images by {name}; valid: "
                f"{self._released.names_of('image')}"
            )

    def _video_error(self, has: str) -> DataError:
        valid = self._released.names_of("video")
        return DataError(f"data.processor: {self._folder} has {has}; valid: {valid}")


def check_idle(config: DataConfig, section: str, keys: tuple[str, ...]) -> None:
    """Raise DataError for keys of `data` that a released processor leaves without effect."""
    settings = getattr(config, section)
    for key in keys:
        value, default = getattr(settings, key), type(settings).model_fields[key].default
        if value != default:
            raise DataError(
                f"data.{section}.{key}: {value} has no effect, as data.processor says how "
                f"{section} inputs are made; valid: leave it out"
            )
