"""Every command in README.md and docs/ is run: quick ones always, the others in one slow test.

What a command line says is kept; overrides after it make it smaller and keep its files in a
temporary folder. A command that neither `QUICK` nor `SLOW` knows is an error.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import launch
from data.sources.shapes import write_example
from mllm_jax.cli.options import parse_arguments
from mllm_jax.cli.table import COMMANDS
from mllm_jax.config.load import load_config
from mllm_jax.runtime.exits import ExitCode
from tests.configs import PAGES, ROOT

PYTHON = ".venv/bin/python launch.py "
QUICK = tuple(PYTHON + name for name in ("config", "budgets", "simulate", "submit"))
SLOW = (
    *(PYTHON + name for name in ("train", "evaluate", "verify", "bench", "trace", "experts")),
    *(PYTHON + name for name in ("preview", "generate", "data")),
    *(
        PYTHON + name
        for name in ("calibrate", "check", "plan", "compile", "import", "export", "report")
    ),
    *("make " + name for name in ("train", "test", "test-all", "install")),
)
#: Runs that begin with released weights, or are exported.
RELEASED = (
    *("runs/onevision", "runs/joined", "runs/small", "runs/imported"),
    *("runs/llava", "runs/tuned", "runs/exported"),
)
#: Images of the example in place of as many as the pages have.
IMAGES = 24
#: Overrides that make training short.
SHORT = ("train.steps=2", "evaluate.samples=8", "evaluate.max_new_tokens=2")


def commands() -> list[str]:
    """Lines of the ```sh blocks, continued lines joined, without comments."""
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    ]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]


def known(command: str, names: tuple[str, ...]) -> bool:
    """Whether `command` is one of `names` with arguments after it."""
    return any(f"{command} ".startswith(f"{name} ") for name in names)


def quick(command: str) -> bool:
    """Whether a command takes seconds; with mixtures of media it searches plans."""
    return known(command, QUICK) and "--mixture" not in command


def slow(command: str) -> bool:
    """Whether a command takes longer."""
    return known(command, SLOW) or (known(command, QUICK) and "--mixture" in command)


def overrides(command: str, folder: Path) -> list[str]:
    """Overrides for a `launch.py` line that make it quick and leave nothing behind."""
    added = []
    kept = "train", "evaluate", "check", "preview", "trace", "experts", "simulate"
    if known(command, tuple(PYTHON + name for name in kept)):
        runs = folder / ("two" if "--processes" in command else "runs")
        added += [f"run.directory={runs}", *SHORT]
    if known(command, (f"{PYTHON}bench store",)):  # in a folder, as there is no bucket
        added += [f"checkpoint.copy_to=file://{folder / 'store'}", "checkpoint.every=20"]
    if known(command, (f"{PYTHON}bench slices",)):
        added += ["--models", "heads", "--widths", "64", "--sequences", "64"]
    if known(command, (f"{PYTHON}submit",)):
        # Pods have their runs on volumes, not here.
        own = "run.directory={}" if "--cluster slurm" in command else "--output={}"
        added.append(own.format(folder / "submitted"))
    if "configs/llava.yaml" in command:
        mine = folder / "my_data"
        if not mine.exists():
            write_example(mine, IMAGES, seed=0)
        added += [f"data.source.path={mine / 'train.json'}", f"data.source.media={mine / 'media'}"]
        if "heldout=null" not in command:
            added += [f"data.source.heldout={mine / 'heldout.json'}"]
    return added


def environment(folder: Path) -> Path:
    """A folder that make takes for its complete `.venv`: the running one by links."""
    venv = folder / "venv"
    if not venv.exists():
        venv.mkdir()
        for entry in Path(sys.prefix).iterdir():
            if not entry.name.startswith("."):
                (venv / entry.name).symlink_to(entry)
        for stamp in ("created", "installed-demo", "installed-test"):
            (venv / f".{stamp}").touch()
    return venv


def make_line(command: str, folder: Path) -> list[str]:
    """The words of a `make` line with what keeps it short; arguments in ARGS stay first."""
    words = shlex.split(command)
    arguments = [word.removeprefix("ARGS=") for word in words if word.startswith("ARGS=")]
    added = {
        "train": [f"run.directory={folder / 'make'}", *SHORT],
        "test": ["tests/train/records/test_metrics.py"],
        "test-all": ["tests/layers/attention/test_gpu.py"],
    }.get(words[1], [])
    kept = [word for word in words if not word.startswith("ARGS=")]
    return [*kept, f"VENV={environment(folder)}", f"ARGS={' '.join([*arguments, *added])}"]


def install_line(command: str, folder: Path) -> list[str]:
    """The command of `make install`, as a trial that resolves versions and installs nothing.

    Not by PIP_DRY_RUN, which would reach the pip that sets up the build as well.
    """
    words = ["make", "--dry-run", *make_line(command, folder)[1:]]
    shown = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return ["sh", "-c", f"{shown.strip()} --dry-run"]


def released_line(command: str, folder: Path) -> list[str]:
    """A command about released weights, with its files in `folder`."""
    mine = folder / "my_data"
    if not mine.exists():
        write_example(mine, IMAGES, seed=0)
    for place in RELEASED:
        command = command.replace(place, str(folder / place))
    words = shlex.split(command.replace("my_data/", f"{mine}/"))
    return [sys.executable, *words[1:], *(["train.steps=2"] if words[2] == "train" else [])]


def lines_of(command: str, folder: Path) -> list[list[str]]:
    """The lines that are started for `command`, all at the same time."""
    if command.startswith("make install"):
        return [install_line(command, folder)]
    if command.startswith("make "):
        return [make_line(command, folder)]
    if known(command, (f"{PYTHON}data",)):
        if (folder / "my_data").exists():  # pages make it more than once
            shutil.rmtree(folder / "my_data")
        words = shlex.split(command.replace("my_data", str(folder / "my_data")))
        return [[sys.executable, *words[1:], "--images", str(IMAGES)]]
    if any(place in command for place in RELEASED) or known(command, (f"{PYTHON}generate",)):
        return [released_line(command, folder)]
    words = [*shlex.split(command), *overrides(command, folder)]
    words[0] = sys.executable
    if known(command, (f"{PYTHON}report",)):  # of a run that an earlier command has made
        return [[word.replace("runs/", f"{folder}/runs/") for word in words]]
    if "--processes" not in words:
        return [words]
    number = words.index("--process") + 1
    count = int(words[words.index("--processes") + 1])
    return [[*words[:number], str(i), *words[number + 1 :]] for i in range(count)]


def run(command: str, folder: Path) -> None:
    """Run `command`; every process of it must succeed."""
    started = [
        subprocess.Popen(
            line,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for line in lines_of(command, folder)
    ]
    try:
        for process in started:
            out, _ = process.communicate(timeout=900)
            assert process.returncode == 0, f"{command}\n{out}"
    finally:
        for process in started:
            process.kill()


@pytest.mark.parametrize("command", dict.fromkeys(commands()))
def test_the_command_is_run_by_exactly_one_test(command: str) -> None:
    assert quick(command) + slow(command) == 1, f"add {command!r} to QUICK or SLOW"


@pytest.mark.parametrize("command", [c for c in dict.fromkeys(commands()) if quick(c)])
def test_a_quick_command_succeeds(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    words = [*shlex.split(command)[2:], *overrides(command, tmp_path)]
    assert launch.main(words) == ExitCode.OK
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_other_commands_succeed_in_the_order_of_the_pages(tmp_path: Path) -> None:
    for command in dict.fromkeys(commands()):
        if slow(command):
            run(command, tmp_path)


def test_the_pages_have_commands() -> None:
    assert {"make train", "make test"} <= set(commands())


@pytest.mark.parametrize("command", [c for c in dict.fromkeys(commands()) if slow(c)])
def test_a_slow_command_could_be_run(command: str, tmp_path: Path) -> None:
    """The command's target or options exist and its configuration loads."""
    for words in lines_of(command, tmp_path):
        if words[0] == "sh":
            assert "-m pip install" in words[-1]
        elif words[0] == "make":
            dry = ["make", "--dry-run", *words[1:]]
            subprocess.run(dry, cwd=ROOT, check=True, capture_output=True)
        else:
            args = parse_arguments(words[2:], COMMANDS)
            # What other commands have yet to make cannot be loaded.
            later = args.name in ("data", "report") or any(place in command for place in RELEASED)
            if not later and args.call.config != "none":
                assert load_config(ROOT / args.config, args.overrides)


@pytest.mark.parametrize("wrong", ["make tain", "make trainer", PYTHON + "fly", "ls"])
def test_an_unknown_command_is_noticed(wrong: str) -> None:
    assert not known(wrong, QUICK + SLOW)


@pytest.mark.parametrize("page", PAGES, ids=[path.name for path in PAGES])
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", page.read_text())  # code shows links of others
    targets = re.findall(r"\]\(([^)#]+)", text)
    wanted = {target for target in targets if "://" not in target}
    assert {target for target in wanted if not (page.parent / target).exists()} == set()
