"""The options of each command of `launch.py`, with their types and help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data.places import local
from mllm_jax.checkout import ADVICE
from mllm_jax.cli.benchmark import load_registry
from mllm_jax.evaluation.metrics import METRICS
from mllm_jax.plan.mixtures import TokenMixture, parse_mixtures

#: Kinds of media that a prompt may have.
MEDIA = ("image", "audio", "video")


def _number_type(
    convert: Callable[[str], Any], is_valid: Callable[[Any], bool], valid: str
) -> Callable[[str], Any]:
    """A type for argparse: converts a text to a number, and refuses numbers that are not valid."""

    def read_number(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not is_valid(value):
            raise argparse.ArgumentTypeError(f"{text} is not {valid}")
        return value

    return read_number


_count = _number_type(int, lambda n: n >= 0, "a whole number of at least 0")


_positive_count = _number_type(int, lambda n: n >= 1, "a whole number of at least 1")


_gibibytes = _number_type(float, lambda n: 0 < n < float("inf"), "a finite number above 0")


_seconds = _number_type(float, lambda n: 0 < n < float("inf"), "a finite number above 0")


_share = _number_type(float, lambda n: 0 <= n < 1, "a number from 0 to below 1")


_quota = _number_type(float, lambda n: 0 < n < 1, "a number above 0 and below 1")


_spread = _number_type(float, lambda n: 0 <= n <= 3, "a number from 0 to 3")


def local_path(text: str) -> str:
    """A path on this machine, for argparse."""
    try:
        local(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _slow_stage(text: str) -> tuple[int, float]:
    """Stage and factor, for argparse."""
    stage, _, factor = text.partition("=")
    try:
        return int(stage), float(factor)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not STAGE=FACTOR, e.g. 0=1.5") from None


def _mixture_list(text: str) -> tuple[TokenMixture, ...]:
    """Mixtures of media and text, for argparse."""
    try:
        return parse_mixtures(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _quota_list(text: str) -> tuple[float, ...]:
    """Quotas of slices, for argparse."""
    return tuple(sorted({_quota(part) for part in text.split(",")}))


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", action="store_true", help="list all keys as Markdown")
    help_text = "write the lists into the pages of a folder, which is docs/reference/keys"
    parser.add_argument("--write-keys", type=local_path, metavar="DIR", help=help_text)
    help_text = "write the types of a batch into a page, which is docs/reference/batch.md"
    parser.add_argument("--write-batch", type=local_path, metavar="FILE", help=help_text)


def _add_budgets(parser: argparse.ArgumentParser) -> None:
    help_text = "samples that a microbatch should hold, about (default: as many as it holds now)"
    parser.add_argument("--samples", type=_positive_count, metavar="N", help=help_text)


def _add_data(parser: argparse.ArgumentParser) -> None:
    help_text = "example: drawn images with questions about them, to try everything out with"
    parser.add_argument("what", choices=("example",), help=help_text)
    parser.add_argument(
        "--out", type=local_path, required=True, metavar="DIR", help="the folder to make"
    )
    help_text = "images of the training split, each with four questions (default: 1000)"
    parser.add_argument("--images", type=_positive_count, default=1000, metavar="N", help=help_text)
    help_text = "seed of what is drawn (default: 0)"
    parser.add_argument("--seed", type=_count, default=0, metavar="N", help=help_text)


def _add_preview(parser: argparse.ArgumentParser) -> None:
    help_text = "samples that are shown token by token (default: 16)"
    parser.add_argument("--samples", type=_positive_count, default=16, metavar="N", help=help_text)
    help_text = "HTML file to write (default: preview.html in the folder of the run)"
    parser.add_argument("--out", type=local_path, metavar="FILE", help=help_text)


def _name_list(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",")]


def _add_bench(parser: argparse.ArgumentParser) -> None:
    benchmarks = load_registry()
    if benchmarks:
        lines = [f"  {name:13s} {benchmark.purpose}" for name, benchmark in benchmarks.items()]
        bare = [name for name, benchmark in benchmarks.items() if not benchmark.config]
        note = f"All but {' and '.join(bare)} have a configuration that --config replaces."
        parser.description = "\n".join([f"{parser.description}\n", *lines, "", note])
    help_text = "what to measure, one of the list above" if benchmarks else ADVICE
    choices = tuple(benchmarks) or None
    count = None if benchmarks else "?"
    parser.add_argument("benchmark", nargs=count, choices=choices, metavar="NAME", help=help_text)
    types = {"count": _positive_count, "number": _count, "path": local_path, "names": _name_list}
    for benchmark in benchmarks.values():
        if benchmark.options:
            without = f" (default: {benchmark.without})" if benchmark.without else ""
            group = parser.add_argument_group(f"bench {benchmark.name}{without}")
        for name, kind, value, help_text in benchmark.options:
            if kind == "flag":
                group.add_argument(f"--{name}", action="store_true", default=None, help=help_text)
            else:
                group.add_argument(f"--{name}", type=types[kind], metavar=value, help=help_text)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=local_path, metavar="DIR", help="folder (default: that of the run)"
    )


def _add_trace(parser: argparse.ArgumentParser) -> None:
    help_text = "run a step on synthetic data, too, and show what happened"
    parser.add_argument("--measure", action="store_true", help=help_text)


def _add_experts(parser: argparse.ArgumentParser) -> None:
    help_text = "draw the way of a few tokens through a layer instead; needs no run"
    parser.add_argument("--routes", action="store_true", help=help_text)


def add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the model that answers")
    help_text = "folder of a run, whose newest checkpoint answers under its plans"
    group.add_argument("--run", type=local_path, metavar="DIR", help=help_text)
    help_text = "folder of a released checkpoint with its tokenizer, on one device"
    group.add_argument("--release", type=local_path, metavar="DIR", help=help_text)
    help_text = "on one device, whatever the plans of the run are"
    group.add_argument("--alone", action="store_true", default=None, help=help_text)
    help_text = (
        "when parameters are made whole along fsdp: once (step), or layer by layer for every "
        "token, which takes less memory and more time (default: step)"
    )
    group.add_argument("--gather", choices=("step", "layer"), help=help_text)
    group = parser.add_argument_group("its answers")
    help_text = "most tokens of an answer (default: 256)"
    group.add_argument("--max-new-tokens", type=_positive_count, metavar="N", help=help_text)
    help_text = "prompts that are answered at a time (default: 8)"
    group.add_argument("--rows", type=_positive_count, metavar="N", help=help_text)
    help_text = "divisor of the logits; 0: the most likely token is taken (default: 0)"
    group.add_argument("--temperature", type=float, metavar="T", help=help_text)
    help_text = "keep so many of the most likely tokens (default: all)"
    group.add_argument("--top-k", type=_positive_count, metavar="K", help=help_text)
    help_text = "keep the most likely tokens up to this probability together (default: 1)"
    group.add_argument("--top-p", type=float, metavar="P", help=help_text)
    help_text = "seed of the draws (default: 0)"
    group.add_argument("--seed", type=_count, metavar="N", help=help_text)
    help_text = "folder of images and clips (default: that of the file)"
    group.add_argument("--media", type=local_path, metavar="DIR", help=help_text)


def _add_generate(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("prompts")
    group.add_argument("--prompt", metavar="TEXT", help="a prompt, media in front of its text")
    for kind in MEDIA:
        help_text = f"file of a medium of the prompt ({kind}); may be repeated"
        group.add_argument(
            f"--{kind}",
            type=local_path,
            action="append",
            default=[],
            metavar="FILE",
            help=help_text,
        )
    help_text = "JSON Lines instead, a prompt or a conversation each; see docs/how-to/generate.md"
    group.add_argument("--batch", type=local_path, metavar="FILE", help=help_text)
    help_text = (
        "file for the answers to them, as JSON Lines (default: standard output); the same command "
        "goes on from what FILE.part has"
    )
    group.add_argument("--output", type=local_path, metavar="FILE", help=help_text)


def add_questions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("questions of your own")
    help_text = "JSON Lines of prompts with right answers, see docs/how-to/generate.md"
    group.add_argument("--questions", type=local_path, metavar="FILE", help=help_text)
    every = ",".join(METRICS)
    help_text = f"metrics of the answers, one or several (default: {every})"
    group.add_argument("--metrics", metavar="METRICS", help=help_text)
    help_text = "file for every answer with its scores, as JSON Lines"
    group.add_argument("--output", type=local_path, metavar="FILE", help=help_text)


def _add_report(parser: argparse.ArgumentParser) -> None:
    help_text = "folder of the run, which may still go on"
    parser.add_argument("--run", type=local_path, required=True, metavar="DIR", help=help_text)
    help_text = "HTML file to write (default: report.html in the folder of the run)"
    parser.add_argument("--output", type=local_path, metavar="FILE", help=help_text)


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "description in configs/hardware, or a file of one (default: schedule.hardware or h100)"
    )
    parser.add_argument("--hardware", type=local_path, metavar="NAME", help=help_text)
    help_text = (
        "compute of this stage of one replica takes FACTOR times as long; may be repeated for "
        "others (of one stage the last counts)"
    )
    parser.add_argument(
        "--slow",
        action="append",
        default=[],
        type=_slow_stage,
        metavar="STAGE=FACTOR",
        help=help_text,
    )
    help_text = (
        "lengths of microbatches vary: log-normal factors with this spread and mean 1; with "
        "--mixture lengths of samples (default there: 1)"
    )
    parser.add_argument("--vary", type=_spread, metavar="SIGMA", help=help_text)
    help_text = "of the lengths that vary (default: train.seed)"
    parser.add_argument("--seed", type=_count, metavar="N", help=help_text)
    help_text = (
        "instead of one step: media tokens to text tokens, e.g. 1:9,5:5,9:1; one program that "
        "follows them beside other systems, each planned once for their mean"
    )
    parser.add_argument("--mixture", type=_mixture_list, metavar="MIXTURES", help=help_text)
    help_text = (
        "instead of one step: the gain of each of MegaScale's techniques for this decoder, in the "
        "order of the paper's table and beside its figures"
    )
    parser.add_argument("--ablate", action="store_true", help=help_text)
    help_text = "with --mixture: every row brings the same, so that nothing is left to balance"
    parser.add_argument("--even", action="store_true", help=help_text)


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "instead: seconds of every module on a slice of the CPU, on all of it and beside every "
        "other, for plan --slices"
    )
    parser.add_argument("--slices", action="store_true", help=help_text)
    help_text = (
        "YAML file to write (default: hardware.yaml in the folder of the run); with --slices a "
        "JSON file (default: slices.json)"
    )
    parser.add_argument("--output", type=local_path, metavar="FILE", help=help_text)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "name in configs/hardware/, or a description's file (default: schedule.hardware or h100)"
    )
    parser.add_argument("--hardware", type=local_path, metavar="NAME|FILE", help=help_text)
    help_text = "GiB of a device that a step may take (default: what `compile` allows)"
    parser.add_argument("--memory", type=_gibibytes, metavar="GIB", help=help_text)
    help_text = "how many plans to show, each with other degrees of the decoder (default: 1)"
    parser.add_argument("--top", type=_positive_count, default=1, metavar="K", help=help_text)
    help_text = "end once no plan can be faster by more than this share (default: 0, the fastest)"
    parser.add_argument("--within", type=_share, default=0.0, metavar="SHARE", help=help_text)
    help_text = "leave out plans that would leave devices idle, even if they are the fastest"
    parser.add_argument("--all-devices", action="store_true", help=help_text)
    help_text = "choose data.budgets first, from the lengths of the source, as `budgets` does"
    parser.add_argument("--budgets", action="store_true", help=help_text)
    help_text = "the configuration to write (default: plan.yaml in the run's folder)"
    parser.add_argument("--output", type=local_path, metavar="FILE", help=help_text)
    group = parser.add_argument_group("groups of modules (docs/concepts/planned_groups.md)")
    help_text = (
        "instead: which modules share devices or slices of them, and which have devices of their "
        "own, side by side (parallel.groups)"
    )
    group.add_argument("--slices", action="store_true", help=help_text)
    help_text = (
        "costs of modules and pairs that `calibrate --slices` has measured (default: counted work "
        "on --hardware)"
    )
    group.add_argument("--calibration", type=local_path, metavar="FILE", help=help_text)
    help_text = (
        "quotas that slices may have, e.g. 0.25,0.5,0.75 (default: those that were measured; else "
        "these on GPUs, halves on CPUs, none on TPUs)"
    )
    group.add_argument("--quotas", type=_quota_list, metavar="QUOTAS", help=help_text)


def _add_compile(parser: argparse.ArgumentParser) -> None:
    help_text = "tpu:CHIP:SIZES (tpu:v5p:4x4x4) or gpu:CHIP:HOSTSxDEVICES (gpu:h100:4x8)"
    parser.add_argument("--topology", metavar="TOPOLOGY", help=help_text)
    help_text = (
        "instead: compile for the devices of this machine and write the compiled step into DIR, "
        "for `train run.compiled_steps=DIR`"
    )
    parser.add_argument("--save", type=local_path, metavar="DIR", help=help_text)


def _add_submit(parser: argparse.ArgumentParser) -> None:
    help_text = "slurm, kubernetes or another name in configs/clusters/, or a description's file"
    parser.add_argument(
        "--cluster", type=local_path, required=True, metavar="NAME|FILE", help=help_text
    )
    help_text = "nodes of the job, each with one process"
    parser.add_argument("--nodes", type=_positive_count, required=True, metavar="N", help=help_text)
    help_text = "submit the job (sbatch, kubectl apply); without it files are only written"
    parser.add_argument("--go", action="store_true", help=help_text)
    help_text = (
        "a path that the run reads, which the nodes have with all below it, whether it is here or "
        "not; may be repeated"
    )
    parser.add_argument(
        "--on-nodes", type=local_path, action="append", default=[], metavar="PATH", help=help_text
    )
    help_text = (
        "folder for the files (default: submit in the run's folder, for pods jobs/<run.name>)"
    )
    parser.add_argument("--output", type=local_path, metavar="DIR", help=help_text)


def _add_import(parser: argparse.ArgumentParser) -> None:
    help_text = "folder of a released checkpoint, or organisation/name[@revision] of a hub"
    parser.add_argument(
        "--from", dest="source", type=local_path, required=True, metavar="FOLDER", help=help_text
    )
    parser.add_argument(
        "--out",
        type=local_path,
        required=True,
        metavar="DIR",
        help="the folder of the run to make",
    )
    help_text = "an encoder from another checkpoint, with a new connector; may be repeated"
    parser.add_argument(
        "--encoder",
        action="append",
        default=[],
        type=_encoder_folder,
        metavar="NAME=FOLDER",
        help=help_text,
    )
    help_text = "type of activations, as model.dtype (default: auto)"
    parser.add_argument(
        "--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help=help_text
    )
    help_text = "devices that the configuration is for (default: 1)"
    parser.add_argument("--devices", type=_positive_count, default=1, metavar="N", help=help_text)


def _encoder_folder(text: str) -> tuple[str, str]:
    """Name and folder, for argparse."""
    name, sign, folder = text.partition("=")
    if not sign or not name.isidentifier() or not folder:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=FOLDER, e.g. vision=siglip")
    return name, local_path(folder)


def _add_export(parser: argparse.ArgumentParser) -> None:
    help_text = "folder of the run, whose newest checkpoint is exported"
    parser.add_argument("--run", type=local_path, required=True, metavar="DIR", help=help_text)
    parser.add_argument(
        "--out", type=local_path, required=True, metavar="DIR", help="the folder to make"
    )
    help_text = "only this part: decoder, an encoder, or a connector, e.g. vision.connector"
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--part", metavar="PART", help=help_text)
    help_text = "only the adapters of train.lora, in PEFT's format; else they are merged"
    group.add_argument("--adapters", action="store_true", help=help_text)
    help_text = (
        "type of the tensors (default: as the run began with, or as it computed; of --adapters "
        "float32)"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help=help_text)


def _add_train(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "go on from the checkpoint of this step, not the newest; newer ones are set aside (renamed)"
    )
    parser.add_argument("--from-step", type=_count, metavar="N", help=help_text)
    help_text = (
        "start training as a process of its own, watch it, and start it again after faults that "
        "may pass (run.restarts); see docs/how-to/failures.md"
    )
    parser.add_argument("--supervise", action="store_true", help=help_text)


def _add_processes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several processes (each is started with its own number)")
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
OPTIONS: Mapping[str, Sequence[Callable[[argparse.ArgumentParser], None]]] = {
    "train": (_add_train, _add_processes),
    "evaluate": (add_questions, add_model, _add_processes),
    "generate": (_add_generate, add_model, _add_processes),
    "verify": (_add_processes,),
    "check": (_add_processes,),
    "config": (_add_config,),
    "data": (_add_data,),
    "preview": (_add_preview,),
    "budgets": (_add_budgets,),
    "bench": (_add_processes, _add_bench),
    "trace": (_add_processes, _add_folder, _add_trace),
    "experts": (_add_folder, _add_experts),
    "report": (_add_report,),
    "simulate": (_add_folder, _add_simulate),
    "calibrate": (_add_processes, _add_calibrate),
    "plan": (_add_plan,),
    "compile": (_add_processes, _add_compile),
    "submit": (_add_submit,),
    "import": (_add_import,),
    "export": (_add_export,),
}
