"""All self-checks one after the other, on all processes together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import jax

from mllm_jax.health import devices, links, machine
from mllm_jax.health.finding import (
    SLOW,
    SLOW_EMULATED,
    HealthError,
    HealthFinding,
    HealthReport,
    judge_findings,
)
from mllm_jax.runtime.run_peers import PeerError, current_peers, exit_after

#: Seconds in which a check has ended; what hangs heeds no signal, so that the process ends.
LONGEST = 600.0
#: Makes the findings of one check on this process.
Check = Callable[[], Iterator[HealthFinding]]


def list_checks(folder: Path, every: Sequence[jax.Device]) -> dict[str, Check]:
    """All checks by name, in their order.

    Args:
        folder: folder of the run, which must be there.
        every: devices of all processes.
    """
    local_devices = [device for device in every if device.process_index == jax.process_index()]
    return {
        "packages": machine.check_packages,
        "clock": machine.check_clock,
        "disk": lambda: machine.check_disk(folder),
        "products": lambda: devices.check_products(local_devices),
        "memory": lambda: devices.check_memory(local_devices),
        "host to device": lambda: devices.check_host_transfer(local_devices),
        "loopback": lambda: links.check_loopback(local_devices),
        "neighbours": lambda: links.check_neighbours(every),
    }


def run_checks(every: dict[str, Check]) -> HealthReport:
    """Run checks; the findings of all processes, the same on each.

    Args:
        every: checks by name, as of `checks`; the same names on all processes.
    """
    began, findings = time.perf_counter(), list[HealthFinding]()
    for name, check in every.items():
        why = (
            f"process {current_peers().index}: the self-check {name} takes longer than "
            f"{LONGEST:g} s: a device, its driver, or a link to another process hangs"
        )
        with (
            current_peers().noting_activity(f"self-check: {name}", limited=False),
            exit_after(LONGEST, why),
        ):
            findings += check()
    gathered = current_peers().gather_values(
        "findings of self-checks", [finding.to_json() for finding in findings]
    )
    slow = SLOW_EMULATED if jax.default_backend() == "cpu" else SLOW
    all_findings = (
        replace(finding, processes=finding.processes or (process,))
        for process, values in enumerate(gathered)
        for finding in map(HealthFinding.from_json, values)
    )
    return HealthReport(judge_findings(all_findings, slow), time.perf_counter() - began)


def should_check(when: bool | Literal["auto"], platform: str) -> bool:
    """Whether devices are to be checked before training: if asked for, or if they are none of CPUs.

    Args:
        when: value of `run.self_check`.
    """
    return platform != "cpu" if when == "auto" else when


def require_healthy(health: HealthReport) -> None:
    """Check that nothing is wrong.

    Raises:
        HealthError: this process is not fit; the message names all faults.
        PeerError: another one is not.
    """
    if health.ok:
        return
    kind = HealthError if current_peers().index in health.unfit_processes else PeerError
    raise kind(f"{health}\n  run.self_check: false trains nevertheless")
