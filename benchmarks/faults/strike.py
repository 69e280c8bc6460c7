"""How each kind of fault is brought about, and how what does not last for ever ends."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.faults import InjectedFault
from benchmarks.faults.host import EmulatedHost
from benchmarks.faults.hosts import EmulatedHosts
from benchmarks.faults.memory import choose_shards, list_shards
from benchmarks.faults.processes import send_signal, stop_process
from benchmarks.faults.thread import hold_thread
from mllm_jax.train.listeners.stragglers.heat import RANKS

#: Ends a fault.
Undo = Callable[[], None]
#: Name of the file that fills the disk.
BALLAST = "ballast"
#: Bytes of a file that are changed.
_CHANGED = 64
#: Seconds of a pulse in which a slow rank is stopped, and of the next, in which it is not.
_PULSE = 0.1


@dataclass(frozen=True)
class FaultSite:
    """Where faults strike.

    Attributes:
        hosts: the hosts.
        each: what runs on each of them.
        run: folder of the run, as this process sees it.
        there: the same folder, as the hosts see it.
    """

    hosts: EmulatedHosts
    each: Sequence[EmulatedHost]
    run: Path
    there: Path

    @property
    def files(self) -> dict[str, Path]:
        """Files, and folders whose files, are damaged or deleted, by what is in them.

        Figures and samples of steps are not damaged, as they are compared in the end; so is the
        identity of the run, without which snapshots in memory are of no use.
        """
        steps = steps_of(self.run)
        newest = {"checkpoint": self.run / "checkpoints" / str(steps[-1])} if steps else {}
        shared = self.hosts.local_folder
        others = {"compiled programs": shared / "cache", "lengths of samples": shared / "data"}
        records = {"records of attempts": self.run / "attempts", "times": self.run / RANKS}
        return {**newest, **others, **records}


def inject_fault(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    """Bring a fault about.

    Returns:
        What ends the fault, if it ends by itself; and what was struck, in words.
    """
    return _STRIKES[fault.kind](fault, site)


def is_ready(fault: InjectedFault, site: FaultSite) -> bool:
    """Whether there is already what a fault strikes."""
    match fault.kind:
        case "damage" | "delete":
            return len(steps_of(site.run)) > 1
        case "damage_snapshot":
            return bool(list_shards(site.hosts, site.there, fault.host))
    return True


def steps_of(run: Path) -> list[int]:
    """Steps of the complete checkpoints of a run, oldest first."""
    folder = run / "checkpoints"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def _signal_training(number: int, host: EmulatedHost) -> str:
    """Send a signal to the training process."""
    pid = host.training_process()
    send_signal(number, [pid] if pid else [])
    return f"process {pid}" if pid else "a process that has just ended"


def _kill_process(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    return None, _signal_training(signal.SIGKILL, site.each[fault.host])


def _stop_process(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    return None, _signal_training(signal.SIGSTOP, site.each[fault.host])


def _block_thread(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    pid = site.each[fault.host].training_process()
    try:
        if pid is not None:
            hold_thread(pid)
    except OSError:
        if site.each[fault.host].training_process() == pid:
            raise
    return None, f"the main thread of process {pid}"


def _kill_supervisor(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    pid = site.each[fault.host].supervisor.pid
    send_signal(signal.SIGKILL, [pid])
    return None, f"supervisor {pid}"


def _lose_host(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    host = site.each[fault.host]
    host.end_all()
    site.hosts.lose_memory(fault.host)
    return None, f"supervisor {host.supervisor.pid}, for good"


def _freeze_host(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    frozen = site.each[fault.host].list_processes()
    send_signal(signal.SIGSTOP, frozen)
    return lambda: send_signal(signal.SIGCONT, reversed(frozen)), f"processes {frozen}"


def _cut_link(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    site.hosts.cut_link(fault.host, restore=False)
    return lambda: site.hosts.cut_link(fault.host, restore=True), f"link of host {fault.host}"


def _slow_link(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    site.hosts.slow_link(fault.host, restore=False)
    return lambda: site.hosts.slow_link(fault.host, restore=True), f"link of host {fault.host}"


def _slow_rank(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    host, over = site.each[fault.host], threading.Event()
    pid = host.training_process()

    def stop_and_continue() -> None:
        while pid and not over.is_set():
            send_signal(signal.SIGSTOP, [pid])
            over.wait(_PULSE)
            send_signal(signal.SIGCONT, [pid])
            over.wait(_PULSE)

    thread = threading.Thread(target=stop_and_continue, daemon=True)
    thread.start()

    def end_pulses() -> None:
        over.set()
        thread.join()

    return end_pulses, f"process {pid}"


def _damage_file(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    path = _choose_file(fault, site)
    if path is not None:
        _change_bytes(path, fault.choice)
    return None, f"{path} and {_kill_process(fault, site)[1]}"


def _damage_snapshot(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    pid = site.each[fault.host].training_process()
    if pid is not None:
        stop_process(pid)  # what it is still copying would be summed with the damage
    shards = choose_shards(site.hosts, site.there, fault.host, fault.choice)
    files = [_one_of(_list_files(shard.folder), fault.choice) for shard in shards]
    for path in files:
        _change_bytes(path, fault.choice)
    return None, f"{', '.join(map(str, files))} and {_kill_process(fault, site)[1]}"


def _delete_file(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    path = _choose_file(fault, site)
    if path is not None:
        path.unlink()
    return None, f"{path} and {_kill_process(fault, site)[1]}"


def _change_bytes(path: Path, choice: float) -> None:
    """Change some bytes in the middle of a file."""
    with path.open("r+b") as file:
        at = int(choice * max(0, path.stat().st_size - _CHANGED))
        file.seek(at)
        before = file.read(_CHANGED)
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in before))


def _fill_disk(fault: InjectedFault, site: FaultSite) -> tuple[Undo | None, str]:
    ballast = site.hosts.local_folder / BALLAST
    fill_disk(ballast)
    return lambda: ballast.unlink(missing_ok=True), f"disk and {_kill_process(fault, site)[1]}"


def fill_disk(path: Path) -> None:
    """Write a file that takes all the room that there is, while others write, too."""
    zeros = bytes(2**20)
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(zeros)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _choose_file(fault: InjectedFault, site: FaultSite) -> Path | None:
    """The file of a choice: half of them are of the newest checkpoint; None if there is none."""
    groups = [files for folder in site.files.values() if (files := _list_files(folder))]
    if not groups:
        return None
    spread = fault.choice * 2 * len(groups)
    files = groups[0] if spread < len(groups) else groups[int(spread - len(groups))]
    return _one_of(files, fault.choice)


def _list_files(folder: Path) -> list[Path]:
    """The files below a folder; a file alone."""
    return sorted(path for path in (folder, *folder.rglob("*")) if path.is_file())


def _one_of(files: Sequence[Path], choice: float) -> Path:
    return files[int(choice * 1009) % len(files)]


_STRIKES: dict[str, Callable[[InjectedFault, FaultSite], tuple[Undo | None, str]]] = {
    "kill": _kill_process,
    "supervisor": _kill_supervisor,
    "coordinator": _kill_supervisor,
    "stop": _stop_process,
    "stuck": _block_thread,
    "freeze": _freeze_host,
    "cut": _cut_link,
    "slow_link": _slow_link,
    "slow_rank": _slow_rank,
    "damage": _damage_file,
    "delete": _delete_file,
    "damage_snapshot": _damage_snapshot,
    "full": _fill_disk,
    "lost_host": _lose_host,
}
