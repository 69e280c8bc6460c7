"""Places in a configuration: paths on this machine, or URLs that fsspec can open."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

#: `s3://bucket`, `simplecache::s3://bucket`, and `s3:/bucket`, into which `Path` turns a URL.
_URL = re.compile(r"[A-Za-z][\w.+-]+(:/|::)")


def local(place: object) -> object:
    """`place`, a path on this machine.

    Raises:
        ValueError: `place` is a URL, which would become a local folder of that name.
    """
    if isinstance(place, str | Path) and _URL.match(str(place)):
        raise ValueError(
            f"{str(place)!r} is a URL, and only data.source and checkpoint.copy_to "
            "take one; valid: a path on this machine, e.g. that of a mounted bucket"
        )
    return place


#: A path on this machine.
LocalPath = Annotated[Path, BeforeValidator(local)]
#: A path on this machine, kept as text.
LocalText = Annotated[str, BeforeValidator(local)]
#: A path, or a URL that fsspec knows, such as s3://bucket/folder.
Place = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)
]
