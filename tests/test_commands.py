"""Commands and keys that the documentation names are there, without running them.

`tests/test_readme.py` runs the commands of blocks marked `sh`. Here are those of all other blocks,
which must be whole, and those within sentences, which may be parts: `launch.py plan --budgets`.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib.util import find_spec

import pytest

from mllm_jax.cli.options import parse_arguments
from mllm_jax.cli.table import COMMANDS
from mllm_jax.config.keys import iterate_keys
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.config.renamed_keys import RENAMED
from mllm_jax.config.sections import ConfigError
from tests.configs import PAGES, ROOT

TEXT = "\n".join(page.read_text() for page in PAGES)
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: Begins of lines that are commands, wherever they stand.
COMMAND = re.compile(r"\$ |launch\.py |make |pip |git |python ")
INDENTED = re.compile(r"^    ((?:\.venv/bin/python )?launch\.py .*)$", re.MULTILINE)
WITHIN = re.compile(r"`((?:\.venv/bin/)?(?:python|launch\.py|make|git|pip)(?: [^`\n]*)?)`")
#: Programs beside Python and make that a block may start.
PROGRAMS = ("cd", "git", "kubectl", "pip", "scancel", "squeue", "tail")
#: What stands for a value of the reader's own.
PLACES = {"FILE": "configs/demo.yaml", "DIR": "runs/mine", "runs/<name>": "runs/mine"}
#: Every key; a key that maps names of the reader's own to values has one more part.
PATHS = [
    (*key.path, "<name>") if key.type.startswith("{") else key.path
    for key in iterate_keys(ExperimentConfig)
]
#: Names that look like keys and are none: files, and a module of the worked example.
FILES = ("json", "png", "py", "safetensors")
EXAMPLE = "data.media.cloud.media_type"
SECTIONS = "|".join(dict.fromkeys(path[0] for path in PATHS))
#: A key within a sentence, perhaps with a value.
KEY = re.compile(rf"`((?:{SECTIONS})(?:\.[a-z_]+|\.<[a-z]+>)+)(?:=[^`\n]*)?`")


def whole() -> list[str]:
    """Commands of blocks, continued lines joined."""
    told = [line for line in lines("bash") if line and line[0] != "#"]
    told += [line.removeprefix("$ ") for line in lines("console") if line.startswith("$ ")]
    return list(dict.fromkeys([*told, *INDENTED.findall(TEXT)]))


def lines(*kinds: str) -> list[str]:
    """Lines of the blocks of these kinds."""
    blocks = [text for kind, text in BLOCKS.findall(TEXT) if kind in kinds]
    return "".join(blocks).replace("\\\n", " ").splitlines()


def parts() -> list[str]:
    """Commands within sentences."""
    return list(dict.fromkeys(WITHIN.findall(TEXT)))


@cache
def options(*command: str) -> set[str]:
    """The options that `launch.py COMMAND --help` tells.

    Raises:
        AssertionError: there is no such command.
    """
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "argparse.ArgumentParser.print_help", lambda own: found.append(own.format_help())
        )
        with pytest.raises(SystemExit) as ended:
            parse_arguments([*command, "--help"], COMMANDS)
    assert ended.value.code == 0, f"{' '.join(command)} is no command"
    return set(re.findall(r"--[a-z][a-z-]*", found[0]))


def is_key(name: str) -> bool:
    """Whether a dotted name is a key, or a section of keys; any name may stand for `<name>`."""
    own = tuple(name.split("."))
    return any(
        len(own) <= len(path) and all(b in (a, "<name>") for a, b in zip(own, path, strict=False))
        for path in PATHS
    )


def is_module(name: str) -> bool:
    """Whether a dotted name is a module of the project, or something in one."""
    parts = name.split(".")
    return any(
        ROOT.joinpath(*parts[:n]).with_suffix(".py").exists() for n in (len(parts), len(parts) - 1)
    )


def check_part(words: list[str]) -> None:
    """The command, its options and the keys of its overrides are there."""
    if not words or words[0] in ("--help", "COMMAND", "..."):
        return
    command = words[:2] if words[0] == "bench" and words[1:] else words[:1]
    for word in words[len(command) :]:
        name, _, value = word.partition("=")
        if word.startswith("--"):
            assert name in options(*command), f"{word} is no option of {' '.join(command)}"
        elif value and not name.startswith("["):
            assert is_key(name), f"{name} is no key"
    options(*command)


def check_whole(words: list[str]) -> None:
    """The command is parsed, and its configuration loads with its overrides."""
    words = [PLACES.get(word, word) for word in words]
    args = parse_arguments(words, COMMANDS)
    if getattr(args, "config", None) is not None:
        assert load_config(ROOT / args.config, args.overrides)


def check_make(words: list[str]) -> None:
    """The target is there, and so is every variable that is set."""
    rules = (ROOT / "Makefile").read_text()
    for word in words:
        name, given, _ = word.partition("=")
        rule = rf"(?m)^{re.escape(name)} \?=" if given else rf"(?m)^{re.escape(name)}:"
        assert re.search(rule, rules), f"{word} is neither a target nor a variable of the Makefile"


def check_python(words: list[str]) -> None:
    """The module is there, or the code compiles."""
    if words[:1] == ["-m"]:
        assert find_spec(words[1]), f"{words[1]} is no module"
    elif words[:1] == ["-c"]:
        compile(words[1], words[1], "exec")


def check(command: str, *, is_whole: bool) -> None:
    """Whether the command of a page could be run."""
    words = shlex.split(command, comments=True)
    while re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    program, *rest = words
    if program.endswith("python") and rest[:1] == ["launch.py"]:
        program, *rest = rest
    if program == "launch.py":
        complete = is_whole or any(word.startswith("configs/") for word in rest)
        check_whole(rest) if complete and "COMMAND" not in rest else check_part(rest)
    elif program == "make":
        check_make(rest)
    elif program.endswith("python"):
        check_python(rest)
    else:
        assert not is_whole or program in PROGRAMS, f"{program} is none of {', '.join(PROGRAMS)}"


@pytest.mark.parametrize("command", whole())
def test_a_command_of_a_block_could_be_run(command: str) -> None:
    check(command, is_whole=True)


def test_blocks_of_other_kinds_hold_no_command() -> None:
    """They would be neither run nor parsed."""
    assert [line for line in lines("", "text", "yaml", "json") if COMMAND.match(line)] == []


@pytest.mark.parametrize("command", parts())
def test_a_command_within_a_sentence_is_there(command: str) -> None:
    check(command, is_whole=False)


def test_keys_within_sentences_are_there() -> None:
    names = {name for name in KEY.findall(TEXT) if name.split(".")[-1] not in FILES}
    before = {key.old.replace("*", "<name>") for key in RENAMED}
    assert {name for name in names - before if not (is_key(name) or is_module(name))} == {EXAMPLE}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("launch.py fly", "fly is no command"),
        ("launch.py plan --bugdets", "--bugdets is no option of plan"),
        ("launch.py bench lanse", "bench lanse is no command"),
        ("launch.py train train.step=3", "train.step is no key"),
        ("make tset", "tset is neither"),
        ("make test WORKER=0", "WORKER=0 is neither"),
        ("python -m docs.site.drawing", "is no module"),
    ],
)
def test_what_is_not_there_is_noticed(wrong: str, why: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(why)):
        check(wrong, is_whole=False)


@pytest.mark.parametrize(
    "wrong",
    [
        "launch.py train --config configs/dmo.yaml",
        "launch.py train --config configs/demo.yaml train.stesp=3",
        "launch.py train --config configs/demo.yaml train.steps=many",
        "launch.py train --config configs/demo.yaml --supervised",
        "launch.py plan",
        "rm -r runs",
    ],
)
def test_a_whole_command_that_could_not_be_run_is_noticed(wrong: str) -> None:
    with pytest.raises((AssertionError, SystemExit, ConfigError)):
        check(wrong, is_whole=True)
