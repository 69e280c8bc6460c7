"""The options of `launch.py` and their help, by command.

This module loads no numerical library: mistakes on the command line are reported at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data.places import local
from mllm_jax.checkout import ADVICE, ROOT
from mllm_jax.cli.answer import Answer
from mllm_jax.cli.benchmark import registered
from mllm_jax.evaluation.metrics import METRICS
from mllm_jax.plan.mixtures import Mixture, mixtures
from mllm_jax.runtime.exits import table

EPILOG = """\
Any key of the configuration can be set behind the options, values in YAML:
  launch.py train --config configs/demo.yaml train.steps=10 run.name=trial
`launch.py config --keys` lists all keys.
"""

CODES = f"""\
Exit codes:
{table()}
"""

#: Word of `config` before files that are rewritten with the keys of today.
UPGRADE = "upgrade"
#: Requirements of commands besides a configuration.
INPUTS = {
    "bench": "{" + ",".join(registered()) + "} [--config FILE]",
    "compile": "--config FILE (--topology TOPOLOGY | --save DIR)",
    "submit": "--cluster NAME|FILE --nodes N --config FILE",
    "report": "--run DIR",
    "import": "--from FOLDER|HUB_ID --out DIR",
    "export": "--run DIR --out DIR",
    "generate": "(--run DIR | --release DIR) (--prompt TEXT | --batch FILE)",
    "data": "example --out DIR",
    "config": f"(--config FILE | {UPGRADE} FILE ...)",
    "evaluate": "(--config FILE | (--run DIR | --release DIR) --questions FILE)",
}
#: Commands without a configuration.
WITHOUT_CONFIG = ("data", "report", "import", "export")
#: Commands whose configuration is that of a run or a release, with overrides; of `evaluate` that is
#: so with `--questions`.
OF_MODELS = ("generate", "evaluate")
#: Kinds of media that a prompt may have.
MEDIA = ("image", "audio", "video")

#: A function named as its command, whose docstring is its help.
Command = Callable[..., Answer]


def parse(argv: Sequence[str], commands: Sequence[Command]) -> argparse.Namespace:
    """Options of one of `commands`; arguments after or between them are overrides."""
    parser = _parser(commands)
    args, rest = parser.parse_known_args(argv)
    if args.name in WITHOUT_CONFIG:
        if rest:
            parser.error(f"{rest[0]!r} is no option of {args.name}")
        return args
    benchmark = registered().get(getattr(args, "benchmark", ""))
    if benchmark and benchmark.config and args.config is None:
        args.config = ROOT / benchmark.config
    if args.name == "config":
        args.upgrade = [Path(file) for file in rest[1:]] if rest[:1] == [UPGRADE] else None
        if args.upgrade == []:
            parser.error("config upgrade needs the names of files: config upgrade FILE [FILE ...]")
        if args.upgrade:
            return args
    for text in rest:
        if text.startswith("-") or "=" not in text:
            bare = text.lstrip("-")
            hint = f"; valid: {bare}" if "." in bare.partition("=")[0] and "=" in bare else ""
            parser.error(f"{text!r} is neither an option nor section.key=value{hint}")
    args.overrides = rest
    if args.name == "evaluate" and (mixed := _mixed(args)):
        parser.error(mixed)
    if of_model(args):
        return args
    if args.config is None and not of_keys(args):
        other = " or --questions FILE," if args.name == "evaluate" else ""
        parser.error(f"{args.name} needs --config FILE,{other} e.g. --config configs/demo.yaml")
    return args


def of_keys(args: argparse.Namespace) -> bool:
    """Whether a command is about the list of keys, and reads no configuration."""
    return args.name == "config" and (args.keys or args.write_keys is not None)


def of_model(args: argparse.Namespace) -> bool:
    """Whether the configuration of a command is that of a run or a release."""
    if args.name not in OF_MODELS:
        return False
    return args.name == "generate" or args.questions is not None


def _mixed(args: argparse.Namespace) -> str | None:
    """Options of one way to evaluate beside that of the other; None if there are none."""
    if args.questions is not None:
        beside = args.config is not None
        return "--config and --questions: both are given; valid: one of them" if beside else None
    own = argparse.ArgumentParser(add_help=False)
    for add in (_questions, _model):
        add(own)
    given = [name for name in vars(own.parse_args([])) if getattr(args, name) is not None]
    if not given:
        return None
    named = " and ".join(f"--{name.replace('_', '-')}" for name in given)
    what = "is an option" if len(given) == 1 else "are options"
    return f"{named} {what} of evaluate --questions FILE, which is not given"


def _parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="launch.py",
        description="Train multimodal LLMs on JAX.",
        epilog=f"{EPILOG}\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    added = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for command in commands:
        sub = _add(added, command)
        for add in _OPTIONS[_name(command)]:
            add(sub)
    return parser


def _name(command: Command) -> str:
    """The name of a command; an underscore that avoids a Python keyword is removed."""
    return command.__name__.rstrip("_")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], command: Command
) -> argparse.ArgumentParser:
    name, summary = _name(command), (command.__doc__ or "").strip()
    inputs, configured = INPUTS.get(name, "--config FILE"), name not in WITHOUT_CONFIG
    overrides = " [section.key=value ...]" if configured else ""
    sub = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"{EPILOG}\n{CODES}" if configured else CODES,
        usage=f"launch.py {name} {inputs} [options]{overrides}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.set_defaults(command=command)
    if configured and name != "generate":
        sub.add_argument(
            "--config", type=_path, metavar="FILE", help="experiment in YAML, see configs/"
        )
    sub.add_argument("--json", action="store_true", help="JSON on stdout, all else on stderr")
    return sub


# ---- values --------------------------------------------------------------------------------------


def _number(read: Callable[[str], Any], holds: Callable[[Any], bool], valid: str) -> Any:
    """A type for argparse: the value that `read` makes of the text, if it `holds`."""

    def number(text: str) -> Any:
        try:
            found = read(text)
        except ValueError:
            found = None
        if found is None or not holds(found):
            raise argparse.ArgumentTypeError(f"{text} is not {valid}")
        return found

    return number


_whole = _number(int, lambda n: n >= 0, "a whole number of at least 0")
_positive = _number(int, lambda n: n >= 1, "a whole number of at least 1")
_gibibytes = _number(float, lambda n: 0 < n < float("inf"), "a finite number above 0")
_seconds = _number(float, lambda n: 0 < n < float("inf"), "a finite number above 0")
_share = _number(float, lambda n: 0 <= n < 1, "a number from 0 to below 1")
_spread = _number(float, lambda n: 0 <= n <= 3, "a number from 0 to 3")


def _path(text: str) -> str:
    """A path on this machine, for argparse."""
    try:
        local(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _slow(text: str) -> tuple[int, float]:
    """Stage and factor, for argparse."""
    stage, _, factor = text.partition("=")
    try:
        return int(stage), float(factor)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not STAGE=FACTOR, e.g. 0=1.5") from None


def _mixtures(text: str) -> tuple[Mixture, ...]:
    """Mixtures of media and text, for argparse."""
    try:
        return mixtures(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# ---- commands ------------------------------------------------------------------------------------


def _config(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--keys", action="store_true", help="list all keys as Markdown")
    help_text = "write the lists into the pages of a folder, which is docs/reference/keys"
    sub.add_argument("--write-keys", type=_path, metavar="DIR", help=help_text)


def _budgets(sub: argparse.ArgumentParser) -> None:
    help_text = "samples that a microbatch should hold, about (default: as many as it holds now)"
    sub.add_argument("--samples", type=_positive, metavar="N", help=help_text)


def _data(sub: argparse.ArgumentParser) -> None:
    help_text = "example: drawn images with questions about them, to try everything out with"
    sub.add_argument("what", choices=("example",), help=help_text)
    sub.add_argument("--out", type=_path, required=True, metavar="DIR", help="the folder to make")
    help_text = "images of the training split, each with four questions (default: 1000)"
    sub.add_argument("--images", type=_positive, default=1000, metavar="N", help=help_text)
    help_text = "seed of what is drawn (default: 0)"
    sub.add_argument("--seed", type=_whole, default=0, metavar="N", help=help_text)


def _preview(sub: argparse.ArgumentParser) -> None:
    help_text = "samples that are shown token by token (default: 16)"
    sub.add_argument("--samples", type=_positive, default=16, metavar="N", help=help_text)
    help_text = "HTML file to write (default: preview.html in the folder of the run)"
    sub.add_argument("--out", type=_path, metavar="FILE", help=help_text)


def _names(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",")]


def _bench(sub: argparse.ArgumentParser) -> None:
    benchmarks = registered()
    names = ", ".join(name for name, own in benchmarks.items() if own.config)
    told = f"what to measure; {names} bring their own configuration" if benchmarks else ADVICE
    sub.add_argument("benchmark", choices=tuple(benchmarks) or None, help=told)
    reads = {"count": _positive, "number": _whole, "path": _path, "names": _names}
    for own in benchmarks.values():
        if own.options:
            without = f" (default: {own.without})" if own.without else ""
            group = sub.add_argument_group(f"bench {own.name}{without}")
        for name, kind, value, told in own.options:
            if kind == "flag":
                group.add_argument(f"--{name}", action="store_true", default=None, help=told)
            else:
                group.add_argument(f"--{name}", type=reads[kind], metavar=value, help=told)


def _folder(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--output", type=_path, metavar="DIR", help="folder (default: that of the run)"
    )


def _trace(sub: argparse.ArgumentParser) -> None:
    help_text = "run a step on synthetic data, too, and show what happened"
    sub.add_argument("--measure", action="store_true", help=help_text)


def _experts(sub: argparse.ArgumentParser) -> None:
    help_text = "draw the way of a few tokens through a layer instead; needs no run"
    sub.add_argument("--routes", action="store_true", help=help_text)


def _model(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("the model that answers")
    help_text = "folder of a run, whose newest checkpoint answers under its plans"
    group.add_argument("--run", type=_path, metavar="DIR", help=help_text)
    help_text = "folder of a released checkpoint with its tokenizer, on one device"
    group.add_argument("--release", type=_path, metavar="DIR", help=help_text)
    help_text = "on one device, whatever the plans of the run are"
    group.add_argument("--alone", action="store_true", default=None, help=help_text)
    help_text = (
        "when parameters are made whole along fsdp: once (step), or layer by layer for every "
        "token, which takes less memory and more time (default: step)"
    )
    group.add_argument("--gather", choices=("step", "layer"), help=help_text)
    group = sub.add_argument_group("its answers")
    help_text = "most tokens of an answer (default: 256)"
    group.add_argument("--max-new-tokens", type=_positive, metavar="N", help=help_text)
    help_text = "prompts that are answered at a time (default: 8)"
    group.add_argument("--rows", type=_positive, metavar="N", help=help_text)
    help_text = "divisor of the logits; 0: the most likely token is taken (default: 0)"
    group.add_argument("--temperature", type=float, metavar="T", help=help_text)
    help_text = "keep so many of the most likely tokens (default: all)"
    group.add_argument("--top-k", type=_positive, metavar="K", help=help_text)
    help_text = "keep the most likely tokens up to this probability together (default: 1)"
    group.add_argument("--top-p", type=float, metavar="P", help=help_text)
    help_text = "seed of the draws (default: 0)"
    group.add_argument("--seed", type=_whole, metavar="N", help=help_text)
    help_text = "folder of images and clips (default: that of the file)"
    group.add_argument("--media", type=_path, metavar="DIR", help=help_text)


def _generate(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("prompts")
    group.add_argument("--prompt", metavar="TEXT", help="a prompt, media in front of its text")
    for kind in MEDIA:
        help_text = f"file of a medium of the prompt ({kind}); may be repeated"
        group.add_argument(
            f"--{kind}", type=_path, action="append", default=[], metavar="FILE", help=help_text
        )
    help_text = "JSON Lines instead, a prompt or a conversation each; see docs/how-to/generate.md"
    group.add_argument("--batch", type=_path, metavar="FILE", help=help_text)
    help_text = (
        "file for the answers to them, as JSON Lines (default: standard output); the same command "
        "goes on from what FILE.part has"
    )
    group.add_argument("--output", type=_path, metavar="FILE", help=help_text)


def _questions(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("questions of your own")
    help_text = "JSON Lines of prompts with right answers, see docs/how-to/generate.md"
    group.add_argument("--questions", type=_path, metavar="FILE", help=help_text)
    every = ",".join(METRICS)
    help_text = f"metrics of the answers, one or several (default: {every})"
    group.add_argument("--metrics", metavar="METRICS", help=help_text)
    help_text = "file for every answer with its scores, as JSON Lines"
    group.add_argument("--output", type=_path, metavar="FILE", help=help_text)


def _report(sub: argparse.ArgumentParser) -> None:
    help_text = "folder of the run, which may still go on"
    sub.add_argument("--run", type=_path, required=True, metavar="DIR", help=help_text)
    help_text = "HTML file to write (default: report.html in the folder of the run)"
    sub.add_argument("--output", type=_path, metavar="FILE", help=help_text)


def _simulate(sub: argparse.ArgumentParser) -> None:
    help_text = (
        "description in configs/hardware, or a file of one (default: schedule.hardware or h100)"
    )
    sub.add_argument("--hardware", type=_path, metavar="NAME", help=help_text)
    help_text = (
        "compute of this stage of one replica takes FACTOR times as long; may be repeated for "
        "others (of one stage the last counts)"
    )
    sub.add_argument(
        "--slow", action="append", default=[], type=_slow, metavar="STAGE=FACTOR", help=help_text
    )
    help_text = (
        "lengths of microbatches vary: log-normal factors with this spread and mean 1; with "
        "--mixture lengths of samples (default there: 1)"
    )
    sub.add_argument("--vary", type=_spread, metavar="SIGMA", help=help_text)
    help_text = "of the lengths that vary (default: train.seed)"
    sub.add_argument("--seed", type=_whole, metavar="N", help=help_text)
    help_text = (
        "instead of one step: media tokens to text tokens, e.g. 1:9,5:5,9:1; one program that "
        "follows them beside other systems, each planned once for their mean"
    )
    sub.add_argument("--mixture", type=_mixtures, metavar="MIXTURES", help=help_text)
    help_text = (
        "instead of one step: the gain of each of MegaScale's techniques for this decoder, in the "
        "order of the paper's table and beside its figures"
    )
    sub.add_argument("--ablate", action="store_true", help=help_text)
    help_text = "with --mixture: every row brings the same, so that nothing is left to balance"
    sub.add_argument("--even", action="store_true", help=help_text)


def _calibrate(sub: argparse.ArgumentParser) -> None:
    help_text = "YAML file to write (default: hardware.yaml in the folder of the run)"
    sub.add_argument("--output", type=_path, metavar="FILE", help=help_text)


def _plan(sub: argparse.ArgumentParser) -> None:
    help_text = (
        "name in configs/hardware/, or a description's file (default: schedule.hardware or h100)"
    )
    sub.add_argument("--hardware", type=_path, metavar="NAME|FILE", help=help_text)
    help_text = "GiB of a device that a step may take (default: what `compile` allows)"
    sub.add_argument("--memory", type=_gibibytes, metavar="GIB", help=help_text)
    help_text = "how many plans to show, each with other degrees of the decoder (default: 1)"
    sub.add_argument("--top", type=_positive, default=1, metavar="K", help=help_text)
    help_text = "end once no plan can be faster by more than this share (default: 0, the fastest)"
    sub.add_argument("--within", type=_share, default=0.0, metavar="SHARE", help=help_text)
    help_text = "leave out plans that would leave devices idle, even if they are the fastest"
    sub.add_argument("--all-devices", action="store_true", help=help_text)
    help_text = "choose data.budgets first, from the lengths of the source, as `budgets` does"
    sub.add_argument("--budgets", action="store_true", help=help_text)
    help_text = "the configuration to write (default: plan.yaml in the run's folder)"
    sub.add_argument("--output", type=_path, metavar="FILE", help=help_text)


def _compile(sub: argparse.ArgumentParser) -> None:
    help_text = "tpu:CHIP:SIZES (tpu:v5p:4x4x4) or gpu:CHIP:HOSTSxDEVICES (gpu:h100:4x8)"
    sub.add_argument("--topology", metavar="TOPOLOGY", help=help_text)
    help_text = (
        "instead: compile for the devices of this machine and write the compiled step into DIR, "
        "for `train run.compiled_steps=DIR`"
    )
    sub.add_argument("--save", type=_path, metavar="DIR", help=help_text)


def _submit(sub: argparse.ArgumentParser) -> None:
    help_text = "slurm, kubernetes or another name in configs/clusters/, or a description's file"
    sub.add_argument("--cluster", type=_path, required=True, metavar="NAME|FILE", help=help_text)
    help_text = "nodes of the job, each with one process"
    sub.add_argument("--nodes", type=_positive, required=True, metavar="N", help=help_text)
    help_text = "submit the job (sbatch, kubectl apply); without it files are only written"
    sub.add_argument("--go", action="store_true", help=help_text)
    help_text = (
        "a path that the run reads, which the nodes have with all below it, whether it is here or "
        "not; may be repeated"
    )
    sub.add_argument(
        "--on-nodes", type=_path, action="append", default=[], metavar="PATH", help=help_text
    )
    help_text = (
        "folder for the files (default: submit in the run's folder, for pods jobs/<run.name>)"
    )
    sub.add_argument("--output", type=_path, metavar="DIR", help=help_text)


def _import(sub: argparse.ArgumentParser) -> None:
    help_text = "folder of a released checkpoint, or organisation/name[@revision] of a hub"
    sub.add_argument(
        "--from", dest="source", type=_path, required=True, metavar="FOLDER", help=help_text
    )
    sub.add_argument(
        "--out", type=_path, required=True, metavar="DIR", help="the folder of the run to make"
    )
    help_text = "an encoder from another checkpoint, with a new connector; may be repeated"
    sub.add_argument(
        "--encoder",
        action="append",
        default=[],
        type=_encoder,
        metavar="NAME=FOLDER",
        help=help_text,
    )
    help_text = "type of activations, as model.dtype (default: auto)"
    sub.add_argument(
        "--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help=help_text
    )
    help_text = "devices that the configuration is for (default: 1)"
    sub.add_argument("--devices", type=_positive, default=1, metavar="N", help=help_text)


def _encoder(text: str) -> tuple[str, str]:
    """Name and folder, for argparse."""
    name, sign, folder = text.partition("=")
    if not sign or not name.isidentifier() or not folder:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=FOLDER, e.g. vision=siglip")
    return name, _path(folder)


def _export(sub: argparse.ArgumentParser) -> None:
    help_text = "folder of the run, whose newest checkpoint is exported"
    sub.add_argument("--run", type=_path, required=True, metavar="DIR", help=help_text)
    sub.add_argument("--out", type=_path, required=True, metavar="DIR", help="the folder to make")
    help_text = "only this part: decoder, an encoder, or a connector, e.g. vision.connector"
    alone = sub.add_mutually_exclusive_group()
    alone.add_argument("--part", metavar="PART", help=help_text)
    help_text = "only the adapters of train.lora, in PEFT's format; else they are merged"
    alone.add_argument("--adapters", action="store_true", help=help_text)
    help_text = (
        "type of the tensors (default: as the run began with, or as it computed; of --adapters "
        "float32)"
    )
    sub.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help=help_text)


def _train(sub: argparse.ArgumentParser) -> None:
    help_text = (
        "go on from the checkpoint of this step, not the newest; newer ones are set aside (renamed)"
    )
    sub.add_argument("--from-step", type=_whole, metavar="N", help=help_text)
    help_text = (
        "start training as a process of its own, watch it, and start it again after faults that "
        "may pass (run.restarts); see docs/how-to/failures.md"
    )
    sub.add_argument("--supervise", action="store_true", help=help_text)


def _processes(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("several processes (each is started with its own number)")
    help_text = (
        "where process 0 listens: with several machines a numeric address, as a machine may take "
        "its own name for a loopback address (127.0.1.1)"
    )
    group.add_argument("--coordinator", metavar="HOST:PORT", help=help_text)
    group.add_argument("--processes", type=int, default=1, metavar="N", help="how many there are")
    group.add_argument("--process", type=int, default=0, metavar="I", help="number of this one")
    help_text = "how long to wait for the others (default: 60)"
    group.add_argument(
        "--join-seconds", type=_seconds, default=60.0, metavar="SECONDS", help=help_text
    )


#: Functions that add the options of each command.
_OPTIONS: Mapping[str, Sequence[Callable[[argparse.ArgumentParser], None]]] = {
    "train": (_train, _processes),
    "evaluate": (_questions, _model, _processes),
    "generate": (_generate, _model, _processes),
    "verify": (_processes,),
    "check": (_processes,),
    "config": (_config,),
    "data": (_data,),
    "preview": (_preview,),
    "budgets": (_budgets,),
    "bench": (_processes, _bench),
    "trace": (_processes, _folder, _trace),
    "experts": (_folder, _experts),
    "report": (_report,),
    "simulate": (_folder, _simulate),
    "calibrate": (_processes, _calibrate),
    "plan": (_plan,),
    "compile": (_processes, _compile),
    "submit": (_submit,),
    "import": (_import,),
    "export": (_export,),
}
