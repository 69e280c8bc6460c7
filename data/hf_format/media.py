"""How a released processor's folder says that media are made.

    preprocessor_config.json, or in processor_config.json (`image_processor`, `feature_extractor`)
    video_preprocessor_config.json, or in processor_config.json (`video_processor`)

Keys that a file leaves out have the defaults of its class in transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PositiveInt

from data.hf_format.images import ExactSize, ImageTransforms, PatchBudget, Resize, ShortestEdge
from data.hf_format.typed import TYPED, parse_settings, stated_values
from data.rows.spec import Kind
from data.sample import DataError, Size

PREPROCESSOR, VIDEOS = "preprocessor_config.json", "video_preprocessor_config.json"
_PROCESSOR = "processor_config.json"
#: Keys of processor_config.json that say how media are made.
MEDIA_KEYS = ("image_processor", "feature_extractor", "video_processor", "vision_aspect_ratio")
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
_TILES = _CLIP | {"size": {"height": 384, "width": 384}}
#: Defaults of image processors, by class.
_IMAGES: dict[str, dict[str, Any]] = {
    "CLIPImageProcessor": _CROPPED,
    "LlavaImageProcessor": _CROPPED,
    "SiglipImageProcessor": _HALF | {"size": {"height": 224, "width": 224}},
    "Siglip2ImageProcessor": _HALF | {"resample": 2, "patch_size": 16, "max_num_patches": 256},
    "LlavaOnevisionImageProcessor": _TILES
    | {"image_grid_pinpoints": [[high, wide] for high in _SIDES for wide in _SIDES]},
}
#: Image processors that pad; others could pad to a size of their own.
_PADDED = ("LlavaImageProcessor", "LlavaOnevisionImageProcessor")
_ONEVISION = "LlavaOnevisionVideoProcessor"

_Positive = Annotated[float, Field(gt=0)]
_Sides = PositiveInt | tuple[PositiveInt, PositiveInt] | dict[str, PositiveInt | None]


class _File(BaseModel):
    model_config = TYPED


class _ImageFile(_File):
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


class _VideoFile(_ImageFile):
    do_sample_frames: bool = False
    num_frames: PositiveInt | None = None
    fps: _Positive | None = None


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
    def window_samples(self) -> int:
        """Number of samples of the window."""
        return self.chunk_length * self.sampling_rate


@dataclass(frozen=True)
class VideoSettings:
    """How videos are made.

    Attributes:
        transforms: transforms of a frame.
        frames: number of frames that are taken of a video, evenly spaced; None if it is not said.
    """

    transforms: ImageTransforms
    frames: int | None


class MediaReader:
    """Reads of parsed files how media are made.

    Args:
        folder: folder of the files, for messages.
        contents: objects of JSON files, by name.
    """

    def __init__(self, folder: Path, contents: Mapping[str, dict[str, Any]]) -> None:
        self._folder, self._contents = folder, contents

    def read_media(self) -> dict[Kind, Any]:
        """What the files say of media, by kind; media of other kinds are made as `data` says.

        Raises:
            DataError: a file says what is not supported.
        """
        settings = {kind: read(self) for kind, read in _READ_SETTINGS.items()}
        return {kind: value for kind, value in settings.items() if value is not None}

    def _processor_part(
        self, nested: str, kinds: tuple[str, ...], name: str = PREPROCESSOR
    ) -> tuple[str, dict[str, Any]] | None:
        """The class of the processor of some media, without `Fast`, and its settings."""
        settings = self._contents.get(name, {})
        for values in (self._contents.get(_PROCESSOR, {}).get(nested), settings):
            if not isinstance(values, dict):
                continue
            for kind in kinds:
                if isinstance(values.get(kind), str):
                    class_name = values[kind].removesuffix("Fast").removesuffix("Pil")
                    return class_name.replace("CLIPFeatureExtractor", "CLIPImageProcessor"), values
        return None

    # ---- images ----------------------------------------------------------------------------------

    def _image_transforms(self) -> ImageTransforms | None:
        part = self._processor_part(
            "image_processor", ("image_processor_type", "feature_extractor_type")
        )
        if part is None:
            self._check_classless()
        if part is None or part[0] == "WhisperFeatureExtractor":
            return None
        name, values = part
        if name not in _IMAGES:
            raise DataError(
                f"data.processor: {self._folder} has images by {name}; valid: {', '.join(_IMAGES)}"
            )
        settings = parse_settings(
            _ImageFile, self._folder / PREPROCESSOR, _IMAGES[name] | stated_values(values)
        )
        return self._make_transforms(name, settings)

    def _check_classless(self) -> None:
        """Raise DataError for settings of images or clips that do not say of which class."""
        settings = self._contents.get(PREPROCESSOR, {})
        fields = _ImageFile.model_fields | AudioSettings.model_fields
        if known := sorted(settings.keys() & fields.keys()):
            raise DataError(
                f"data.processor: {self._folder / PREPROCESSOR} has {', '.join(known)}, but no "
                f"image_processor_type or feature_extractor_type; valid: {', '.join(_IMAGES)} or "
                "WhisperFeatureExtractor"
            )

    def _make_transforms(self, name: str, images: _ImageFile) -> ImageTransforms:
        tiled, patches = name == "LlavaOnevisionImageProcessor", name == "Siglip2ImageProcessor"
        resize = self._resize_rule(name, images) if images.do_resize else None
        if tiled or name == _ONEVISION:
            self._check_tile(images, resize, "images" if tiled else "videos")
        if images.do_pad and name not in _PADDED:
            raise self._refused_error("do_pad", True, f"false, by {name}")
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        if images.do_normalize:
            mean, std = images.image_mean, images.image_std
        return ImageTransforms(
            square=name == "LlavaImageProcessor" and images.do_pad,
            resize=resize,
            resample=images.resample,
            crop=self._crop_size(images) if images.do_center_crop and not patches else None,
            scale=images.rescale_factor if images.do_rescale else 1.0,
            mean=mean,
            std=std,
            pinpoints=images.image_grid_pinpoints if tiled else None,
            border=tuple(int(value * 255) for value in images.image_mean),
        )

    def _check_tile(self, images: _ImageFile, resize: Resize | None, of: str) -> None:
        """Raise DataError unless tiles, or frames, have one size."""
        if images.do_center_crop:
            raise self._refused_error("do_center_crop", True, f"false, where {of} become tiles", of)
        if not isinstance(resize, ExactSize):
            valid = "{height, width}, with do_resize, of a tile"
            raise self._refused_error("size", images.size, valid, of)

    def _resize_rule(self, name: str, images: _ImageFile) -> Resize:
        if name == "Siglip2ImageProcessor":
            return PatchBudget(images.patch_size, images.max_num_patches)
        match _size_fields(images.size, images.default_to_square):
            case {"shortest_edge": int(edge), **others} if not others:
                return ShortestEdge(edge)
            case {"height": int(height), "width": int(width), **others} if not others:
                return ExactSize((height, width))
        raise self._refused_error("size", images.size, "{shortest_edge} or {height, width}")

    def _crop_size(self, images: _ImageFile) -> Size:
        match images.crop_size:
            case int(side):
                return side, side
            case {"height": int(height), "width": int(width)} | (int(height), int(width)):
                return height, width
        raise self._refused_error("crop_size", images.crop_size, "{height, width}")

    def _refused_error(self, key: str, value: object, valid: str, of: str = "images") -> DataError:
        return DataError(f"data.processor: {self._folder}: {key} {value} of {of}; valid: {valid}")

    # ---- clips, videos ---------------------------------------------------------------------------

    def _audio_settings(self) -> AudioSettings | None:
        part = self._processor_part("feature_extractor", ("feature_extractor_type",))
        if part is None or part[0] != "WhisperFeatureExtractor":
            return None
        settings = parse_settings(
            AudioSettings, self._folder / PREPROCESSOR, stated_values(part[1])
        )
        if settings.window_samples % settings.hop_length:
            raise DataError(
                f"data.processor: {self._folder}: hop_length {settings.hop_length} does not divide "
                f"the {settings.window_samples} samples of chunk_length {settings.chunk_length}"
            )
        return settings

    def _video_settings(self) -> VideoSettings | None:
        # The latter is what transformers wrote before videos had processors of their own.
        kinds = ("video_processor_type", "image_processor_type")
        part = self._processor_part("video_processor", kinds, VIDEOS)
        if part is None and not self._contents.get(VIDEOS):
            return None
        name = part[0] if part else None
        if part is None or name != _ONEVISION:
            has = f"{kinds[0]} {name}" if name else f"no {kinds[0]}"
            raise DataError(f"data.processor: {self._folder} has {has}; valid: {_ONEVISION}")
        settings = parse_settings(
            _VideoFile, self._folder / VIDEOS, _TILES | stated_values(part[1])
        )
        if settings.do_sample_frames and settings.fps is not None:
            raise self._refused_error(
                "fps", settings.fps, "num_frames, or data.video.frames", "videos"
            )
        frames = settings.num_frames if settings.do_sample_frames else None
        return VideoSettings(self._make_transforms(_ONEVISION, settings), frames)


_READ_SETTINGS: Mapping[Kind, Callable[[MediaReader], Any]] = MappingProxyType(
    {
        "image": MediaReader._image_transforms,
        "audio": MediaReader._audio_settings,
        "video": MediaReader._video_settings,
    }
)


def _size_fields(size: Any, square: bool) -> dict[str, int]:
    """`size` of images as a mapping without null values; one number may mean a square."""
    if isinstance(size, int):
        return {"height": size, "width": size} if square else {"shortest_edge": size}
    if isinstance(size, tuple):
        return {"height": size[0], "width": size[1]}
    return {key: value for key, value in size.items() if value is not None}
