"""The files of a released processor's folder: JSON and text, typed and checked, nothing run.

    tokenizer.json, tokenizer_config.json, special_tokens_map.json, added_tokens.json
    chat_template.jinja, or chat_template.json, or in processor_config.json or tokenizer_config.json
    preprocessor_config.json, or in processor_config.json (`image_processor`, `feature_extractor`)

Keys that a file leaves out have the defaults of its class in transformers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from data.kinds.modality import Kind
from data.released.images import Exactly, ImageTransforms, PatchBudget, Resize, ShortestEdge
from data.sample import DataError, Size

_PREPROCESSOR = "preprocessor_config.json"
_NAMES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "processor_config.json",
    _PREPROCESSOR,
)
_CLIP = {
    "image_mean": (0.48145466, 0.4578275, 0.40821073),
    "image_std": (0.26862954, 0.26130258, 0.27577711),
}
_HALF = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
_CROPPED = _CLIP | {
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
}
_SIDES = range(384, 2305, 384)
#: Defaults of image processors, by class.
_IMAGES: dict[str, dict[str, Any]] = {
    "CLIPImageProcessor": _CROPPED,
    "LlavaImageProcessor": _CROPPED,
    "SiglipImageProcessor": _HALF | {"size": {"height": 224, "width": 224}},
    "Siglip2ImageProcessor": _HALF | {"resample": 2, "patch_size": 16, "max_num_patches": 256},
    "LlavaOnevisionImageProcessor": _CLIP
    | {
        "size": {"height": 384, "width": 384},
        "image_grid_pinpoints": [[high, wide] for high in _SIDES for wide in _SIDES],
    },
}
#: Image processors that pad; others could pad to a size of their own.
_PADDED = ("LlavaImageProcessor", "LlavaOnevisionImageProcessor")
#: Placeholders that processors have if their files name none, by kind of media.
_PLACEHOLDERS = {
    "LlavaProcessor": {"image": "<image>"},
    "LlavaOnevisionProcessor": {"image": "<image>"},
    "Qwen2AudioProcessor": {"audio": "<|AUDIO|>"},
}
#: Keys of processor_config.json that say how media are made.
MEDIA_KEYS = ("image_processor", "feature_extractor", "vision_aspect_ratio")
RATE = 16_000  # Hz, of all clips that Whisper's processor takes


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class AddedToken(_File):
    """A token as tokenizer_config.json writes it."""

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = True

    @property
    def flags(self) -> dict[str, bool]:
        """All fields but the content."""
        return self.model_dump(exclude={"content"})


class _Named(_File):
    name: str
    template: str


class TokenizerSettings(_File):
    """tokenizer_config.json; special tokens by name are in `tokens`.

    What added_tokens.json says is in `added_tokens`, if `added_tokens_decoder` is not there.
    """

    tokens: dict[str, AddedToken] = {}
    extra: tuple[AddedToken, ...] = ()
    added_tokens_decoder: dict[int, AddedToken] = {}
    added_tokens: dict[str, int] = {}
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    chat_template: str | list[_Named] | None = None
    processor_class: str | None = None


class _Processor(_File):
    processor_class: str | None = None
    chat_template: str | None = None
    vision_aspect_ratio: Annotated[str, Field(pattern=r"^anyres_max_[1-9]\d{0,3}$")] | None = None


class _Template(_File):
    chat_template: str


_Positive = Annotated[float, Field(gt=0)]
_Sides = PositiveInt | tuple[PositiveInt, PositiveInt] | dict[str, PositiveInt | None]


class _Images(_File):
    do_resize: bool = True
    size: _Sides = {}
    default_to_square: bool = False
    resample: Literal[0, 1, 2, 3, 4, 5] = 3
    do_center_crop: bool = False
    crop_size: _Sides = {}
    do_rescale: bool = True
    rescale_factor: _Positive = 1 / 255
    do_normalize: bool = True
    image_mean: tuple[float, float, float]
    image_std: tuple[_Positive, _Positive, _Positive]
    do_pad: bool = False
    patch_size: PositiveInt = 16
    max_num_patches: PositiveInt = 256
    image_grid_pinpoints: tuple[tuple[PositiveInt, PositiveInt], ...] = ()


class AudioSettings(_File):
    """Whisper's feature extractor: log-mel frames in a window of fixed length.

    Attributes:
        feature_size: mel bands.
        hop_length: samples from one frame to the next.
        n_fft: samples of a frame's window.
        chunk_length: seconds of the window that clips are padded to.
    """

    feature_size: PositiveInt = 80
    sampling_rate: Literal[16000] = 16000
    hop_length: PositiveInt = 160
    n_fft: Annotated[int, Field(ge=2, multiple_of=2)] = 400
    chunk_length: PositiveInt = 30
    padding_value: Literal[0] = 0
    padding_side: Literal["right"] = "right"
    dither: Literal[0] = 0

    @property
    def samples(self) -> int:
        """Number of samples of the window."""
        return self.chunk_length * self.sampling_rate


@dataclass(frozen=True)
class ReleasedFiles:
    """A processor's folder.

    Attributes:
        folder: path of the folder.
        tokenizer: tokenizer.json.
        settings: settings of the tokenizer.
        template: template of conversations.
        multimodal: whether the folder holds more than a tokenizer.
        placeholders: the special tokens that the files name, by what they stand for: `image` for
            `image_token`, and so for every kind of media that has one.
        media: how media are made, by kind, of those of which the files say it.
        most_tiles: of an image's outputs, see `data.kinds.image.tiles.Tiling`; None if the files do
            not say.
        fingerprint: fingerprint of all files that were read.
    """

    folder: Path
    tokenizer: bytes
    settings: TokenizerSettings
    template: str
    multimodal: bool
    placeholders: Mapping[Kind, str]
    media: Mapping[Kind, Any]
    most_tiles: int | None
    fingerprint: str

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process reads the folder itself.
        return read_folder, (self.folder,)


def read_folder(folder: Path) -> ReleasedFiles:
    """Read a processor's folder.

    Raises:
        DataError: a file is missing, unreadable or holds what is not supported; the message says
            which, why and what would be valid.
    """
    if not folder.is_dir():
        raise DataError(f"data.processor: {folder} is not a folder")
    found = {name: _bytes(folder / name) for name in _NAMES if (folder / name).is_file()}
    if "tokenizer.json" not in found:
        raise DataError(f"data.processor: {folder} has no tokenizer.json")
    contents = {
        name: _parsed(folder / name, text)
        for name, text in found.items()
        if name.endswith(".json") and name != "tokenizer.json"
    }
    return _Reader(folder, found, contents).files()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"data.processor: cannot read {path}: {error.strerror}") from error


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    """A JSON object as `_said` gives it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"data.processor: {path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"data.processor: {path} holds a {type(value).__name__}, not an object")
    return _said(value)


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` without null keys, which have their defaults; a flag that is null is off."""
    given = {k: False if v is None and k.startswith("do_") else v for k, v in values.items()}
    return {key: value for key, value in given.items() if value is not None}


class _Reader:
    """Reads parsed files into types."""

    def __init__(
        self, folder: Path, found: Mapping[str, bytes], contents: Mapping[str, dict[str, Any]]
    ) -> None:
        self._folder, self._found, self._contents = folder, found, contents
        self._processor = self._checked(_Processor, "processor_config.json", None)
        self._tokenizer = self._settings()

    def files(self) -> ReleasedFiles:
        whole = hashlib.sha256()
        for name, text in self._found.items():
            whole.update(f"{name} {len(text)} ".encode() + text)
        ratio = self._processor.vision_aspect_ratio
        return ReleasedFiles(
            self._folder,
            self._found["tokenizer.json"],
            self._tokenizer,
            self._template(),
            not {"processor_config.json", "preprocessor_config.json"}.isdisjoint(self._found),
            self._placeholders(),
            {kind: own for kind, make in _MADE.items() if (own := make(self)) is not None},
            None if ratio is None else int(ratio.removeprefix("anyres_max_")),
            whole.hexdigest(),
        )

    def _checked(self, kind: type[Any], name: str, values: dict[str, Any] | None) -> Any:
        """`values`, or the contents of the file `name`, as `kind`."""
        try:
            return kind.model_validate(self._contents.get(name, {}) if values is None else values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            raise DataError(
                f"data.processor: {self._folder / name}: {key}: {first['msg']}, got "
                f"{first['input']!r:.80}"
            ) from error

    # ---- text ------------------------------------------------------------------------------------

    def _settings(self) -> TokenizerSettings:
        name = "tokenizer_config.json"
        both = self._contents.get("special_tokens_map.json", {}) | self._contents.get(name, {})
        listed = self._list("additional_special_tokens", both)
        extra = both.get("extra_special_tokens", {})
        tokens = {k: v for k, v in both.items() if k.endswith("_token") and not _is_flag(v)}
        if isinstance(extra, dict):
            tokens |= extra
        else:
            listed += self._list("extra_special_tokens", both)
        own = {
            "tokens": {k: _token(v) for k, v in tokens.items() if v is not None},
            "extra": [_token(value) for value in listed],
            "added_tokens": {},
        }
        if "added_tokens_decoder" not in both:
            own["added_tokens"] = self._contents.get("added_tokens.json", {})
        return self._checked(TokenizerSettings, name, both | own)

    def _list(self, key: str, values: Mapping[str, Any]) -> list[Any]:
        """The tokens under `key`."""
        found = values.get(key, [])
        if not isinstance(found, list):
            raise DataError(
                f"data.processor: {self._folder}: {key} {found!r:.80} of the tokenizer; valid: a "
                "list of tokens"
            )
        return [*found]

    def _template(self) -> str:
        """The first existing template; among several in one file, the one named `default`."""
        if self._processor.chat_template is not None:
            return str(self._processor.chat_template)
        if "chat_template.json" in self._contents:
            return str(self._checked(_Template, "chat_template.json", None).chat_template)
        if "chat_template.jinja" in self._found:
            return self._decoded("chat_template.jinja")
        template = self._tokenizer.chat_template
        if isinstance(template, str):
            return template
        named = {each.name: each.template for each in template or ()}
        if "default" not in named:
            has = f"none named default, but {', '.join(named)}" if named else "none"
            raise DataError(
                f"data.processor: {self._folder} has no chat template; valid: chat_template.jinja, "
                f"chat_template.json, or chat_template in tokenizer_config.json; there is {has}"
            )
        return named["default"]

    def _decoded(self, name: str) -> str:
        try:
            return self._found[name].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"data.processor: {self._folder / name} is not UTF-8") from error

    def _placeholders(self) -> dict[Kind, str]:
        """Tokens by the part of their names before `_token`; those of the tokenizer come first."""
        where = "processor_config.json"
        own = self._contents.get(where, {})
        given = {k: v for k, v in own.items() if k.endswith("_token") and v and not _is_flag(v)}
        for name, value in given.items():
            if not isinstance(value, str):
                raise DataError(
                    f"data.processor: {self._folder / where}: {name}: Input should be a valid "
                    f"string, got {value!r:.80}"
                )
        given |= {name: token.content for name, token in self._tokenizer.tokens.items()}
        named = {k.removesuffix("_token"): v for k, v in given.items() if k.endswith("_token")}
        return _PLACEHOLDERS.get(self._class or "", {}) | named

    @property
    def _class(self) -> str | None:
        """Class of the processor."""
        for name in ("processor_config.json", "preprocessor_config.json", "tokenizer_config.json"):
            found = self._contents.get(name, {}).get("processor_class")
            if isinstance(found, str):
                return found
        return None

    # ---- media -----------------------------------------------------------------------------------

    def _part(self, nested: str, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any]] | None:
        """The class of an image or audio processor, without `Fast`, and its settings."""
        own = self._contents.get(_PREPROCESSOR, {})
        for values in (self._contents.get("processor_config.json", {}).get(nested), own):
            if not isinstance(values, dict):
                continue
            for kind in kinds:
                if isinstance(values.get(kind), str):
                    name = values[kind].removesuffix("Fast").removesuffix("Pil")
                    return name.replace("CLIPFeatureExtractor", "CLIPImageProcessor"), values
        return None

    def _image(self) -> ImageTransforms | None:
        part = self._part("image_processor", ("image_processor_type", "feature_extractor_type"))
        if part is None:
            self._check_classless()
        if part is None or part[0] == "WhisperFeatureExtractor":
            return None
        name, values = part
        if name not in _IMAGES:
            raise DataError(
                f"data.processor: {self._folder} has images by {name}; valid: {', '.join(_IMAGES)}"
            )
        given = self._checked(_Images, _PREPROCESSOR, _IMAGES[name] | _said(values))
        return self._transforms(name, given)

    def _check_classless(self) -> None:
        """Raise DataError for settings of images or clips that do not say of which class."""
        own = self._contents.get(_PREPROCESSOR, {})
        if known := sorted(own.keys() & (_Images.model_fields | AudioSettings.model_fields).keys()):
            raise DataError(
                f"data.processor: {self._folder / _PREPROCESSOR} has {', '.join(known)}, but no "
                f"image_processor_type or feature_extractor_type; valid: {', '.join(_IMAGES)} or "
                "WhisperFeatureExtractor"
            )

    def _transforms(self, name: str, images: _Images) -> ImageTransforms:
        tiled, patches = name == "LlavaOnevisionImageProcessor", name == "Siglip2ImageProcessor"
        resize = self._resize(name, images) if images.do_resize else None
        if tiled and images.do_center_crop:
            raise self._refused("do_center_crop", True, "false, where images become tiles")
        if tiled and not isinstance(resize, Exactly):
            raise self._refused("size", images.size, "{height, width}, with do_resize, of a tile")
        if images.do_pad and name not in _PADDED:
            raise self._refused("do_pad", True, f"false, by {name}")
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        if images.do_normalize:
            mean, std = images.image_mean, images.image_std
        return ImageTransforms(
            square=name == "LlavaImageProcessor" and images.do_pad,
            resize=resize,
            resample=images.resample,
            crop=self._crop(images) if images.do_center_crop and not patches else None,
            scale=images.rescale_factor if images.do_rescale else 1.0,
            mean=mean,
            std=std,
            pinpoints=images.image_grid_pinpoints if tiled else None,
            border=tuple(int(value * 255) for value in images.image_mean),
        )

    def _resize(self, name: str, images: _Images) -> Resize:
        if name == "Siglip2ImageProcessor":
            return PatchBudget(images.patch_size, images.max_num_patches)
        match _sides(images.size, images.default_to_square):
            case {"shortest_edge": int(edge), **rest} if not rest:
                return ShortestEdge(edge)
            case {"height": int(height), "width": int(width), **rest} if not rest:
                return Exactly((height, width))
        raise self._refused("size", images.size, "{shortest_edge} or {height, width}")

    def _crop(self, images: _Images) -> Size:
        match images.crop_size:
            case int(side):
                return side, side
            case {"height": int(height), "width": int(width)} | (int(height), int(width)):
                return height, width
        raise self._refused("crop_size", images.crop_size, "{height, width}")

    def _refused(self, key: str, value: object, valid: str) -> DataError:
        return DataError(f"data.processor: {self._folder}: {key} {value} of images; valid: {valid}")

    def _audio(self) -> AudioSettings | None:
        part = self._part("feature_extractor", ("feature_extractor_type",))
        if part is None or part[0] != "WhisperFeatureExtractor":
            return None
        found: AudioSettings = self._checked(AudioSettings, _PREPROCESSOR, _said(part[1]))
        if found.samples % found.hop_length:
            raise DataError(
                f"data.processor: {self._folder}: hop_length {found.hop_length} does not divide "
                f"the {found.samples} samples of chunk_length {found.chunk_length}"
            )
        return found


#: What the files say of media, by kind; media of other kinds are made as `data` says.
_MADE: Mapping[Kind, Callable[[_Reader], Any]] = MappingProxyType(
    {"image": _Reader._image, "audio": _Reader._audio}
)


def _is_flag(value: object) -> bool:
    """Whether a key that ends in `_token` is one such as add_bos_token."""
    return isinstance(value, bool)


def _token(value: object) -> object:
    return {"content": value} if isinstance(value, str) else value


def _sides(size: Any, square: bool) -> dict[str, int]:
    """`size` of images as a mapping without null values; one number may mean a square."""
    if isinstance(size, int):
        return {"height": size, "width": size} if square else {"shortest_edge": size}
    if isinstance(size, tuple):
        return {"height": size[0], "width": size[1]}
    return {key: value for key, value in size.items() if value is not None}
