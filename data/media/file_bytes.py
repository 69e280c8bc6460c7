"""The place of a medium's bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import BinaryIO

#: Bytes fetched at once where all of a file is read, and where its header alone is.
STREAM = 1 << 22
HEADER = 1 << 16


class FileBytes(ABC):
    """The bytes of a medium, read when needed; `name` is its name in messages."""

    name: str

    @abstractmethod
    def open(self, chunk: int) -> AbstractContextManager[BinaryIO]:
        """The bytes as a file, fetched `chunk` bytes at a time where that matters.

        Raises:
            MediaError: there is no such thing. StorageError: it cannot be reached.
        """
