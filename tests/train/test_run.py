"""`launch.py train` as a user runs it: in processes of its own."""

import errno
import json
import os
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
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mllm_jax.runtime.exits import Exit, code_of
from mllm_jax.supervise.ends import End
from mllm_jax.train.saves import SaveError
from tests.configs import CHANGES, ROOT, values
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
    """One that nobody has; 0 among them stands for any."""
    for port in among:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError(f"no port of {among} is free")


def finish(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out, err


def losses(run: Path) -> list[float]:
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, Any]:
    """Summary of a run of four steps in one process."""
    config = write_config(folder, "whole", run__compilation_cache=str(folder / "compiled"))
    out, _ = finish(launch("train", config, "--json"))
    return json.loads(out)


def test_a_run_leaves_a_summary_metrics_and_checkpoints(whole, folder):
    run = folder / "whole"
    assert json.loads((run / "summary.json").read_text()) == whole
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


def test_a_supervised_run_that_is_killed_ends_with_the_losses_of_one_that_was_not(whole, folder):
    config = write_config(folder, "watched", run__compilation_cache=str(folder / "compiled"))
    began = time.monotonic()
    run, supervisor = folder / "watched", launch("train", config, "--supervise", "--json")
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children")
    while not (run / "checkpoints" / "2").exists():
        assert supervisor.poll() is None, supervisor.communicate()
        time.sleep(0.01)
    victim = int(children.read_text())
    os.kill(victim, signal.SIGKILL)
    out, err = finish(supervisor)
    assert f"pid {victim}) was killed by SIGKILL" in err
    assert "after step 2" in err
    assert json.loads(out)["exact_match"] == whole["exact_match"]
    goodput = json.loads(out)["goodput"]
    assert goodput["attempts"] == 2
    assert all(goodput["seconds"][kind] > 0 for kind in ("effective", "rework", "restore", "pause"))
    assert sum(goodput["seconds"].values()) == pytest.approx(time.monotonic() - began, abs=8)
    assert err.count(" s after the start: start ") == 2
    assert re.search(r"; ([1-9]\d*) of \1 programs were found compiled", err)
    assert losses(run) == losses(folder / "whole")


def watched_pair(folder: Path, name: str) -> list[subprocess.Popen[str]]:
    """Two supervised processes of one run."""
    compiled, port = str(folder / "compiled"), free_port()
    config = write_config(
        folder, name, run__compilation_cache=compiled, evaluate={"enabled": False}
    )
    place = ["--supervise", "--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process"]
    return [launch("train", config, *place, str(process)) for process in (0, 1)]


@pytest.mark.slow
@pytest.mark.multihost
def test_supervised_processes_end_with_the_losses_of_an_undisturbed_run(folder, processes):
    processes += watched_pair(folder, "undisturbed")
    for process in processes:
        finish(process)
    pair = watched_pair(folder, "disturbed")
    processes += pair
    children = Path(f"/proc/{pair[1].pid}/task/{pair[1].pid}/children")
    while not (folder / "disturbed" / "checkpoints" / "2").exists():
        assert all(process.poll() is None for process in pair), pair[0].communicate()
        time.sleep(0.01)
    os.kill(int(children.read_text()), signal.SIGKILL)
    _, err = finish(pair[0])
    finish(pair[1])
    assert "process 1 (host " in err
    assert "was killed by SIGKILL" in err
    assert "after step 2" in err
    assert losses(folder / "disturbed") == losses(folder / "undisturbed")


def test_the_same_command_on_a_finished_run_keeps_its_summary(whole, folder):
    out, _ = finish(launch("train", folder / "whole.yaml", "--json"))
    # The peak of a CPU, and with it the MFU, is measured by every process anew.
    again = json.loads(out) | {"mfu": whole["mfu"]}
    assert again == whole


def test_a_finished_run_is_evaluated_again_without_training(whole, folder):
    out, _ = finish(launch("evaluate", folder / "whole.yaml", "--json"))
    result = json.loads(out)
    assert result["step"] == 4
    for key in ("exact_match", "heldout_loss", "heldout_tokens"):
        assert result[key] == whole[key]


def test_a_run_whose_checkpoints_are_all_damaged_ends_with_their_code(whole, folder):
    config, copy = write_config(folder, "damaged"), folder / "damaged" / "checkpoints"
    shutil.copytree(folder / "whole" / "checkpoints", copy)
    for path in copy.glob("*/state/**/d/*"):
        path.write_bytes(path.read_bytes()[:-1])
    out, err = finish(launch("train", config), code=Exit.DAMAGED)
    assert str(copy) in out + err
    assert "Traceback" not in out + err, out + err


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


def test_a_full_disk_is_refused_before_training(tmp_path, monkeypatch):
    from mllm_jax.runtime.folder import RoomError, check_room, prepare_folder

    usage = shutil.disk_usage(tmp_path)._replace(free=70 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    check_room(tmp_path, needed_bytes=2**20)
    with pytest.raises(RoomError, match=r"70 MiB are free, .* need 74 MiB") as found:
        check_room(tmp_path, needed_bytes=10 * 2**20)
    # A supervisor starts again after it: somebody may make room.
    assert code_of(found.value) == Exit.OUT_OF_REACH
    assert code_of(SaveError("too many")) == Exit.OUT_OF_REACH
    assert not End(0, "a", 812, Exit.OUT_OF_REACH).final

    def write(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(RoomError, match="cannot be written: No space left on device"):
        prepare_folder(tmp_path)
