"""Secrets, which no file may contain that is written or stored."""

from __future__ import annotations

import re

from data.credentials import in_address

_NAMES = (
    r"\w*(?:SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTHORIZATION|COOKIE|CONNECTION_STRING)\w*"
    r"|(?:\w*_)?(?:TOKEN|KEY|PASS|PWD|AUTH|PAT|DSN)S?(?:_\w*)?"
    r"|\w*(?:TOKEN|KEY|PASS|PWD)"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
#: Names that only look like those: partition keys of InfiniBand, such as NCCL_IB_PKEY.
_HARMLESS = re.compile(r"\w*_IB_PKEY", re.IGNORECASE)
#: An assignment to such a variable within a line of a script, of more than another variable.
_ASSIGNED = re.compile(rf"\b({_NAMES})=(?!\s|$|[\"']?\$)", re.IGNORECASE)
#: What is given to a program by which one logs in.
_LOGIN = re.compile(
    r"\blogin\b.*?\s[\"']?[A-Za-z0-9_]{16,}\b|\blogin\b.*?\s-p[= ]?[\"']?[^\s\"'$-]"
    r"|--?(token|api[-_]?key|password)[= ][\"']?[^\s\"'$-]",
    re.IGNORECASE,
)
#: Texts by whose form one knows that they give access: of Hugging Face, GitHub, GitLab, AWS, Slack,
#: Google, OpenAI and the like, JSON Web Tokens, private keys, headers of HTTP, and connection
#: strings of Azure and of databases.
_FORM = re.compile(
    r"\b(hf|gh[pousr]|github_pat|glpat|xox[abprs]|sk|pk)[_-][A-Za-z0-9_-]{12,}"
    r"|\b(AKIA|ASIA|AIza)[A-Za-z0-9_-]{12,}|\beyJ[\w-]{6,}\.[\w-]{6,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|(?i:\b(bearer|basic))\s+[A-Za-z0-9][^\s\"'$]{5,}"
    r"|(?i:(^|;)\s*(AccountKey|SharedAccess(Key|Signature)|Password|Pwd)\s*=\s*[^;\s\"'$])"
)


def is_secret(variable: str) -> bool:
    """Whether the value of a variable of this name is a secret."""
    return _NAME.fullmatch(variable) is not None and _HARMLESS.fullmatch(variable) is None


def assigned_secret(line: str) -> str | None:
    """The variable to which a line of a script gives a secret, if it does."""
    return next((match[1] for match in _ASSIGNED.finditer(line) if is_secret(match[1])), None)


def text_holds_secret(text: str) -> bool:
    """Whether a text has a URL that holds a secret, or something of the form of one."""
    return in_address(text) or _FORM.search(text) is not None


def line_holds_secret(line: str) -> bool:
    """Whether a line of a script contains a secret, or logs in with one."""
    return text_holds_secret(line) or _LOGIN.search(line) is not None
