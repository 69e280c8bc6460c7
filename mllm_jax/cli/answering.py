"""Functions of `generate` and `evaluate --questions`: open a model and compute its answers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.sources.formats.prompts import QuestionSet
from mllm_jax.cli.answer import CommandOutput
from mllm_jax.cli.command import CommandRequest
from mllm_jax.cli.devices import start_configured
from mllm_jax.cli.inputs import media_of
from mllm_jax.console import open_console
from mllm_jax.evaluation.evaluate import evaluate_answers
from mllm_jax.evaluation.metrics import parse_metrics
from mllm_jax.generate.answer_file import AnswerFile
from mllm_jax.generate.answers import AnswerReply, AnswerSet
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from mllm_jax.generate.opened import open_model
from mllm_jax.runtime.interrupt import set_interrupt_status
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.decoding.sampling import TokenSampling

#: Reasons for which prompts have no answer that are shown.
SHOWN = 5


def answer_prompts(request: CommandRequest) -> CommandOutput:
    """Answer `--prompt`, or the prompts of `--batch`."""
    args = request.args
    if args.batch and not args.output:
        # Answers are lines of JSON on the standard output, which nothing else goes to.
        request = replace(request, console=open_console(as_json=True))
    generator, settings = _open_generator(request)
    if args.batch is None:
        answers = generator({"prompt": args.prompt, **media_of(args)}, settings)
        text = answers.replies[0].text or ""
        return CommandOutput(answers.to_json(), lines=[text, "", str(answers.timing)])
    questions = generator.open_questions(Path(args.batch), request.path_of("media"))
    if args.output is None:
        answers = generator.answers(questions, settings).checked(args.batch)
        return CommandOutput(answers.to_json(), lines=_print_answers(request, answers))
    answers = _write_answers(request, generator, questions, settings)
    return CommandOutput(
        answers.to_json(), lines=[*_summarize_answers(answers), f"written: {args.output}"]
    )


def evaluate_questions(request: CommandRequest) -> CommandOutput:
    """Answer the questions of a file, and compute the metrics of the answers."""
    args = request.args
    metrics = parse_metrics(args.metrics)
    generator, settings = _open_generator(request)
    media = request.path_of("media")
    result = evaluate_answers(generator, Path(args.questions), metrics, settings, media)
    lines = [str(result.timing)]
    if args.output and current_peers().index == 0:
        result.write(Path(args.output))
        lines.append(f"written: {args.output}")
    return CommandOutput(result.to_json(), [(result.columns, result.rows)], lines)


def _open_generator(request: CommandRequest) -> tuple[AnswerGenerator, AnswerOptions]:
    """The model on its devices, and the settings of its answers."""
    args, print_line = request.args, request.print_line
    sampling = TokenSampling(
        **_options_set(
            temperature=args.temperature, top_k=args.top_k, top_p=args.top_p, seed=args.seed
        )
    )
    settings = AnswerOptions(
        sampling, **_options_set(new_tokens=args.max_new_tokens, rows=args.rows)
    )
    opened = open_model(
        args.run, args.release, args.overrides, one_device=bool(args.alone), notify=print_line
    )
    start_configured(args, opened.config, keep_compiled=True)
    if opened.stages > 1:
        print_line(
            f"answers are written without stages: the plan's {opened.stages} are part of fsdp"
        )
    return AnswerGenerator(opened, notify=print_line, **_options_set(gather=args.gather)), settings


def _options_set(**values: Any) -> dict[str, Any]:
    """The options that were given; functions have defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


def _write_answers(
    request: CommandRequest,
    generator: AnswerGenerator,
    questions: QuestionSet,
    settings: AnswerOptions,
) -> AnswerSet:
    """Write the answers to the prompts of `--batch`, batch by batch, and at the end in order.

    Raises:
        DataError: none of the prompts can be used, or answers so far are of something else.
    """
    args = request.args
    fingerprint = f"{questions.fingerprint}".encode()
    conditions = {
        "model": generator.opened.named,
        "overrides": list(args.overrides),
        "sampling": str(settings.sampling),
        "new_tokens": settings.new_tokens,
        "prompts": hashlib.sha256(fingerprint).hexdigest(),
    }
    file, is_writer = AnswerFile(Path(args.output), conditions), current_peers().index == 0
    stored = file.read_replies() if is_writer else {}
    indices = current_peers().gather_values("answers that are kept", sorted(stored))[0]
    if stored:
        request.print_line(f"going on with {len(stored)} answers of {file.part}")
    set_interrupt_status(
        f"; answers so far are in {file.part}, and the same command goes on from them"
    )
    # Other processes write none, and need not know what the answers are.
    replies = {
        index: stored.get(index) or AnswerReply(questions.name(index), "") for index in indices
    }
    add = file.add if is_writer else _ignore_replies
    answers = generator.answers(questions, settings, known_replies=replies, on_answered=add)
    answers.checked(args.batch)
    if is_writer:
        file.finish(answers.replies)
    return answers


def _ignore_replies(replies: Mapping[int, AnswerReply]) -> None:
    """Store no replies."""
    del replies


def _print_answers(request: CommandRequest, answers: AnswerSet) -> list[str]:
    """Print answers as lines of JSON, and notes to the console, which programs do not read."""
    for line in [] if request.args.json else _summarize_answers(answers):
        request.console.print(line, markup=False, soft_wrap=True)
    return [json.dumps(reply.to_json(), ensure_ascii=False) for reply in answers.replies]


def _summarize_answers(answers: AnswerSet) -> list[str]:
    """Summarize the speed of the answers, and why some prompts have none."""
    reasons = Counter(reply.error for reply in answers.replies if reply.error is not None)
    lines = [f"{count} of the prompts have no answer: {why}" for why, count in reasons.items()]
    return [str(answers.timing), *lines[:SHOWN], *(["..."] if lines[SHOWN:] else [])]
