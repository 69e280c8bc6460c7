"""Identity of the data that a run was trained on, so that a change of the data is noticed.

A position of the stream means a sample only as long as the source is the same, and a sample the
same tokens only as long as the tokenizer is. Local files are identified by their names, sizes and
contents (large files by parts of their contents), and not by folder or time: a copy elsewhere is
the same data. Files at URLs are identified by the size and stamp that their store reports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from data.config import DataConfig
from data.hf_format.files import fingerprint_folder
from data.sample import DataError
from data.sources.formats.conversations import ConversationSet
from data.sources.formats.storage import SourceFile
from data.sources.mixture import SourceMixture
from data.sources.source import Source
from data.text.tokenizer import BUILT_IN

#: Bytes of one probe of a file, probes of a file, and files that are probed.
_LOOK, _LOOKS, _FILES = 2**16, 32, 256


#: Keys that configure how samples become tokens and inputs; a run has one of them.
_PROCESSING = ("data.processor", "data.tokenizer")


class DataIdentity(BaseModel):
    """Identity of a source, or of the tokenizer, when a run read it.

    Attributes:
        samples: number of its samples.
        files, bytes: number and size of its files, 0 for generated samples and for a tokenizer.
        digest: digest of all that identifies it.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    samples: int
    files: int
    bytes: int
    digest: str

    def list_differences(self, now: DataIdentity) -> list[str]:
        """The changes as texts: `300 -> 120 samples`."""
        old, new = self.model_dump(exclude={"digest"}), now.model_dump()
        counts = [f"{old[key]} -> {new[key]} {key}" for key in old if old[key] != new[key]]
        return counts or ["other contents"] * (self.digest != now.digest)


Identities = Mapping[str, DataIdentity]


def source_identities(source: Source) -> dict[str, DataIdentity]:
    """Identity of a source, or of each member of a mixture, by the key that configures it."""
    if isinstance(source, SourceMixture):
        return {f"data.source.members.{n}": source_identity(m) for n, m in source.members.items()}
    return {"data.source": source_identity(source)}


def source_identity(source: Source) -> DataIdentity:
    """Identity of a source that is no mixture; reads some of its files."""
    if not isinstance(source, ConversationSet):
        digest = hashlib.sha256(str(source.fingerprint).encode()).hexdigest()
        return DataIdentity(samples=len(source), files=0, bytes=0, digest=digest)
    files = source.files
    size = sum(file.size for file in files)
    return DataIdentity(
        samples=len(source), files=len(files), bytes=size, digest=_digest_files(files)
    )


def processing_identity(config: DataConfig) -> dict[str, DataIdentity]:
    """Identity of the contents of the tokenizer, or of the folder of a released processor.

    By the key that configures it; built-in tokenizers have no contents but their names.

    Raises:
        DataError: the folder cannot be read.
    """
    folder, tokenizer = config.processor, config.tokenizer
    if folder is not None:
        begin = "" if config.answers_begin == "text" else f" {config.answers_begin}"
        name, content = "data.processor", f"{fingerprint_folder(folder)}{begin}".encode()
    else:
        built_in = tokenizer in BUILT_IN
        name = "data.tokenizer"
        content = tokenizer.encode() if built_in else Path(tokenizer).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {name: DataIdentity(samples=0, files=0, bytes=0, digest=digest)}


def check_same_processing(before: Identities, config: DataConfig) -> list[str]:
    """The differences that `check_same_data` finds, for the tokenizer or processor alone."""
    known = {name: identity for name, identity in before.items() if name in _PROCESSING}
    return check_same_data(known, processing_identity(config), config) if known else []


def check_same_data(before: Identities, now: Identities, config: DataConfig) -> list[str]:
    """Differences between the data of a run and those of its continuation, a line for each source.

    Raises:
        DataError: there are differences, and `data.accept_changes` does not allow them.
    """
    if before.keys().isdisjoint(_PROCESSING):  # a version that did not note the processing
        now = {name: identity for name, identity in now.items() if name not in _PROCESSING}
    lines = [f"{name}: was not there before" for name in sorted(now.keys() - before.keys())]
    lines += [f"{name}: is no longer there" for name in sorted(before.keys() - now.keys())]
    for name in sorted(before.keys() & now.keys()):
        changes = before[name].list_differences(now[name])
        lines += [f"{name}: {', '.join(changes)}"] if changes else []
    if lines and not config.accept_changes:
        raise DataError(
            "the run was trained on other data:\n  "
            + "\n  ".join(lines)
            + "\nin these data the position of the run would mean other samples, or samples would "
            "have other tokens; put the data back, choose another run.name, or go on with "
            "data.accept_changes=true"
        )
    return lines


def _digest_files(files: Sequence[SourceFile]) -> str:
    looked_into = set(np.linspace(0, len(files) - 1, min(len(files), _FILES)).astype(int).tolist())
    digest = hashlib.sha256()
    for number, file in enumerate(files):
        digest.update(repr((file.name, file.size)).encode())
        if file.system is not None:
            digest.update(file.stamp.encode())
        elif number in looked_into:
            for start in _probe_starts(file.size):
                digest.update(file.read(start, min(_LOOK, file.size - start)))
    return digest.hexdigest()


def _probe_starts(size: int) -> list[int]:
    """Starts of the probes of a file, which cover it if it is small."""
    if size <= _LOOK * _LOOKS:
        return list(range(0, size, _LOOK))
    places: list[int] = np.linspace(0, size - _LOOK, _LOOKS).astype(int).tolist()
    return places
