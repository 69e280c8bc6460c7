"""What gives access to something, and so has no place in a file that is written or kept."""

from __future__ import annotations

import re

_NAMES = (
    r"\w*(?:SECRET|PASSW|CREDENTIAL)\w*"
    r"|(?:\w*_)?(?:TOKEN|KEY|PASS|PWD|AUTH)S?(?:_\w*)?"
    r"|\w*(?:TOKEN|KEY|PASS|PWD)"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
#: An assignment to such a variable within a line of a script, of more than another variable.
_ASSIGNED = re.compile(rf"\b({_NAMES})=(?!\s|$|[\"']?\$)", re.IGNORECASE)
#: A user with a password, or a token, in a URL, and values of its query that give access.
_URL = re.compile(
    r"://[^/\s@$]*:[^/\s@$]+@|https?://[^/\s@$]+@"
    r"|[?&][^=&]*(token|key|secret|passw|credential|sig(nature)?)[^=&]*=[^&$]",
    re.IGNORECASE,
)
#: What is given to a program by which one logs in.
_LOGIN = re.compile(
    r"\blogin\b.*?\s[\"']?[A-Za-z0-9_]{16,}\b|--?(token|api[-_]?key|password)[= ][\"']?[^\s\"'$-]",
    re.IGNORECASE,
)


def is_secret(variable: str) -> bool:
    """Whether the value of a variable of this name is a secret."""
    return _NAME.fullmatch(variable) is not None


def assigned(line: str) -> str | None:
    """The variable to which a line of a script gives a secret, if it does."""
    found = _ASSIGNED.search(line)
    return found[1] if found else None


def in_url(text: str) -> bool:
    """Whether a text has a URL that holds a secret."""
    return _URL.search(text) is not None


def given(line: str) -> bool:
    """Whether a line of a script holds a secret in a URL, or logs in with one."""
    return in_url(line) or _LOGIN.search(line) is not None
