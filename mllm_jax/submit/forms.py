"""Forms of texts in descriptions of clusters, which messages describe in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

#: Begin of the reason of a refused text.
VALID = "valid: "
#: Effects of taints (Kubernetes, "Taints and Tolerations").
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = rf"((?=[^/]{{1,253}}/){_DOMAIN}/)?{_NAME}"

_NAME_WORDS = "1 to 63 letters, digits, -, _ and ., with a letter or digit at both ends"
_LABEL_WORDS = "1 to 63 of a to z, 0 to 9 and -, with a letter or digit at both ends"
_DOMAIN_WORDS = f"labels with dots between them, each of {_LABEL_WORDS}"
_KEY_WORDS = f"{_NAME_WORDS}, after a domain and / where it has one (example.com/pool)"
_TAINT_WORDS = (
    f"KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT as in kubectl taint, with EFFECT "
    f"{', '.join(EFFECTS)}, KEY {_KEY_WORDS}, and VALUE likewise without a domain"
)


@dataclass(frozen=True)
class JobForm:
    """A form of texts.

    Attributes:
        pattern: regular expression of the whole text.
        words: the form in words.
    """

    pattern: str
    words: str

    def __call__(self, text: Any) -> str:
        """The text itself. Raises ValueError where it is none, or of another form."""
        if not isinstance(text, str):
            raise ValueError(f"{VALID}a text in quotes, of {self.words}")
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(VALID + self.words)
        return text


#: A taint that is tolerated, as `kubectl taint` takes it.
TAINT = JobForm(
    rf"(?P<key>{_KEY})(=(?P<value>({_NAME})?))?(:(?P<effect>{'|'.join(EFFECTS)}))?", _TAINT_WORDS
)


def _parse_quantity(amount: Any) -> int | str:
    """The amount itself. Raises ValueError where it is none."""
    if type(amount) is int and amount >= 1:
        return amount
    if isinstance(amount, str) and re.fullmatch(r"[1-9]\d*([KMGTPE]i|[kMGTPE])?", amount):
        return amount
    raise ValueError(f"{VALID}a whole number above 0, or bytes, such as 100Gi or 500M")


#: One line of text.
Line = Annotated[str, BeforeValidator(JobForm(r"[^\x00-\x1f\x7f]+", "one line of text"))]
#: A program.
Program = Annotated[
    str,
    BeforeValidator(
        JobForm(
            r"[^\s\x00-\x1f\x7f]+",
            "the name or path of one program, without blanks; a script of yours may start it in "
            "another way",
        )
    ),
]
#: A name of a partition, an account or the like.
Word = Annotated[
    str,
    BeforeValidator(
        JobForm(
            r"[A-Za-z0-9][A-Za-z0-9_.,@+-]*",
            "letters, digits, _, ., comma, @, + and -, beginning with a letter or digit",
        )
    ),
]
#: A name of an environment variable.
Variable = Annotated[
    str,
    BeforeValidator(
        JobForm(r"[A-Za-z_][A-Za-z0-9_]*", "letters, digits and _, not beginning with a digit")
    ),
]
#: A limit of time as sbatch takes it.
Limit = Annotated[
    str,
    BeforeValidator(
        JobForm(
            r"(\d+-)?\d+(:\d+){0,2}",
            "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or "
            "days-hours:minutes:seconds",
        )
    ),
]
#: An option of sbatch in one line.
LongOption = Annotated[
    str,
    BeforeValidator(
        JobForm(r"--[a-z][^\x00-\x1f\x7f]*", "--OPTION or --OPTION=VALUE, in one line")
    ),
]
#: An option of srun in one line.
Option = Annotated[
    str,
    BeforeValidator(JobForm(r"-[^\x00-\x1f\x7f]*", "an option that begins with -, in one line")),
]
#: A label of RFC 1123, which most names in Kubernetes are.
Label = Annotated[str, BeforeValidator(JobForm(_LABEL, _LABEL_WORDS))]
#: Labels with dots between them.
Domain = Annotated[str, BeforeValidator(JobForm(_DOMAIN, _DOMAIN_WORDS))]
#: An absolute path in a container.
Mount = Annotated[
    str,
    BeforeValidator(
        JobForm(
            r"/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*",
            "an absolute path of letters, digits, _, . and -, without / at its end",
        )
    ),
]
#: An image of a container.
Image = Annotated[
    str,
    BeforeValidator(
        JobForm(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*", "NAME, NAME:TAG or NAME@DIGEST, without spaces")
    ),
]
#: A Secret and a key in it.
SecretKey = Annotated[
    str,
    BeforeValidator(
        JobForm(rf"{_DOMAIN}/[A-Za-z0-9_.-]+", "SECRET/KEY, the name of a Secret and a key in it")
    ),
]
#: A resource that a device plugin offers.
Resource = Annotated[
    str, BeforeValidator(JobForm(rf"{_DOMAIN}/{_NAME}", "DOMAIN/NAME, such as nvidia.com/gpu"))
]
#: A resource beside the devices, cores and memory.
OtherResource = Annotated[
    str,
    BeforeValidator(
        JobForm(
            rf"{_DOMAIN}/{_NAME}|ephemeral-storage|hugepages-[1-9]\d*[KMG]i",
            "DOMAIN/NAME, such as rdma/ib, ephemeral-storage, or hugepages-2Mi and the like",
        )
    ),
]
#: How much of a resource.
Quantity = Annotated[int | str, BeforeValidator(_parse_quantity)]
#: A key of a label of a node, or of an annotation.
LabelKey = Annotated[str, BeforeValidator(JobForm(_KEY, _KEY_WORDS))]
#: A value of a node's label.
LabelValue = Annotated[str, BeforeValidator(JobForm(rf"({_NAME})?", f"empty, or {_NAME_WORDS}"))]
#: A taint that is tolerated.
Taint = Annotated[str, BeforeValidator(TAINT)]
#: Chips of a slice of TPUs along each axis.
Topology = Annotated[
    str,
    BeforeValidator(
        JobForm(r"[1-9]\d*(x[1-9]\d*){1,2}", "the chips along two or three axes, such as 4x4x4")
    ),
]
