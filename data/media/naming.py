"""How people name media: words for their kinds, in keys and in tags, and names of their files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from data.media.registry import MEDIA_TYPES
from data.rows.spec import Kind

#: Words for media of a kind besides its name, in keys of others.
_MEDIA_WORDS: Mapping[Kind, tuple[str, ...]] = {
    "image": ("img", "imgs", "picture", "pictures", "photo", "photos"),
    "audio": ("wav", "wavs", "speech", "sound", "sounds", "clip", "clips"),
    "video": ("movie", "movies"),
}
#: Words that such keys have besides, if they name the medium itself.
_PLACE_WORDS = frozenset(("path", "paths", "file", "files", "url", "urls", "name", "names"))
_PLACE_WORDS |= frozenset(
    ("filename", "filepath", "bytes", "data", "base64", "list", "input", "0", "1", "2")
)
#: Kinds by the words for them.
KIND_OF_WORD: Mapping[str, Kind] = {
    word: kind
    for kind, media_type in MEDIA_TYPES.items()
    for word in (*media_type.record_fields, *_MEDIA_WORDS.get(kind, ()))
}
#: Kinds by the endings of files. A file named `index.ts` is likelier TypeScript than a video.
KIND_OF_ENDING: Mapping[str, Kind] = {
    ending: kind
    for kind, media_type in MEDIA_TYPES.items()
    for ending in media_type.endings
    if ending != "ts"
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DATA = re.compile(r"data:([a-z]+)/[\w.+-]+[;,]", re.IGNORECASE)
_LONGEST = 2000  # characters of a path or an address


def words_of(key: str) -> list[str]:
    """`["image", "path"]` of `image_path`, `image-path` and `imagePath`."""
    return [word for word in re.split(r"[_-]+", _HUMP.sub("_", key).lower()) if word]


def medium_of(key: str) -> Kind | None:
    """The kind of media that a key names by other words than those that are read."""
    words = words_of(key)
    for kind in MEDIA_TYPES:
        others = [word for word in words if KIND_OF_WORD.get(word) != kind]
        if len(others) < len(words) and all(word in _PLACE_WORDS for word in others):
            return kind
    return None


def medium_of_number(key: str) -> Kind | None:
    """The kind of media that a key names by their numbers: `image_id`."""
    *before, last = words_of(key) or [""]
    return medium_of("_".join(before)) if last in ("id", "ids") and before else None


def file_kind(text: str) -> Kind | None:
    """The kind of the medium that a whole text names: a path, an address, or a data URI."""
    match = _DATA.match(text)
    if match is not None:
        return match[1].lower() if match[1].lower() in MEDIA_TYPES else None
    name = text.strip(" \t\r\n\"'[](){},;/")
    if len(name) > _LONGEST or "\n" in name:
        return None
    if "://" in name:
        name = re.split(r"[?#]", name, maxsplit=1)[0]
    stem, _, ending = name.rpartition(".")
    return KIND_OF_ENDING.get(ending.lower()) if stem else None
