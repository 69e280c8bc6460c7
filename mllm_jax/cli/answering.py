"""What `generate` and `evaluate --questions` do: a model is opened, and answers."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.sources.formats.prompts import QuestionSet
from mllm_jax.cli.answer import Answer
from mllm_jax.cli.inputs import media_of
from mllm_jax.cli.shared import begin
from mllm_jax.console import open_console
from mllm_jax.evaluation.evaluate import evaluate
from mllm_jax.evaluation.metrics import named_metrics
from mllm_jax.generate.answers import Answers, Reply
from mllm_jax.generate.generator import Generator, Wanted
from mllm_jax.generate.kept import AnswerFile
from mllm_jax.generate.opened import open_model
from mllm_jax.runtime.interrupt import stands
from mllm_jax.runtime.part import peers
from mllm_jax.train.decoding.sampling import Sampling

if TYPE_CHECKING:  # which nothing here needs
    from rich.console import Console

#: Reasons for which prompts have no answer that are shown.
SHOWN = 5


def answer(args: argparse.Namespace, console: Console) -> Answer:
    """The answers to `--prompt`, or to the prompts of `--batch`."""
    # Answers may be lines of JSON on the standard output, which nothing else goes to.
    told = open_console(as_json=True) if args.batch and not args.output else console
    generator, wanted = _opened(args, told)
    if args.batch is None:
        answers = generator({"prompt": args.prompt, **media_of(args)}, wanted)
        text = answers.replies[0].text or ""
        return Answer(answers.to_json(), lines=[text, "", str(answers.timing)])
    questions = generator.questions(Path(args.batch), _folder(args))
    if args.output is None:
        answers = generator.answers(questions, wanted).checked(args.batch)
        return Answer(answers.to_json(), lines=_lines(args, answers, told))
    answers = _into_file(args, generator, questions, wanted, told)
    return Answer(answers.to_json(), lines=[*_end(answers), f"written: {args.output}"])


def questions(args: argparse.Namespace, console: Console) -> Answer:
    """The metrics of answers to the questions of a file."""
    metrics = named_metrics(args.metrics)
    generator, wanted = _opened(args, console)
    result = evaluate(generator, Path(args.questions), metrics, wanted, _folder(args))
    lines = [str(result.timing)]
    if args.output and peers().index == 0:
        result.write(Path(args.output))
        lines.append(f"written: {args.output}")
    return Answer(result.to_json(), [(result.columns, result.rows)], lines)


def _opened(args: argparse.Namespace, console: Console) -> tuple[Generator, Wanted]:
    """The model on its devices, and what answers are wanted."""
    drawn = _given(temperature=args.temperature, top_k=args.top_k, top_p=args.top_p, seed=args.seed)
    wanted = Wanted(Sampling(**drawn), **_given(new_tokens=args.max_new_tokens, rows=args.rows))

    def tell(line: str) -> None:
        if peers().index == 0:
            console.print(line, markup=False, soft_wrap=True)

    opened = open_model(args.run, args.release, args.overrides, alone=bool(args.alone), tell=tell)
    begin(args, opened.config, keep=True)
    if opened.stages > 1:
        tell(f"answers are written without stages: the plan's {opened.stages} are part of fsdp")
    return Generator(opened, tell=tell, **_given(gather=args.gather)), wanted


def _given(**values: Any) -> dict[str, Any]:
    """The values of options that were given; others have the defaults of whoever takes them."""
    return {name: value for name, value in values.items() if value is not None}


def _folder(args: argparse.Namespace) -> Path | None:
    return None if args.media is None else Path(args.media)


def _into_file(
    args: argparse.Namespace,
    generator: Generator,
    questions: QuestionSet,
    wanted: Wanted,
    console: Console,
) -> Answers:
    """The answers to the prompts of `--batch`, written batch by batch, and at the end in order.

    Raises:
        DataError: none of the prompts can be used, or answers so far are of something else.
    """
    told = f"{questions.fingerprint}".encode()
    of = {
        "model": generator.opened.named,
        "overrides": list(args.overrides),
        "sampling": str(wanted.sampling),
        "new_tokens": wanted.new_tokens,
        "prompts": hashlib.sha256(told).hexdigest(),
    }
    file, first = AnswerFile(Path(args.output), of), peers().index == 0
    own = file.kept() if first else {}
    there = peers().gather("answers that are kept", sorted(own))[0]
    if first and own:
        told_of = f"going on with {len(own)} answers of {file.part}"
        console.print(told_of, markup=False, soft_wrap=True)
    stands(f"; answers so far are in {file.part}, and the same command goes on from them")
    # Other processes write none, and need not know what the answers are.
    kept = {index: own.get(index) or Reply(questions.name(index), "") for index in there}
    keep = file.add if first else _nothing
    answers = generator.answers(questions, wanted, kept=kept, answered=keep)
    answers.checked(args.batch)
    if first:
        file.finish(answers.replies)
    return answers


def _nothing(replies: Mapping[int, Reply]) -> None:
    """Keep no replies."""


def _lines(args: argparse.Namespace, answers: Answers, console: Console) -> list[str]:
    """Lines of JSON; what else there is to say goes to the console, which programs do not read."""
    for line in [] if args.json else _end(answers):
        console.print(line, markup=False, soft_wrap=True)
    return [json.dumps(own.to_json(), ensure_ascii=False) for own in answers.replies]


def _end(answers: Answers) -> list[str]:
    """How fast the answers were, and why some prompts have none."""
    reasons = Counter(own.error for own in answers.replies if own.error is not None)
    bad = [f"{count} of the prompts have no answer: {why}" for why, count in reasons.items()]
    return [str(answers.timing), *bad[:SHOWN], *(["..."] if bad[SHOWN:] else [])]
