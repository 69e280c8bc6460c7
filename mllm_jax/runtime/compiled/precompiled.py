"""Programs that were compiled ahead of time: loaded, where all that they depend on is the same.

A folder has a file of each program and process. Its first line are the facts under which the
program was compiled, JSON; what follows is the compiled program. Compiled programs are code: a
folder of them must be one that is trusted as much as the project itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from mllm_jax.config.overlap import Options
from mllm_jax.runtime.agreement import version_of
from mllm_jax.runtime.compiled.cache import cpu_kind
from mllm_jax.runtime.folder import RunError

logger = logging.getLogger(__name__)

#: Environment that the compilers read.
ENVIRONMENT = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
#: The fact of the stored program itself.
STORED = "stored program"

Facts = Mapping[str, str]


class ProgramRefusedError(ValueError):
    """A stored program that is not to be used here; the message is the reason."""


def program_digest(lowered: Any) -> str:
    """Digest of a lowered program's text."""
    return hashlib.sha256(lowered.as_text().encode()).hexdigest()[:12]


@dataclass(frozen=True)
class PrecompiledPrograms:
    """A folder of programs that were compiled ahead of time.

    Attributes:
        folder: where they are.
        options: options of the compiler that are not in the programs' texts.
        devices: devices of the programs, in their order.
    """

    folder: Path
    options: Options
    devices: Sequence[jax.Device]

    def save_program(self, name: str, lowered: Any, compiled: Any = None) -> Path:
        """Compile a lowered program and write it; return the written file.

        Args:
            name: name of the program, as of `synchronize_program`.
            compiled: the compiled program, if there is one.

        Raises:
            RunError: the folder cannot be written.
        """
        payload, _, _ = serialize_executable.serialize(compiled or lowered.compile())
        facts = self.program_facts(lowered) | {STORED: _payload_checksum(payload)}
        file = self._file_of(name)
        new = file.with_suffix(".new")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            new.write_bytes(json.dumps(facts).encode() + b"\n" + payload)
            new.replace(file)
        except OSError as error:
            raise RunError(f"--save {self.folder}: {error}") from error
        return file

    def load_program(self, name: str, lowered: Any) -> Callable[..., Any] | None:
        """The stored program, if it is what `lowered` would be compiled to; the log says so.

        None, with a warning of the reason, if there is none that may be used.
        """
        file = self._file_of(name)
        try:
            program = self._load_file(file, lowered)
        except ProgramRefusedError as error:
            logger.warning(
                "%s is compiled anew: the one that was compiled ahead of time is refused, as %s",
                name,
                error,
            )
            return None
        logger.info("%s is not compiled: loaded from %s", name, file)
        return program

    def program_facts(self, lowered: Any) -> dict[str, str]:
        """All that a compiled program depends on, by name."""
        device = self.devices[0]
        environment = {name: os.environ.get(name, "") for name in ENVIRONMENT}
        return {
            "jax": jax.__version__,
            "jaxlib": version_of("jaxlib") or "(not installed)",
            "compiler": " ".join(device.client.platform_version.split()),
            "devices": f"{len(self.devices)} x {device.device_kind}",
            "processes": str(jax.process_count()),
            "host": cpu_kind() if device.platform == "cpu" else "any",
            "options": json.dumps(dict(self.options) | environment, sort_keys=True),
            "program": program_digest(lowered),
        }

    def _load_file(self, file: Path, lowered: Any) -> Callable[..., Any]:
        try:
            first, _, payload = file.read_bytes().partition(b"\n")
            stored = json.loads(first)
            if not isinstance(stored, dict):
                raise ValueError(f"its first line, {first[:40]!r}, is no mapping of facts")
        except FileNotFoundError:
            raise ProgramRefusedError(f"{file} does not exist") from None
        except (OSError, ValueError) as error:
            raise ProgramRefusedError(f"{file} cannot be read: {error}") from error
        for key, value in self.program_facts(lowered).items():
            if stored.get(key) != value:
                raise ProgramRefusedError(f"its {key} is {stored.get(key)}, and here it is {value}")
        if stored.get(STORED) != _payload_checksum(payload):
            raise ProgramRefusedError(f"{file} is damaged: its checksum is not that of its content")
        program: Callable[..., Any] = serialize_executable.deserialize_and_load(
            payload, lowered.in_tree, lowered.out_tree, execution_devices=self.devices
        )
        return program

    def _file_of(self, name: str) -> Path:
        words = re.sub(r"\W+", "-", name)
        return self.folder / f"{words}-{jax.process_index()}-of-{jax.process_count()}.xla"


def _payload_checksum(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
