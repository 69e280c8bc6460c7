"""Hosts that this machine plays: each with a network, a name and memory files of its own.

    switch   a network with the bridge `lan`, and the disk that all hosts share (in memory)
    host i   a network with the address 10.77.0.(i+1) on that bridge, and the name `host-i`

A host is a namespace of Linux that a shell holds as long as it can read from this process: whatever
becomes of this process, nothing of them stays. Links are cut and slowed at the switch. Where
namespaces are not allowed, hosts are plain processes of this machine, with neither a link nor a
disk of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from benchmarks.faults.faults import Need

#: Bytes of the disk that hosts share: not much more than a run asks for, as faults fill it.
DISK = 192 * 2**20
#: A slow link: bits per second, burst, and the longest time in its queue.
SLOW = ("rate", "2mbit", "burst", "16kb", "latency", "2s")
_READY = "ready"
#: Programs of Debian's iproute2 and util-linux.
_TOOLS = ("ip", "tc", "nsenter", "unshare", "setpriv", "mount")


class HostsError(RuntimeError):
    """Namespaces are not allowed here, or programs for them are missing."""


@dataclass
class EmulatedHosts:
    """Hosts without namespaces: processes of this machine.

    Attributes:
        count: number of hosts.
        folder: folder for files of theirs, on this machine.
    """

    count: int
    folder: Path

    #: What these hosts have of their own.
    able: ClassVar[tuple[Need, ...]] = ()

    @property
    def shared_folder(self) -> Path:
        """The folder that all hosts share, as they see it."""
        return self.folder / "disk"

    @property
    def local_folder(self) -> Path:
        """The same folder as this process sees it."""
        return self.shared_folder

    def address_of(self, host: int) -> str:
        """The address of a host."""
        del host
        return "127.0.0.1"

    def command_prefix(self, host: int) -> list[str]:
        """Words before those of a command that is to run on a host."""
        del host
        return []

    def shared_memory(self, host: int) -> Path:
        """The folder of a host's shared memory, as this process sees it."""
        del host
        return Path("/dev/shm")

    def lose_memory(self, host: int) -> None:
        """Remove what a host has in its shared memory, if it has that for itself."""

    def cut_link(self, host: int, *, restore: bool) -> None:
        """Cut the link of a host, or restore it."""
        raise HostsError(f"host {host} has no link of its own; valid: hosts in namespaces")

    def slow_link(self, host: int, *, restore: bool) -> None:
        """Make the link of a host slow, or as fast as before."""
        raise HostsError(f"host {host} has no link of its own; valid: hosts in namespaces")

    def __enter__(self) -> Self:
        self.shared_folder.mkdir(parents=True)
        return self

    def __exit__(self, *raised: object) -> None:
        shutil.rmtree(self.shared_folder, ignore_errors=True)


class NamespaceHosts(EmulatedHosts):
    """Hosts in namespaces.

    Raises (on entering):
        HostsError: they are not allowed here.
    """

    able: ClassVar[tuple[Need, ...]] = ("link", "disk")

    def __init__(self, count: int, folder: Path) -> None:
        super().__init__(count, folder)
        self._held, self._holders = ExitStack(), list[subprocess.Popen[str]]()

    @property
    def local_folder(self) -> Path:
        """See `Hosts.seen`."""
        return self._root_folder(self._switch) / self.shared_folder.relative_to("/")

    def address_of(self, host: int) -> str:
        """See `Hosts.address`."""
        return f"10.77.0.{host + 1}"

    def command_prefix(self, host: int) -> list[str]:
        """See `Hosts.enter`."""
        return _enter_command(self._holders[host].pid, "net", "uts", "mount")

    def shared_memory(self, host: int) -> Path:
        """See `Hosts.shared_memory`."""
        return self._root_folder(self._holders[host]) / "dev/shm"

    def lose_memory(self, host: int) -> None:
        """See `Hosts.lose_memory`."""
        for path in self.shared_memory(host).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def cut_link(self, host: int, *, restore: bool) -> None:
        """See `Hosts.cut`."""
        self._at_switch("ip", "link", "set", f"port{host}", "up" if restore else "down")

    def slow_link(self, host: int, *, restore: bool) -> None:
        """See `Hosts.slow`; both directions are slow."""
        what = ["del"] if restore else ["add"]
        how = [] if restore else ["tbf", *SLOW]
        self._at_switch("tc", "qdisc", *what, "dev", f"port{host}", "root", *how)
        _run_command(*self.command_prefix(host), "tc", "qdisc", *what, "dev", "eth0", "root", *how)

    def __enter__(self) -> Self:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if missing:
            raise HostsError(f"{', '.join(missing)} of iproute2 and util-linux are not installed")
        super().__enter__()
        try:
            self._make_hosts()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._held.close()
        super().__exit__()

    def _make_hosts(self) -> None:
        disk = f"mount -t tmpfs -o size={DISK} disk {self.shared_folder}"
        bridge = "ip link add lan type bridge && ip link set lan up"
        self._switch = self._hold_namespace(["unshare", "--net", "--mount"], f"{disk} && {bridge}")
        names = self.folder / "names"
        lines = [f"{self.address_of(i)} host-{i}" for i in range(self.count)]
        names.write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
        for host in range(self.count):
            begun = _enter_command(self._switch.pid, "mount")
            steps = [
                f"hostname host-{host}",
                f"mount --bind {names} /etc/hosts",
                "mount -t tmpfs memory /dev/shm",
                "ip link set lo up",
            ]
            words = [*begun, "unshare", "--net", "--uts", "--mount"]
            self._holders.append(self._hold_namespace(words, " && ".join(steps)))
            self._connect_host(host)

    def _connect_host(self, host: int) -> None:
        port, pid = f"port{host}", str(self._holders[host].pid)
        ends = ["type", "veth", "peer", "name", "eth0", "netns", pid]
        self._at_switch("ip", "link", "add", port, *ends)
        self._at_switch("ip", "link", "set", port, "master", "lan", "up")
        _run_command(
            *self.command_prefix(host),
            "ip",
            "address",
            "add",
            f"{self.address_of(host)}/24",
            "dev",
            "eth0",
        )
        _run_command(*self.command_prefix(host), "ip", "link", "set", "eth0", "up")

    def _at_switch(self, *words: str) -> None:
        _run_command(*_enter_command(self._switch.pid, "net"), *words)

    def _hold_namespace(self, words: Sequence[str], steps: str) -> subprocess.Popen[str]:
        """A namespace that is there until our end of a pipe is closed."""
        script = f"{steps} && echo {_READY} && read end"
        pipe = subprocess.PIPE
        holder = subprocess.Popen(
            [*words, "sh", "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        self._held.callback(_release_holder, holder)
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != _READY:
            _, why = holder.communicate()
            raise HostsError(f"namespaces cannot be made: {why.strip()}")
        return holder

    @staticmethod
    def _root_folder(holder: subprocess.Popen[str]) -> Path:
        return Path(f"/proc/{holder.pid}/root")


def probe_namespaces(folder: Path) -> str:
    """Why hosts cannot be in namespaces here; empty if they can."""
    if os.geteuid():
        return "namespaces of networks need root"
    try:
        with NamespaceHosts(1, folder) as hosts:
            hosts.slow_link(0, restore=False)
    except HostsError as error:
        return str(error)
    return ""


def _enter_command(pid: int, *spaces: str) -> list[str]:
    return ["nsenter", "--target", str(pid), *(f"--{space}" for space in spaces), "--"]


def _run_command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostsError(f"{' '.join(words)}: {done.stderr.strip()}")


def _release_holder(holder: subprocess.Popen[str]) -> None:
    holder.communicate()
