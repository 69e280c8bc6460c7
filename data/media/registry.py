"""All kinds of media; docs/extending/media.md says how one is added."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from data.media.audio.kind import AudioKind
from data.media.image.kind import ImageKind
from data.media.kind import MediumKind
from data.media.video.kind import VideoKind
from data.rows.spec import Kind

KINDS: Mapping[Kind, MediumKind] = MappingProxyType(
    {kind.name: kind for kind in (ImageKind(), AudioKind(), VideoKind())}
)
