"""`launch.py train` as a user runs it: in processes of its own."""

import errno
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mllm_jax.config.load import load_config
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.records import read_record, read_record_lines
from mllm_jax.supervise import attempts
from mllm_jax.supervise.ends import ProcessEnd
from mllm_jax.train.components.checkpoint_saver import SaveError
from mllm_jax.train.records.forms import SUMMARY, metrics_schema
from tests.configs import CHANGES, ROOT, config, values
from tests.train.runs import keep_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def write_config(folder: Path, name: str, **changes: Any) -> Path:
    content = values(
        **CHANGES
        | {
            "data__source": {**CHANGES["data__source"], "train": 2000},
            "run__name": name,
            "run__directory": str(folder),
            "run__log_every": 1,
            "data__cache": str(folder / "cache"),
            "evaluate": {"samples": 8, "max_new_tokens": 4},
            "checkpoint": {"every": 2},
        }
        | changes
    )
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def launch(command: str, config: Path, *arguments: str) -> subprocess.Popen[str]:
    return start("launch.py", command, "--config", str(config), *arguments)


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A Python program, in the project's folder."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )


def of_open_mpi(index: int, port: int) -> dict[str, str]:
    """The environment of mpirun for a process of two; its job number makes JAX's port."""
    return {
        "OMPI_MCA_orte_hnp_uri": f"{(port - 61440) * 4096}.0;tcp://127.0.0.1:1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": str(index),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(index),
    }


def free_port(among: Sequence[int] = (0,)) -> int:
    """One that nobody has; 0 among them stands for any. Tests beside ask at the same time."""
    for port in random.sample(among, len(among)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError(f"no port of {among} is free")


def finish(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out, err


def losses(run: Path) -> list[float]:
    lines = read_record_lines(run / "metrics.jsonl", metrics_schema).values
    return [line["loss"] for line in lines if "loss" in line]


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, Any]:
    """Summary of a run of four steps in one process."""
    config = write_config(folder, "whole", run__compilation_cache=str(folder / "compiled"))
    out, _ = finish(launch("train", config, "--json"))
    summary: dict[str, Any] = json.loads(out)
    assert read_record(folder / "whole" / "summary.json", SUMMARY) == summary
    return summary


def test_a_run_leaves_a_summary_metrics_and_checkpoints(whole, folder):
    run = folder / "whole"
    assert whole["steps"] == 4
    assert set(whole["exact_match"]) == {"vision", "audio"}
    assert 0 < whole["heldout_loss"] < 10
    assert f'"heldout_loss": {whole["heldout_loss"]}' in (run / "metrics.jsonl").read_text()
    assert {"seconds", "final_loss", "tokens_per_second", "padding", "data_wait_share"} <= set(
        whole
    )
    assert 0 < whole["goodput"]["share"] < 1
    assert whole["evaluated"] == {"vision": 4, "audio": 4}
    assert len(losses(run)) == 4
    assert {"2", "4"} <= {path.name for path in (run / "checkpoints").iterdir()}
    assert list((run / "tensorboard").iterdir())


@pytest.mark.slow
def test_a_supervised_run_that_is_killed_goes_on_from_memory_with_the_same_losses(whole, folder):
    memory, local = folder / "memory", {"local_every": 1, "local_folder": str(folder / "memory")}
    config = write_config(
        folder,
        "watched",
        run__compilation_cache=str(folder / "compiled"),
        checkpoint={"every": 1000, **local},
    )
    run, supervisor = folder / "watched", launch("train", config, "--supervise", "--json")
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
    while len(list(memory.rglob("index.json"))) < 2:
        assert supervisor.poll() is None, supervisor.communicate()
        time.sleep(0.01)
    victim = int(children.read_text())
    os.kill(victim, signal.SIGKILL)
    out, err = finish(supervisor)
    assert f"pid {victim}) was killed by SIGKILL" in err
    assert int(re.search(r"resuming .* after step (\d)", err)[1]) >= 2
    assert json.loads(out)["exact_match"] == whole["exact_match"]
    goodput = json.loads(out)["goodput"]
    assert goodput["attempts"] == 2
    assert all(goodput["seconds"][kind] > 0 for kind in ("effective", "restore", "pause"))
    records = attempts.read_attempts(run)
    killed, again = records.times_spent[0], records.watched[1]
    counted = sum(goodput["seconds"].values())
    assert again.began - killed.began < counted < time.time() - killed.began
    for figure in ("padding", "imbalance", "encoder_microbatches", "moved_bytes", "final_loss"):
        assert json.loads(out)[figure] == whole[figure], figure
    assert err.count(" s after the start: start ") == 2
    assert re.search(r"; ([1-9]\d*) of \1 programs were compiled already", err)
    assert losses(run) == losses(folder / "whole")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["4"]
    assert not list(memory.rglob("*.json"))


def watched_pair(
    folder: Path, name: str, *, every: int = 2, **changes: Any
) -> list[subprocess.Popen[str]]:
    """Two supervised processes of one run, each with a memory of its own, as on two machines."""
    compiled, port = str(folder / "compiled"), free_port()
    config = write_config(
        folder,
        name,
        run__compilation_cache=compiled,
        evaluate={"enabled": False},
        checkpoint={"every": every, "local_every": 1 if every > 2 else None},
        **changes,
    )
    place = ["--supervise", "--coordinator", f"127.0.0.1:{port}", "--processes", "2"]
    return [
        launch(
            "train",
            config,
            *place,
            *("--process", str(process)),
            f"checkpoint.local_folder={memories(folder / name)[process]}",
        )
        for process in (0, 1)
    ]


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> list[float]:
    """Losses of two supervised processes."""
    for process in watched_pair(folder, "undisturbed"):
        finish(process)
    return losses(folder / "undisturbed")


def memories(run: Path) -> list[Path]:
    """Folders for the snapshots of two machines."""
    return [run / f"memory-{process}" for process in (0, 1)]


def two_snapshots(memory: list[Path]) -> bool:
    """Whether each of two machines has two snapshots of its own, and two of the other."""
    return all(len(list(own.rglob("index.json"))) == 4 for own in memory)


@pytest.mark.slow
@pytest.mark.multihost
@pytest.mark.parametrize("victim", [0, 1])
def test_a_host_that_does_not_come_back_is_left_behind(undisturbed, folder, processes, victim):
    """The other one goes on alone, with half the devices, the same samples and the same losses."""
    run = folder / f"left-{victim}"
    changes = {"run__min_hosts": 1, "run__wait_for_hosts": 4.0}
    pair = watched_pair(folder, run.name, every=1000, **changes)
    processes += pair
    while not two_snapshots(memories(run)):
        assert all(process.poll() is None for process in pair), pair[0].communicate()
        time.sleep(0.01)
    pair[victim].kill()
    said = "".join(finish(pair[1 - victim]))
    if victim:
        assert "process 1 (host " in said
        assert "is gone with its supervisor" in said
        assert "the supervisor of process 1 of 2 did not come within 4 s (run.wait_for_" in said
        assert "going on with 1 of 2 hosts" in said
    else:
        assert "process 1 of 2 found no supervisor of process 0 at " in said
        assert " within 4 s (run.wait_for_hosts): it takes the lead" in said
    assert int(re.search(r"resuming .* after step (\d)", said)[1]) >= 2
    np.testing.assert_allclose(losses(run), undisturbed, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.multihost
def test_a_host_that_is_left_goes_on_with_the_plan_that_was_searched(
    undisturbed, folder, processes
):
    """The supervisor of process 0 has searched a plan for one host beside the run."""
    run = folder / "searched"
    plan = run / "plans" / "hosts-1.yaml"
    changes = {"run__min_hosts": 1, "run__wait_for_hosts": 1.0, "run__fallback": "plan"}
    changes |= {"schedule__hardware": "h100"}
    pair = watched_pair(folder, "searched", every=1000, **changes)
    processes += pair
    while not (two_snapshots(memories(run)) and plan.exists()):
        assert all(process.poll() is None for process in pair), pair[0].communicate()
        time.sleep(0.01)
    pair[1].kill()
    said = "".join(finish(pair[0]))
    assert "going on with 1 of 2 hosts" in said, said
    found, went_on = load_config(plan), load_config(run / "resolved.yaml")
    assert went_on.parallel.plans == found.parallel.plans
    assert went_on.parallel.devices == 2
    assert went_on.data.rows == found.data.rows
    np.testing.assert_allclose(losses(run), undisturbed, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.multihost
@pytest.mark.parametrize(("kind", "victim"), [("storage", 1), ("memory", 1), ("peer", 0)])
def test_supervised_processes_end_with_the_losses_of_an_undisturbed_run(
    undisturbed, folder, processes, kind, victim
):
    """One of them is killed, and what is left of its state is on disk, or in memory, or only in
    that of the peer with its replica."""
    name = f"disturbed-{kind}-{victim}"
    run, stored = folder / name, kind == "storage"
    pair = watched_pair(folder, name, every=2 if stored else 1000)
    processes += pair
    children = Path(f"/proc/{pair[victim].pid}/task/{pair[victim].pid}/children")
    memory = memories(run)

    def saved() -> bool:
        return (run / "checkpoints" / "2").exists() if stored else two_snapshots(memory)

    while not saved():
        assert all(process.poll() is None for process in pair), pair[0].communicate()
        time.sleep(0.01)
    os.kill(int(children.read_text()), signal.SIGKILL)
    if kind == "peer":
        shutil.rmtree(memory[victim])
    said = "".join(finish(pair[0]))
    finish(pair[1])
    assert f"process {victim} (host " in said
    assert "was killed by SIGKILL" in said
    assert int(re.search(r"resuming .* after step (\d)", said)[1]) >= 2
    assert losses(run) == undisturbed
    assert not [path for own in memory for path in own.rglob("*.json")]


@pytest.fixture(scope="module")
def again(whole: dict[str, Any], folder: Path) -> tuple[str, str]:
    """What the finished run's command tells, with a store for copies."""
    stored = f"checkpoint.copy_to=file://{folder / 'store'}"
    return finish(launch("train", folder / "whole.yaml", "--json", stored))


def test_the_same_command_on_a_finished_run_keeps_its_summary(whole, again, folder):
    out, err = again
    assert "after step 4 of 4: nothing is left to train" in err
    assert json.loads(out) == whole
    for name in ("metrics.jsonl", "summary.json", "resolved.yaml"):
        copied = folder / "store" / "whole" / name
        assert copied.read_bytes() == (folder / "whole" / name).read_bytes()


def test_a_finished_run_is_evaluated_again_without_training(whole, again, folder):
    """Elsewhere, from its copy."""
    changes = f"checkpoint.copy_to=file://{folder / 'store'}", f"run.directory={folder / 'there'}"
    out, err = finish(launch("evaluate", folder / "whole.yaml", "--json", *changes))
    assert "the checkpoint of step 4 is fetched from" in err
    result = json.loads(out)
    assert result["step"] == 4
    for key in ("exact_match", "heldout_loss", "heldout_tokens"):
        assert result[key] == whole[key]


def test_a_run_whose_checkpoints_are_all_damaged_ends_with_their_code(whole, folder):
    config, copy = write_config(folder, "damaged"), folder / "damaged" / "checkpoints"
    shutil.copytree(folder / "whole" / "checkpoints", copy)
    for path in copy.glob("*/state/**/d/*"):
        path.write_bytes(path.read_bytes()[:-1])
    out, err = finish(launch("train", config), code=ExitCode.DAMAGED)
    assert str(copy) in out + err
    assert "Traceback" not in out + err, out + err


@pytest.mark.slow
def test_a_cluster_that_signals_all_processes_of_a_job_interrupts_once(whole, folder):
    """As Slurm does: the training process hears of it by itself, and from its supervisor."""
    changes = {"checkpoint": {"every": 1000}, "train__steps": 400, "evaluate": {"enabled": False}}
    supervisor = launch("train", write_config(folder, "signalled", **changes), "--supervise")
    metrics = folder / "signalled" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("loss") > 1):
        assert supervisor.poll() is None, supervisor.communicate()
        time.sleep(0.1)
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
    for process in (int(children.read_text()), supervisor.pid):
        os.kill(process, signal.SIGTERM)
    said = "".join(finish(supervisor, code=130))
    saved = max(int(p.name) for p in (folder / "signalled" / "checkpoints").iterdir())
    assert f"interrupted after step {saved}, which is saved in " in said
    assert "SIGTERM is passed on to the training process" in said
    assert "once more" not in said


@pytest.mark.slow
def test_sigterm_saves_and_the_same_command_goes_on(whole, folder):
    config = write_config(folder, "stopped", checkpoint={"every": 1000}, train__steps=400)
    process = launch("train", config)
    metrics = folder / "stopped" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("loss")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said, _ = finish(process, code=130)
    saved = max(int(p.name) for p in (folder / "stopped" / "checkpoints").iterdir())
    assert saved >= 1
    place = folder / "stopped" / "checkpoints" / str(saved)
    assert f"interrupted after step {saved}, which is saved in {place}; go on with" in said
    assert f"launch.py train --config {config}" in said
    # The schedule depends on the number of steps, so that the tail is not compared here.
    out, _ = finish(launch("train", config, f"train.steps={saved + 2}", "evaluate.enabled=false"))
    assert f"after step {saved}" in out
    assert len(losses(folder / "stopped")) == saved + 2
    assert losses(folder / "stopped")[0] == pytest.approx(losses(folder / "whole")[0], rel=1e-6)


@pytest.mark.multihost
@pytest.mark.slow
@pytest.mark.parametrize("lengths", ["cached", "on_read"])
def test_two_processes_read_each_sample_once_and_give_the_losses_of_one(lengths, whole, folder):
    """No epoch ends within the run: what is read twice has been read by both."""
    name = f"two_{lengths}"
    found = lengths == "on_read"  # by JAX itself, as under Open MPI
    changes = {"data__lengths": lengths, "parallel__distributed": found}
    config, run = write_config(folder, name, **changes), folder / name
    files = [folder / f"{name}{i}.txt" for i in range(2)]
    programs = [["-m", "tests.train.reads", str(file)] for file in files]
    two_processes(*programs, ["train", "--config", str(config)], found=found)
    np.testing.assert_allclose(losses(run), losses(folder / "whole"), rtol=1e-6)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["exact_match"] == whole["exact_match"]
    assert summary["heldout_loss"] == pytest.approx(whole["heldout_loss"], rel=1e-6)
    reads = [Counter(file.read_text().splitlines()) for file in files]
    assert all(reads)
    assert max((reads[0] + reads[1]).values()) == 1
    if lengths == "on_read":
        goes_on_in_one_process(run, folder, data__lengths=lengths)


def goes_on_in_one_process(run: Path, folder: Path, **changes: Any) -> None:
    """Go on from the middle of a run of two processes, with the same samples and programs."""
    name = f"{run.name}_one"
    (folder / name).mkdir()
    keep_until(run / "checkpoints", folder / name / "checkpoints", step=2)
    changes |= {"evaluate": {"enabled": False}, "run__compilation_cache": str(folder / "compiled")}
    config, kept, hits = (
        write_config(folder, name, **changes),
        programs_kept(folder),
        folder / "hits",
    )
    assert kept
    finish(start("-m", "tests.train.hits", str(hits), "train", "--config", str(config)))
    assert int(hits.read_text())
    assert programs_kept(folder) == kept
    np.testing.assert_allclose(losses(folder / name), losses(folder / "whole")[2:], rtol=1e-6)


def programs_kept(folder: Path) -> set[str]:
    """Programs over the devices that are kept on disk: the train step, and those that evaluate."""
    return {path.name for path in (folder / "compiled").glob("*/jit_run-*")}


def two_processes(
    first: list[str], second: list[str], arguments: list[str], *, found: bool
) -> None:
    """Run two programs as the two processes of one run; JAX may find them."""
    if found:
        port = free_port(range(61440, 65536))
        both = [
            start(*program, *arguments, **of_open_mpi(i, port))
            for i, program in enumerate((first, second))
        ]
    else:
        options = [*arguments, "--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2"]
        both = [
            start(*program, *options, "--process", str(i))
            for i, program in enumerate((first, second))
        ]
    try:
        for process in both:
            finish(process)
    finally:
        for process in both:
            process.kill()


def test_an_unwritable_run_folder_is_refused_before_training(folder):
    config = write_config(folder, "blocked")
    (folder / "blocked").write_text("a file where the folder should be")
    _, err = finish(launch("train", config), code=2)
    out = _ + err
    assert "blocked cannot be written" in out
    assert "Traceback" not in out


def test_a_full_disk_is_refused_before_training_and_holds_up_no_restart(
    tmp_path, monkeypatch, caplog
):
    from mllm_jax.runtime.folder import UnwritableError, check_space, prepare_folder
    from mllm_jax.train.records.resolved import write_resolved

    usage = shutil.disk_usage(tmp_path)._replace(free=70 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    check_space(tmp_path, needed_bytes=2**20)
    with pytest.raises(UnwritableError, match=r"70 MiB are free, .* need 74 MiB") as full:
        check_space(tmp_path, needed_bytes=10 * 2**20)
    # A supervisor starts such a run again, and what it starts goes on.
    assert exit_code_of(full.value) == exit_code_of(SaveError("full")) == ExitCode.OUT_OF_REACH
    assert not ProcessEnd(0, "a", 812, ExitCode.OUT_OF_REACH).is_final
    check_space(tmp_path, needed_bytes=10 * 2**20, lenient=True)
    assert "need 74 MiB; free some space or choose another run.directory. Train" in caplog.text

    def full_disk(path: Path | int, *_: object) -> None:
        if isinstance(path, Path):
            path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    monkeypatch.setattr(os, "fsync", full_disk)
    own = config(run__directory=str(tmp_path.parent), run__name=tmp_path.name)
    for write in (partial(prepare_folder, tmp_path), partial(write_resolved, own)):
        with pytest.raises(UnwritableError, match="cannot be written: No space left on device"):
            write()
        caplog.clear()
        write(lenient=True)
        assert "cannot be written: No space left on device" in caplog.text
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_step_that_was_compiled_ahead_is_loaded(folder: Path, tmp_path: Path) -> None:
    # The learning rates of a run's steps are part of its program, and so is their number.
    config = write_config(folder, "ahead", train__steps=2)
    steps = tmp_path / "steps"
    done = launch("compile", config, "--save", str(steps))
    out, err = done.communicate(timeout=300)
    assert done.returncode == 0, err
    assert "written: " in out
    texts = []
    for name, more in (("loaded", ()), ("anew", ("train.learning_rate=0.5",))):
        own = f"run.compiled_steps={steps}", f"run.name={name}"
        run = launch("train", config, *own, *more)
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
        texts.append(out + err)
    assert "the train step is not compiled: loaded from" in texts[0]
    assert "is compiled anew: the one that was compiled ahead of time is refused" in texts[1]
    assert "its program is" in texts[1]


@pytest.mark.slow
@pytest.mark.multihost
def test_each_process_loads_the_step_that_it_compiled_ahead(folder: Path, tmp_path: Path) -> None:
    """Two processes compile together, and train together without compiling their step."""
    config = write_config(folder, "together", train__steps=2, evaluate={"enabled": False})
    steps, said = tmp_path / "steps", list[tuple[str, str]]()
    for command, more in (
        ("compile", ("--save", str(steps))),
        ("train", (f"run.compiled_steps={steps}",)),
    ):
        place = ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process"]
        pair = [launch(command, config, *place, str(n), *more) for n in (0, 1)]
        said = [finish(process) for process in pair]
    assert [path.name[-10:] for path in sorted(steps.iterdir())] == ["0-of-2.xla", "1-of-2.xla"]
    for out, err in said:
        assert "the train step is not compiled: loaded from" in out + err
