"""All kinds of media; docs/extending/media.md says how one is added."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from data.media.audio.media_type import AudioType
from data.media.image.media_type import ImageType
from data.media.media_type import MediaType
from data.media.video.media_type import VideoType
from data.rows.spec import Kind

MEDIA_TYPES: Mapping[Kind, MediaType] = MappingProxyType(
    {kind.name: kind for kind in (ImageType(), AudioType(), VideoType())}
)
