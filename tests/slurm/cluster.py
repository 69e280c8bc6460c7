"""A real Slurm of two nodes on this machine, from Debian's packages `slurm-wlm` and `munge`.

The names of the nodes, n1 and n2, do not resolve, as on clusters without a name service.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "sbatch", "scontrol", "slurmctld", "slurmd", "squeue", "srun")
#: The first of the TCP ports of the daemons.
PORT = 17000
#: Seconds without an answer after which a node counts as down.
TIMEOUT = 10

CONFIG = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=2,bf_interval=2
KillWait=10
SlurmdTimeout={timeout}
NodeName=n[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 \
RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Programs of the packages that are not here."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


@contextmanager
def two_nodes(folder: Path) -> Iterator[None]:
    """Context in which `sbatch` and the like speak with a Slurm of two nodes; needs root.

    Args:
        folder: a folder of its own, with a short path, which sockets have.
    """
    for name in ("state", "log"):
        (folder / name).mkdir()
    config = folder / "slurm.conf"
    ports = {"port": PORT, "first": PORT + 1, "last": PORT + 2}
    config.write_text(CONFIG.format(folder=folder, timeout=TIMEOUT, **ports))
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(config)
    try:
        _start(folder)
        yield
        run("scancel", "--me")
        wait(lambda: not run("squeue", "--noheader"), 60)
    finally:
        _stop(folder)
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


def _start(folder: Path) -> None:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    options = {"key-file": key, "socket": folder / "munge.sock", "pid-file": folder / "munged.pid"}
    options |= {"log-file": folder / "log" / "munged.log", "seed-file": folder / "munged.seed"}
    run("munged", "--force", *(f"--{name}={value}" for name, value in options.items()))
    run("slurmctld")
    for node in ("n1", "n2"):
        start_node(node)
    wait(lambda: run("sinfo", "--noheader", "--format=%T %D").split() == ["idle", "2"], 60)


def start_node(node: str) -> None:
    """Start the daemon of a node."""
    run("slurmd", "-N", node)


def state_of(node: str) -> str:
    """What Slurm takes the state of a node for: `idle`, `allocated`, `down*` ..."""
    return run("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()


def kill_node(folder: Path, node: str) -> None:
    """Kill a node: its daemon, those of its jobs' steps, and all that they have started.

    Args:
        folder: as of `two_nodes`.
        node: its name.
    """
    daemon = folder / f"slurmd-{node}.pid"
    marks = {f"SLURMD_NODENAME={node}", f"SLURM_CONF={folder}/slurm.conf"}
    tasks = [own for own, _ in processes() if marks <= {*_words(own, "environ")}]
    steps = {_parent(own) for own in tasks} - set(tasks)
    steps = {own for own, words in processes() if own in steps and "slurmstepd" in words[0]}
    assert steps, f"no step of a job runs on {node}"
    for own in (int(daemon.read_text()), *steps, *tasks):
        with suppress(ProcessLookupError):  # it has ended with those before
            os.kill(own, signal.SIGKILL)
    daemon.unlink()


def _stop(folder: Path) -> None:
    """End the daemons, the nodes' first; those whose file of a process is there."""
    for name in ("slurmd-n1", "slurmd-n2", "slurmctld", "munged"):
        file = folder / f"{name}.pid"
        if file.exists():
            pid = int(file.read_text())
            os.kill(pid, 15)
            wait(lambda pid=pid: not Path(f"/proc/{pid}").exists(), 30)


def run(*words: str) -> str:
    """What a program writes; it must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def wait(come, seconds: float, said=lambda: "") -> None:
    """Wait until `come()` is true."""
    until = time.monotonic() + seconds
    while not come():
        assert time.monotonic() < until, said()
        time.sleep(0.25)


def processes() -> list[tuple[int, list[str]]]:
    """Id and words of the command of every process."""
    ids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [(own, _words(own, "cmdline")) for own in ids]


def _parent(process: int) -> int:
    status = dict(line.split(":\t") for line in _read(process, "status").splitlines())
    return int(status.get("PPid", 0))


def _words(process: int, file: str) -> list[str]:
    """What a file of a process lists: `cmdline` or `environ`."""
    return _read(process, file).rstrip("\0").split("\0")


def _read(process: int, file: str) -> str:
    try:
        return Path(f"/proc/{process}/{file}").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return ""
    except PermissionError:  # the first process of a container may hide what it has
        return ""
