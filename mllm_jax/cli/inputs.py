"""Checks of the inputs of commands about models, before numerical libraries are loaded.

`folders.py` sees that folders are there. Here files of media and of prompts are opened, as far as
that needs no model, and what is to be written must have a place.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mllm_jax.cli.command_options import MEDIA
from mllm_jax.runtime.folder import steps_in

if TYPE_CHECKING:  # which other commands do not need
    from data.config import DataConfig
    from data.sources.formats.prompts import QuestionSet

#: Most prompts of a file whose media are looked for.
MOST_CHECKED = 1000
#: What reads no more of a medium than its head, by kind.
_HEADS: Mapping[str, str] = {"image": "image_size", "audio": "clip_info", "video": "frame_timing"}
_CONFIG = "config.json"


def check_inputs(args: argparse.Namespace) -> None:
    """Check that the inputs of a command can be read, and that its results can be written.

    Raises:
        ConfigError: options contradict each other, or an output has no place.
        DataError, SampleError: a prompt, or a file of prompts or media, cannot be used.
        PretrainedError: a release cannot be used, or a run has no such part.
    """
    check = _CHECKS.get(args.name)
    if check is not None:
        check(args)


def _check_generate(args: argparse.Namespace) -> None:
    check_prompts(args)
    _check_output(args, "generate")
    if args.batch is not None:
        _check_file(Path(args.batch), args.media)
    else:
        _check_prompt(args)


def _check_evaluate(args: argparse.Namespace) -> None:
    if args.questions is None:
        return
    from mllm_jax.evaluation.metrics import parse_metrics

    parse_metrics(args.metrics)
    _check_output(args, "evaluate")
    _check_file(Path(args.questions), args.media)


def _check_export(args: argparse.Namespace) -> None:
    _check_new(Path(args.out))
    config = _newest_config(Path(args.run))
    _check_part(args, config)


def _check_import(args: argparse.Namespace) -> None:
    _check_new(Path(args.out))
    for option, folder in (
        ("--from", args.source),
        *(("--encoder", folder) for _, folder in args.encoder),
    ):
        _check_release(option, folder)


_CHECKS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "generate": _check_generate,
    "evaluate": _check_evaluate,
    "export": _check_export,
    "import": _check_import,
}


# ---- prompts -------------------------------------------------------------------------------------


def media_of(args: argparse.Namespace) -> dict[str, list[str]]:
    """The media of `--prompt`, by kind."""
    return {kind: paths for kind in MEDIA if (paths := getattr(args, kind))}


def check_prompts(args: argparse.Namespace) -> None:
    """Raise ConfigError unless there is one model, and one source of prompts."""
    from mllm_jax.config.sections import ConfigError

    problems = []
    if (args.run is None) == (args.release is None):
        which = "neither is given" if args.run is None else "both are given"
        problems.append(f"--run and --release: {which}; valid: one of them")
    if (args.prompt is None) == (args.batch is None):
        which = "neither is given" if args.prompt is None else "both are given"
        problems.append(f"--prompt and --batch: {which}; valid: one of them")
    media = [f"--{kind}" for kind in media_of(args)]
    if args.prompt is not None and not args.prompt.strip() and not media:
        problems.append("--prompt: it asks nothing; valid: a text, or media beside it")
    if args.batch is not None and media:
        problems.append(f"{' and '.join(media)}: a file names its media; valid: --prompt")
    for name in ("output", "media"):
        if args.batch is None and getattr(args, name) is not None:
            problems.append(f"--{name} is an option of --batch")
    if problems:
        raise ConfigError("generate", problems)


def _check_prompt(args: argparse.Namespace) -> None:
    """Check that the media of `--prompt` exist, and begin as files of their kind do."""
    from data.sources.formats.prompts import program_questions

    record = {"prompt": args.prompt, **media_of(args)}
    _read_heads(program_questions(_default_config(tempfile.gettempdir()), [record], Path.cwd()), 0)


def _read_heads(questions: QuestionSet, index: int) -> None:
    """Read a prompt, and the heads of its media. Raises SampleError."""
    from data.sample import MediaError, SampleError

    sample = questions[index, 0]
    for kind, media in sample.media.items():
        for medium in media:
            try:
                getattr(medium, _HEADS[kind])()
            except MediaError as error:
                raise SampleError(sample.name, error.fault) from error


def _check_file(file: Path, media: str | None) -> None:
    """Check that a file of prompts can be read, and that one of them has all of its media."""
    from data.sample import DataError
    from data.sources.formats.prompts import open_questions

    with tempfile.TemporaryDirectory(prefix="mllm_jax-prompts-") as cache:
        questions = open_questions(_default_config(cache), str(file), media)
        if not len(questions):
            raise DataError(f"{file} has no prompts; valid: at least one")
        if len(questions) <= MOST_CHECKED and (why := _why_unusable(questions)):
            raise DataError(f"none of the {len(questions)} prompts of {file} can be used; {why}")


def _why_unusable(questions: QuestionSet) -> str:
    """Why no model can use the last prompt; empty if a model may use a prompt."""
    from data.faults import FaultKind
    from data.sample import SampleError

    lost = (FaultKind.MISSING, FaultKind.CLOSED, FaultKind.PLACE, FaultKind.IMAGE, FaultKind.CLIP)
    why = ""
    for index in range(len(questions)):
        try:
            _read_heads(questions, index)
        except SampleError as error:
            if error.fault.kind not in lost and not error.fault.text.startswith("not JSON"):
                return ""
            why = f"{error.name}, the last one: {error.fault}"
        else:
            return ""
    return why


def _default_config(cache: str) -> DataConfig:
    """The configuration with which media of prompts are opened before a model is known."""
    from data.config import DataConfig

    return DataConfig.model_validate(
        {"source": {"kind": "llava", "path": "none"}, "budgets": "auto", "cache": cache}
    )


# ---- releases and runs ---------------------------------------------------------------------------


def _check_release(option: str, source: str) -> None:
    """Check that the folder of a release has a configuration in JSON."""
    from mllm_jax.hf_format.files import PretrainedError

    folder = Path(source)
    if not folder.exists():  # one of a hub, or nothing, which is told where it is fetched
        return
    path = folder / _CONFIG
    if not path.is_file():
        raise PretrainedError(f"{option} {source}: there is no {_CONFIG} in it; valid: a release")
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise PretrainedError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise PretrainedError(f"{path} holds a {type(values).__name__}, not an object")


def _newest_config(run: Path) -> dict[str, Any]:
    """The configuration in a run's newest checkpoint; nothing if the checkpoint has none."""
    steps = steps_in(run)
    with suppress(OSError, ValueError, RecursionError):  # which is told when it is opened
        path = run / "checkpoints" / str(max(steps, default=0)) / "config" / "metadata"
        values = json.loads(path.read_bytes())
        return values if isinstance(values, dict) else {}
    return {}


def _check_part(args: argparse.Namespace, config: Mapping[str, Any]) -> None:
    """Check that a run has the part, or the adapters, that are to be exported."""
    from mllm_jax.hf_format.files import PretrainedError, list_names
    from mllm_jax.models.short_form import backbone_of, module_values
    from mllm_jax.release.parts import NO_ADAPTERS, list_parts

    model, train = config.get("model"), config.get("train")
    if args.adapters and isinstance(train, dict) and not train.get("lora"):
        raise PretrainedError(NO_ADAPTERS)
    if args.part is None or not isinstance(model, dict):
        return
    backbone = backbone_of(model)
    modules = module_values(model, backbone)
    if not modules:
        return
    valid = list_parts(backbone, [name for name in modules if name != backbone])
    if args.part not in valid:
        raise PretrainedError(
            f"--part {args.part} is none of the model; valid: {list_names(valid)}"
        )


# ---- places --------------------------------------------------------------------------------------


def _check_new(out: Path) -> None:
    """Check that a folder does not exist yet and can be made."""
    from mllm_jax.hf_format.files import PretrainedError

    if out.exists() or out.is_symlink():
        raise PretrainedError(f"{out} is there already; choose another --out")
    if why := _why_no_place(out):
        raise PretrainedError(f"--out {out}: {why}")


def _check_output(args: argparse.Namespace, command: str) -> None:
    """Check that the process that writes `--output` can write it."""
    from mllm_jax.config.sections import ConfigError

    if args.output is None or args.process:
        return
    output = Path(args.output)
    why = (
        "it is a folder; valid: a file" if output.is_dir() else _why_no_place(output, parents=False)
    )
    if why:
        raise ConfigError(command, [f"--output {output}: {why}"])


def _why_no_place(path: Path, *, parents: bool = True) -> str:
    """Why a file or a folder cannot be made; empty if it can.

    Args:
        path: its path.
        parents: whether folders above it are made, too.
    """
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        return f"{above} is a file; valid: a place in a folder"
    if not parents and above != path.absolute().parent:
        return f"there is no folder {path.parent}; valid: a place in a folder that is there"
    if not os.access(above, os.W_OK | os.X_OK):
        return f"folder {above} takes no files; valid: a place in one that does"
    return ""
