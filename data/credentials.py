"""Credentials in texts that are logged or kept: in addresses, and values of variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

#: Between a user and a password, which ends at the last `@`: it may hold what an address may not, a
#: slash or an `@`. Digits up to a slash are no password but a port, as in `http://host:8080/a@b`.
_COLON = r":(?!\d{1,5}/)"
#: The user of an address, with a password or without.
_USER = re.compile(rf"://(?:(?!\[)[^/\s@:\"']*{_COLON}(?:(?!://)[^\s?#\"'])+|[^/\s\"']+)@")
#: A user with a password, and any user of HTTP, who is a token.
_LOGIN = re.compile(
    rf"://(?!\[)[^/\s@:$]*{_COLON}(?:[^/\s@$]+|(?:(?!://)[^\s?#$])+)@|https?://[^/\s@$]+@",
    re.IGNORECASE,
)
#: Values in the query of an address that give access: signatures, tokens, keys.
_QUERY = re.compile(
    r"([?&](?:[\w.%-]*[_.-])?(?:access|api|auth|client|private|secret|security|session)?"
    r"(?:sig(?:nature)?|credential|token|key|secret|pass(?:w(?:or)?d)?|pwd|auth)=)[^&#\s\"'$]+",
    re.IGNORECASE,
)
#: Names of variables whose values are credentials, and the shortest such value.
_VARIABLE, _SHORTEST = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$"), 6


def in_address(text: str) -> bool:
    """Whether a text has an address with credentials; a `$` stands for what is not there yet."""
    return any(pattern.search(text) for pattern in (_LOGIN, _QUERY))


def hidden(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """A text without credentials.

    Users of addresses, values in their queries that give access, and values of variables for
    credentials are left out: ``hidden("s3://me:pass@a/b?sig=x&n=1")`` is
    ``"s3://...@a/b?sig=...&n=1"``.
    """
    for name, value in environment.items():
        if _VARIABLE.search(name) and len(value) >= _SHORTEST:
            text = text.replace(value, f"<{name}>")
    return _QUERY.sub(r"\1...", _USER.sub("://...@", text))
