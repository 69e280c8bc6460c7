"""Supervisors and small processes: restarts, ends, signals, and nothing that is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.lock import SUPERVISOR, LockedError, LockHeldError, run_lock
from mllm_jax.supervise.child import ChildProcess
from mllm_jax.supervise.ends import ProcessEnd
from mllm_jax.supervise.start import supervise_training
from mllm_jax.supervise.supervisor import SupervisorConfig
from tests.configs import ROOT
from tests.timing import PATIENCE, soon

Process = subprocess.Popen[str]


def start(processes: list[Process], folder: Path, actions: str, *options: str) -> Process:
    words = [sys.executable, "-m", "tests.supervise.program", str(folder), actions, "--supervise"]
    processes.append(
        subprocess.Popen(
            [*words, *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )
    return processes[-1]


def ended(process: Process, code: int, *words: str) -> str:
    """What a supervisor has said, which must end with `code` and have said `words`."""
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    for word in words:
        assert word in err, err
    return err


def attempts(folder: Path, process: int = 0) -> list[list[str]]:
    """Number, pid, `--from-step` and `--coordinator` of the processes that were started."""
    path = folder / str(process) / "attempts"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def gone(pid: int) -> bool:
    """Whether there is no such process, or one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_training_is_started_again_after_causes_that_may_pass(processes, tmp_path):
    actions = "exit8,steps4 kill,steps5 exit1,steps6 exit6,steps7 exit7,steps8 exit8,done"
    process = start(processes, tmp_path, actions)
    said = ended(
        process,
        ExitCode.OK,
        "was killed by SIGKILL; its last event: step 4",
        "ended with exit code 1; its last event: step 5",
        "ended with exit code 6 (another process is gone, is stuck, is unfit or never came)",
        "ended with exit code 7 (a place of data or checkpoints stays out of reach, a disk is",
        "ended with exit code 8 (devices of this process are lost, or a self-check has found ",
        "attempt 7 begins in 0.1 s",
    )
    assert [line[0] for line in attempts(tmp_path)] == ["1", "2", "3", "4", "5", "6", "7"]
    assert (tmp_path / "0" / "trained").read_text().split() == [*["False"] * 2, *["True"] * 5]
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "code",
    [
        ExitCode.BAD_INPUT,
        ExitCode.BAD_DATA,
        ExitCode.DIVERGED,
        ExitCode.DAMAGED,
        ExitCode.INTERRUPTED,
    ],
)
def test_training_ends_at_once_where_no_attempt_would_help(code, processes, tmp_path):
    process = start(processes, tmp_path, f"steps4 exit{code:d},done")
    ended(process, code, "attempt 1 is the last", f"ended with exit code {code:d} (")
    assert len(attempts(tmp_path)) == 1


def test_restarts_without_a_new_step_are_bounded_and_the_pause_grows(processes, tmp_path):
    actions = "steps4 kill,steps4 kill,steps2 exit1,exit1,done"
    said = ended(
        start(processes, tmp_path, actions),
        ExitCode.FAILED,
        "attempt 2 begins in 0.1 s",
        "attempt 4 begins in 0.2 s",
        "3 attempts in a row have taken no new step (run.restarts is 2)",
    )
    assert "attempt 5" not in said
    assert len(attempts(tmp_path)) == 4


def test_a_process_that_is_stopped_or_hangs_is_named_with_its_stacks(processes, tmp_path):
    actions = "steps4 stop,steps40 hang,steps41 grip,done"
    stopped, stuck = "is stuck or gone: no heartbeat", "is stuck: no process goes on"
    watched = start(processes, tmp_path, actions, "--silent", "3")
    said = ended(watched, ExitCode.OK, stopped, stuck)
    lines = [line for line in said.splitlines() if "its last event" in line]
    pids = [int(line[1]) for line in attempts(tmp_path)]
    for line, pid, how, event in zip(
        lines, pids, (stopped, stuck, stopped), ("step 4", "step 40", "step 41"), strict=False
    ):
        assert how in line
        assert f"pid {pid})" in line
        assert f"its last event: {event}, " in line
    assert "run.hang_seconds, or 10 times the longest of its kind so far" in lines[1]
    stacks = [tmp_path / "stacks" / f"attempt-{i}-process-0.txt" for i in (1, 2, 3)]
    assert "a_place_to_hang_at" in stacks[1].read_text()
    for path in stacks:
        assert f"Python stacks are in {path}" in said
        assert "Thread 0x" in path.read_text()
        assert "tests/supervise/program.py" in path.read_text()
    assert all(map(gone, pids))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_ends_all(number, processes, tmp_path):
    process = start(processes, tmp_path, "gracious steps4 wait,done")
    soon((tmp_path / "0" / "waiting").exists)
    process.send_signal(number)
    name = signal.Signals(number).name
    ended(process, ExitCode.INTERRUPTED, f"{name} is passed on to the training process")
    assert len(attempts(tmp_path)) == 1


def test_a_signal_for_a_profile_is_passed_on_and_ends_nothing(processes, tmp_path):
    process = start(processes, tmp_path, "profile steps2 done")
    soon((tmp_path / "0" / "waiting").exists)
    process.send_signal(signal.SIGUSR2)
    ended(process, ExitCode.OK)
    assert len(attempts(tmp_path)) == 1


def test_a_second_signal_ends_a_process_that_heeds_none(processes, tmp_path):
    process = start(processes, tmp_path, "deaf steps4 wait,done")
    soon((tmp_path / "0" / "waiting").exists)
    process.terminate()
    assert process.stderr
    said = process.stderr
    soon(lambda: "is passed on" in said.readline())
    assert not gone(int(attempts(tmp_path)[0][1]))
    process.terminate()
    ended(process, ExitCode.INTERRUPTED)
    assert gone(int(attempts(tmp_path)[0][1]))


def test_no_process_outlives_a_supervisor_that_is_killed_nor_helpers_one_that_ends(
    processes, tmp_path
):
    process = start(processes, tmp_path, "helper steps4 kill,wait")
    soon((tmp_path / "0" / "waiting").exists)
    helper, (first, second) = (
        int((tmp_path / "0" / "helper").read_text()),
        [int(line[1]) for line in attempts(tmp_path)],
    )
    assert gone(first)
    assert gone(helper)
    assert not gone(second)
    process.kill()
    soon(lambda: gone(second))


@pytest.mark.parametrize("end", ["kill", "stop", "exit1"])
def test_shared_memory_of_a_process_that_is_gone_is_removed(end, processes, tmp_path):
    ended(start(processes, tmp_path, f"memory steps4 {end},done", "--silent", "3"), ExitCode.OK)
    name = (tmp_path / "0" / "memory").read_text()
    assert not (Path("/dev/shm") / name).exists()


def test_shared_memory_that_nobody_has_registered_yet_is_removed(processes, tmp_path):
    """As of a worker that is killed while it makes a segment."""
    ended(start(processes, tmp_path, "half steps4 kill,done"), ExitCode.OK)
    name = (tmp_path / "0" / "memory").read_text()
    assert name.startswith("psm_")
    assert not (Path("/dev/shm") / name).exists()


def test_one_folder_has_one_supervisor_and_the_error_names_it(processes, tmp_path):
    first = start(processes, tmp_path, "wait")
    soon((tmp_path / "0" / "waiting").exists)
    second = start(processes, tmp_path, "wait")
    _, err = second.communicate(timeout=PATIENCE)
    assert f"LockedError: run folder {tmp_path} is in use by process {first.pid} on " in err
    first.kill()
    soon(lambda: gone(int(attempts(tmp_path)[0][1])))
    ended(start(processes, tmp_path, "wait,done"), ExitCode.OK)  # its number goes on
    assert [line[0] for line in attempts(tmp_path)] == ["1", "2"]


def test_a_run_goes_back_to_a_step_once(processes, tmp_path):
    actions = "exit1,steps9 kill,steps10 kill,done"
    ended(start(processes, tmp_path, actions, "--from-step", "7"), ExitCode.OK)
    assert [line[2] for line in attempts(tmp_path)] == ["7", "7", "None", "None"]


def test_the_same_command_does_not_go_back_once_more(processes, tmp_path):
    """As a cluster starts it again; another command goes back again, and so does none between."""
    actions, back = "steps9 wait,steps10 wait,steps11 done,done,done", ("--from-step", "7")
    for _ in range(2):
        first = start(processes, tmp_path, actions, *back)
        soon((tmp_path / "0" / "waiting").exists)
        soon((tmp_path / ".from-step").exists)
        (tmp_path / "0" / "waiting").unlink()
        first.kill()
        soon(lambda: gone(int(attempts(tmp_path)[-1][1])))
    told = "by --from-step: the run goes on from its newest checkpoint; to go back again, remove "
    ended(first, -signal.SIGKILL, f"{told}{tmp_path}")
    ended(start(processes, tmp_path, actions, "--from-step", "8"), ExitCode.OK)
    ended(start(processes, tmp_path, actions), ExitCode.OK)
    ended(start(processes, tmp_path, actions, *back), ExitCode.OK)
    assert [line[2] for line in attempts(tmp_path)] == ["7", "None", "8", "None", "7"]


def test_a_run_goes_back_until_it_has_taken_a_step(processes, tmp_path):
    """However often its supervisor is started again, as a cluster does it."""
    actions, back = "pause wait,steps9 done", ("--from-step", "7")
    first = start(processes, tmp_path, actions, *back)
    soon((tmp_path / "0" / "waiting").exists)
    first.kill()
    soon(lambda: gone(int(attempts(tmp_path)[-1][1])))
    ended(start(processes, tmp_path, actions, *back), ExitCode.OK)
    assert [line[2] for line in attempts(tmp_path)] == ["7", "7"]


def test_a_supervisor_loads_no_jax():
    program = (
        "import sys, launch; import mllm_jax.supervise.supervisor; "
        "sys.exit('jax' in sys.modules or 'flax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ, check=True)


def test_nothing_of_a_process_that_cannot_be_started_stays_open(tmp_path):
    async def starts() -> None:
        with pytest.raises(FileNotFoundError):
            await ChildProcess(1, 0, tmp_path).start(["/no/such/program"], ["train"], ())

    before = {*Path("/proc/self/fd").iterdir()}
    asyncio.run(starts())
    assert {*Path("/proc/self/fd").iterdir()} == before


def test_a_process_that_is_just_being_started_is_ended_all_the_same(tmp_path):
    async def ended() -> ProcessEnd:
        child = ChildProcess(1, 0, tmp_path)
        starting = asyncio.create_task(child.start(["sleep", "60"], ["train"], ()))
        halting = asyncio.create_task(child.end_process())
        await asyncio.gather(starting, halting)
        return await asyncio.wait_for(child.wait(), PATIENCE)

    end = asyncio.run(ended())
    assert (end.code, end.halted) == (-signal.SIGKILL, True)


def test_a_job_waits_for_the_folder_as_long_as_for_other_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another supervisor of the job may be gone with its host, whose lock stays for a time."""
    settings = SupervisorConfig(tmp_path, wait=0.5)
    with run_lock(tmp_path, SUPERVISOR):
        with pytest.raises(LockedError) as told:
            supervise_training((), settings)
        assert told.type is LockedError
        monkeypatch.setenv("SLURM_JOB_ID", "41")
        begin = time.monotonic()
        with pytest.raises(LockHeldError):
            supervise_training((), settings)
        assert time.monotonic() - begin >= 0.5
