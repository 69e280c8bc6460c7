"""Places in a configuration: paths on this machine, or URLs that fsspec can open."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from data.credentials import hidden, in_address

#: `s3://bucket`, `simplecache::s3://bucket`, and `s3:/bucket`, into which `Path` turns a URL.
_URL = re.compile(r"[A-Za-z][\w.+-]+(:/|::)")
#: Schemes of a URL, several of a chain such as `simplecache::s3://bucket`.
_SCHEME = re.compile(r"(?:^|(?<=::))([A-Za-z][\w.+-]*)(?=://|::)")


def is_url(place: str) -> bool:
    """Whether a place is a URL, and no path on this machine."""
    return _URL.match(place) is not None


def local(place: object) -> object:
    """`place`, a path on this machine.

    Raises:
        ValueError: `place` is a URL, which would become a local folder of that name.
    """
    if isinstance(place, str | Path) and _URL.match(str(place)):
        raise ValueError(
            f"{hidden(str(place))!r} is a URL, and only data.source and checkpoint.copy_to "
            "take one; valid: a path on this machine, e.g. that of a mounted bucket"
        )
    return place


def without_credentials(place: object) -> object:
    """`place`, an address.

    Raises:
        ValueError: credentials stand in it, which would be written to logs and files of a run.
    """
    if isinstance(place, str) and in_address(place):
        raise ValueError(
            "credentials stand in the address (a user, or a signature, token or key in its query), "
            "and would be written to logs and files; valid: the address without them, and the "
            "credentials in the variables or files where the package of the service looks for them"
        )
    return place


def _validate_place(value: object) -> object:
    return _of_a_known_scheme(without_credentials(str(value) if isinstance(value, Path) else value))


def _of_a_known_scheme(place: object) -> object:
    """`place`, a path or a URL whose scheme fsspec knows; its package need not be installed here.

    Raises:
        ValueError: it knows another one that looks like it, or none.
    """
    for scheme in _SCHEME.findall(place) if isinstance(place, str) else []:
        from fsspec import available_protocols  # which takes a while, and most places are paths

        known = available_protocols()
        if scheme not in known:
            close = get_close_matches(scheme, known) or ["s3", "gs", "hf", "file"]
            raise ValueError(
                f"{scheme}:// is no file system that fsspec knows; valid: a path, or a URL such "
                f"as {', '.join(f'{name}://...' for name in close)}"
            )
    return place


#: A path on this machine.
LocalPath = Annotated[Path, BeforeValidator(local)]
#: A path on this machine, kept as text.
LocalText = Annotated[str, BeforeValidator(local)]
#: A path, or a URL that fsspec knows, such as s3://bucket/folder, without credentials.
Place = Annotated[str, BeforeValidator(_validate_place)]
