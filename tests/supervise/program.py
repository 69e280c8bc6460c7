"""A supervisor, and what it starts: a process that does as it is told, without jax.

python -m tests.supervise.program FOLDER ACTIONS [--supervise] [--process I] ...

ACTIONS are those of the attempts, with commas: `steps4 kill`, ... `done`; see `act`. Every process
writes a line to `FOLDER/I/attempts` when it starts.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.runtime.supervised.process import apply_supervisor_settings, supervisor_settings
from mllm_jax.runtime.wire import HostAddress


def main() -> int:
    """Supervise, or act."""
    apply_supervisor_settings()
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("actions")
    parser.add_argument("--supervise", action="store_true")
    parser.add_argument("--from-step", type=int)
    parser.add_argument("--coordinator", type=HostAddress.parse)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--wait", type=float, default=30.0)
    parser.add_argument("--fewer", default="")
    parser.add_argument("--silent", type=float, default=120.0)
    parser.add_argument("--stalled", type=float, default=120.0)
    args = parser.parse_args()
    if args.supervise:
        return watch(args)
    told = supervisor_settings()
    assert told is not None
    own = args.folder / str(args.process)
    own.mkdir(exist_ok=True)
    with (own / "attempts").open("a") as file:
        facts = (told.attempt, os.getpid(), args.from_step, args.coordinator)
        file.write(" ".join(map(str, (*facts, args.processes, *told.overrides))) + "\n")
    with (own / "trained").open("a") as file:
        file.write(f"{told.trained} ")
    for action in args.actions.split(",")[told.attempt - 1].split():
        act(action, own)
    return ExitCode.OK


def watch(args: argparse.Namespace) -> int:
    """Supervise; what this needs is not loaded by the processes that are started."""
    from mllm_jax.runtime.watch import WatchLimits
    from mllm_jax.supervise.policy import RestartPolicy
    from mllm_jax.supervise.start import supervise_training
    from mllm_jax.supervise.supervisor import SupervisorConfig

    logging.basicConfig(format="%(levelname)s %(message)s")
    limits = WatchLimits(silent=args.silent, stalled=args.stalled, longest=240.0)
    place = args.process, args.processes, args.coordinator
    fallbacks = {int(n): (f"parallel.devices={n}",) for n in args.fewer.split(",") if n}
    return supervise_training(
        sys.orig_argv,
        SupervisorConfig(args.folder, limits, RestartPolicy(2, 0.1), args.wait, *place, fallbacks),
    )


def act(action: str, folder: Path) -> None:
    """One action of an attempt: `steps4`, `kill`, `stop`, `hang`, `grip`, `wait`, `exit3`, ..."""
    if action.startswith("steps"):
        for step in range(1, int(action.removeprefix("steps")) + 1):
            current_peers().note_activity(f"step {step}")
            current_peers().note_step(step)
            time.sleep(0.05)
    elif action.startswith("exit"):
        sys.exit(int(action.removeprefix("exit")))
    elif action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        while True:
            os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "hang":
        a_place_to_hang_at()
    elif action == "grip":
        while True:
            ctypes.PyDLL(None).sleep(3600)  # in C, and no other thread comes to Python meanwhile
    elif action == "pause":
        time.sleep(1)  # in which a supervisor looks some times
    elif action == "wait":
        (folder / "waiting").touch()
        time.sleep(3600)
    elif action == "memory":
        memory = shared_memory.SharedMemory(create=True, size=64)
        (folder / "memory").write_text(memory.name)
    elif action == "half":
        code = (
            "from multiprocessing import resource_tracker, shared_memory; import pathlib, time; "
            "memory = shared_memory.SharedMemory(create=True, size=64); "
            "resource_tracker.unregister(memory._name, 'shared_memory'); "
            f"pathlib.Path({str(folder / 'memory')!r}).write_text(memory.name); time.sleep(3600)"
        )
        subprocess.Popen([sys.executable, "-c", code])
        while not (folder / "memory").exists():
            time.sleep(0.05)
    elif action == "helper":
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        (folder / "helper").write_text(str(helper.pid))
    elif action == "profile":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        (folder / "waiting").touch()
        signal.sigwait({signal.SIGUSR2})
    elif action == "gracious":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.INTERRUPTED))
    elif action == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif action != "done":
        raise ValueError(action)


def a_place_to_hang_at() -> None:
    """Its name is to be found in the stacks."""
    time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
