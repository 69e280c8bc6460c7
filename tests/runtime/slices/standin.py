"""Stand-ins on PATH for NVIDIA's programs: a control daemon of MPS, and nvidia-smi.

The daemon keeps its state in its folder of pipes. `STANDIN` in its environment tells how it is, as
JSON: `version`; `chunks` of a GPU; `default`, the percentage of new clients; `fails`, one of
`start`, `silent` and `partition`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

GPUS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")


def install(folder: Path) -> str:
    """Write both programs into a folder, which is to be the first of PATH."""
    folder.mkdir()
    for name in ("nvidia-cuda-mps-control", "nvidia-smi"):
        program = folder / name
        program.write_text(
            f"#!{sys.executable}\nimport runpy\nrunpy.run_path({__file__!r}, run_name={name!r})\n"
        )
        program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


class Daemon:
    """The daemon of a folder of pipes."""

    def __init__(self) -> None:
        self.settings = json.loads(os.environ.get("STANDIN", "{}"))
        self.fails = self.settings.get("fails")
        self.file = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/nowhere")) / "state.json"

    def serve(self, options: list[str]) -> int:
        """Run until `quit` has removed the state."""
        if self.fails == "start":
            print("MPS is broken here", file=sys.stderr)  # noqa: T201
            return 3
        static = {"static": "-S" in options, "partitions": []}
        state = {"pid": os.getpid(), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"), **static}
        if self.fails != "silent":
            self.write(state)
        while self.fails == "silent" or self.file.exists():
            time.sleep(0.02)
        return 0

    def answer(self, question: str) -> int:
        """Answer a question about the state."""
        state = self.read()
        if state is None:
            print("Cannot find MPS control daemon process", file=sys.stderr)  # noqa: T201
            return 1
        words = question.split()
        said = {
            "get_server_list": lambda: "\n".join(self.settings.get("servers", {})),
            "get_default_active_thread_percentage": lambda: self.settings.get("default", 100.0),
            "get_active_thread_percentage": lambda: self.settings["servers"][words[1]],
            "lspart": lambda: self.list_partitions(state),
            "sm_partition": lambda: self.add_partition(state, words[2], int(words[3])),
            "quit": self.quit,
        }[words[0]]()
        print(said)  # noqa: T201
        return 0 if said is not None else 1

    def quit(self) -> str:
        self.file.unlink()
        return ""

    def list_partitions(self, state: dict[str, Any]) -> str | None:
        if not state["static"]:
            return None
        used = sum(chunks for _, chunks in state["partitions"])
        free = self.settings.get("chunks", 16) - used
        return f"GPU           Partition  free  used\n{GPUS[0][:12]}  -  {free}  {used}"

    def add_partition(self, state: dict[str, Any], gpu: str, chunks: int) -> str | None:
        if self.fails == "partition":
            return "Failed to create partition"
        name = f"{gpu}/part{len(state['partitions'])}"
        state["partitions"].append((name, chunks))
        self.write(state)
        return f"Partition {name} created"

    def read(self) -> dict[str, Any] | None:
        try:
            state: dict[str, Any] = json.loads(self.file.read_text())
            os.kill(state["pid"], 0)
        except (OSError, ValueError):
            return None
        return state

    def write(self, state: dict[str, Any]) -> None:
        fresh = self.file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(state))
        fresh.replace(self.file)


def control(options: list[str]) -> int:
    """`nvidia-cuda-mps-control` with these options."""
    daemon = Daemon()
    if options == ["-v"]:
        print("CUDA MPS control version", daemon.settings.get("version", 12080))  # noqa: T201
        return 0
    return daemon.serve(options) if "-f" in options else daemon.answer(sys.stdin.read().strip())


def list_gpus(options: list[str]) -> int:
    """`nvidia-smi` with these options."""
    chosen = options[options.index("-i") + 1].split(",") if "-i" in options else ("0", "1")
    for number in chosen:
        print(GPUS[int(number)])  # noqa: T201
    return 0


if __name__ == "nvidia-cuda-mps-control":
    sys.exit(control(sys.argv[1:]))
if __name__ == "nvidia-smi":
    sys.exit(list_gpus(sys.argv[1:]))
