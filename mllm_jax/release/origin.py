"""The origin of a release that was fetched from a hub: its name there, and its revision.

A file next to the weights keeps it, so that what a run exports can name weights that others have.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from mllm_jax.hf_format.files import PretrainedError

FILE = "origin.json"


@dataclass(frozen=True)
class ReleaseOrigin:
    """Where a release comes from.

    Attributes:
        repository: `organisation/name`.
        revision: the commit.
    """

    repository: str
    revision: str

    @classmethod
    def read_from(cls, folder: str | Path) -> ReleaseOrigin | None:
        """The origin of the release in a folder; None for one that `import` has not fetched.

        Raises:
            PretrainedError: the file that says so is damaged.
        """
        path = Path(folder) / FILE
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise PretrainedError(
                f"{path} does not say where the release comes from: {error}; valid: repository and "
                "revision, or no such file"
            ) from error

    def write(self, folder: Path) -> None:
        """Write it next to the release."""
        (folder / FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        return f"{self.repository}@{self.revision}"


def release_name(folder: str | Path) -> str:
    """A release for people: its name on a hub, or that of its folder, without the way to it."""
    return str(ReleaseOrigin.read_from(folder) or Path(folder).name)
