"""Questions to the control daemon of MPS, by the program `nvidia-cuda-mps-control`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: The program that is the daemon, and that passes questions on to it.
PROGRAM = "nvidia-cuda-mps-control"
#: Variables that name the daemon's folders, which its clients need, too.
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
#: The folder of pipes where the variable is not set.
USUAL_PIPES = "/tmp/nvidia-mps"
#: Seconds for an answer.
PATIENCE = 10.0
#: The first version of the program that has static partitions, as it writes it.
STATIC = 13010


class MpsError(RuntimeError):
    """MPS is absent, or does not limit slices as the configuration asks."""


@dataclass(frozen=True)
class MpsControl:
    """The control daemon that has these folders, or would have them.

    Attributes:
        program: path of the program.
        environment: variables of this process.
        folders: variables that name the folders.
    """

    program: str
    environment: Mapping[str, str]
    folders: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> MpsControl:
        """The daemon whose clients processes with this environment are.

        Raises:
            MpsError: MPS is not installed.
        """
        program = shutil.which(PROGRAM, path=environment.get("PATH"))
        if program is None:
            raise MpsError(
                f"parallel.groups: quotas on GPUs need NVIDIA's MPS, and there is no {PROGRAM} in "
                "PATH; valid: a machine with MPS, which the driver brings, or devices of its own "
                "for each group"
            )
        folders = {name: environment[name] for name in (PIPES, LOGS) if name in environment}
        return cls(program, environment, folders)

    @property
    def pipes(self) -> Path:
        """The folder of pipes."""
        return Path(self.folders.get(PIPES, USUAL_PIPES))

    @property
    def is_running(self) -> bool:
        """Whether the daemon answers."""
        try:
            self.ask("get_server_list")
        except MpsError:
            return False
        return True

    @property
    def has_static_partitions(self) -> bool:
        """Whether the driver has static partitions."""
        said = self._run_program(["-v"], "")
        versions = re.findall(r"\b\d{5}\b", said.stdout + said.stderr)
        return any(int(version) >= STATIC for version in versions)

    def ask(self, question: str) -> str:
        """The answer to a question.

        Raises:
            MpsError: the daemon does not run, does not answer, or refuses.
        """
        try:
            done = self._run_program([], f"{question}\n")
        except subprocess.TimeoutExpired:
            reason = f"{PROGRAM} has not answered {question!r} within {PATIENCE:g} s"
            raise MpsError(f"{reason}; valid: a daemon that works in {self.pipes}") from None
        if done.returncode:
            reason = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            raise MpsError(f"{PROGRAM} refuses {question!r}: {reason}")
        return done.stdout.strip()

    def default_percentage(self) -> float:
        """The percentage of threads that new clients may have at most."""
        return self._ask_number("get_default_active_thread_percentage")

    def server_percentages(self) -> dict[int, float]:
        """By id of each server, the percentage of threads that its new clients may have at most."""
        servers = [int(word) for word in self.ask("get_server_list").split() if word.isdigit()]
        return {
            server: self._ask_number(f"get_active_thread_percentage {server}") for server in servers
        }

    def free_chunks(self) -> int | None:
        """Free chunks of the first GPU; None if the daemon has no static partitions."""
        try:
            rows = [line.split() for line in self.ask("lspart").splitlines()]
        except MpsError:
            return None
        gpus = [row for row in rows if row and row[0].startswith("GPU-") and row[1:2] == ["-"]]
        counts = [int(word) for row in gpus[:1] for word in row if word.isdigit()]
        return counts[0] if counts else None

    def add_partition(self, gpu: str, chunks: int) -> str:
        """Make a static partition, and return its name.

        Args:
            gpu: name of the GPU, `GPU-...`.

        Raises:
            MpsError: the daemon refuses.
        """
        said = self.ask(f"sm_partition add {gpu} {chunks}")
        match = re.search(r"\bGPU-\S+/\S+", said)
        if match is None:
            raise MpsError(f"MPS has made no partition of {chunks} chunks of {gpu}: {said}")
        return match[0]

    def _ask_number(self, question: str) -> float:
        said = self.ask(question)
        try:
            return float(said.split()[-1])
        except (ValueError, IndexError):
            raise MpsError(f"MPS answers {question!r} with {said!r}; valid: a number") from None

    def _run_program(self, options: list[str], said: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *options],
            input=said,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**self.environment, **self.folders},
            check=False,
        )
