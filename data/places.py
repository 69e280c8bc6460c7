"""Places that a configuration names: on this machine, or wherever fsspec reaches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

#: `s3://bucket`, `simplecache::s3://bucket`, and `s3:/bucket`, which a path makes of a URL.
_URL = re.compile(r"[A-Za-z][\w.+-]+(:/|::)")


def local(place: object) -> object:
    """`place`, which is a path of this machine.

    Raises:
        ValueError: it is a URL. Made a path, it would be a folder of that name here.
    """
    if isinstance(place, str | Path) and _URL.match(str(place)):
        raise ValueError(
            f"{str(place)!r} is a URL, and only data.source reads from there; valid: a path on "
            "this machine, e.g. that of a mounted bucket"
        )
    return place


#: A path on this machine.
LocalPath = Annotated[Path, BeforeValidator(local)]
#: The same where a text is kept.
LocalText = Annotated[str, BeforeValidator(local)]
#: A path, or a URL that fsspec knows, such as s3://bucket/folder.
Place = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)
]
