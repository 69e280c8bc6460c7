"""All kinds of media; docs/extending/media.md says how one is added."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from data.kinds.audio.kind import AudioKind
from data.kinds.image.kind import ImageKind
from data.kinds.kind import MediumKind
from data.kinds.modality import Kind
from data.kinds.video.kind import VideoKind

KINDS: Mapping[Kind, MediumKind] = MappingProxyType(
    {kind.name: kind for kind in (ImageKind(), AudioKind(), VideoKind())}
)
