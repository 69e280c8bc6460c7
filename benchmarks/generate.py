"""The same answers here and by transformers: tokens per second of prompts and of answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import QUIET, check_installed, write_tensors
from benchmarks.turns import TurnWorker
from data.batch import PackedBatch
from data.loading.evaluation import PromptSlot
from data.rows.tokens import TokenSpec
from mllm_jax.check.verify import initial_parameters
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.families.releases import format_named
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.train.decoding.columns import AnswerColumns
from mllm_jax.train.decoding.programs import DecodingPrograms, WrittenAnswers
from mllm_jax.train.decoding.sampling import TokenSampling
from mllm_jax.train.experiment import Experiment

PrintLine = Callable[[str], None]
Tokens = NDArray[np.int32]

#: Tokens of a prompt, and of an answer, which nothing ends sooner.
PROMPT, ANSWER = 128, 128
#: Prompts that are answered together.
BATCHES = (1, 8)
#: Timed turns of every way, one after the other; their median counts.
TURNS = 5
PEER = "benchmarks.generating_peer"


def bench_generate(config: ExperimentConfig, print_line: PrintLine) -> list[dict[str, Any]]:
    """Answer the same random prompts greedily here and with transformers, in turns.

    Both have the same random parameters, float32, a cache, and all cores. Compiling and a first
    turn are left out. transformers' `generate` gets prompts as tokens, and so do our
    `DecodingPrograms`; a time is that of the complete call, from tokens to tokens. A second call
    for one token gives the time of transformers for the prompts.

    Returns:
        By number of prompts: tokens of answers per second of both, `speedup`, the same of the
        tokens after the first ones alone (`decode_...`), seconds for the prompts, and the share
        of answers that are the same to the last token.

    Raises:
        ConfigError: torch or transformers is missing, or the model has encoders.
    """
    check_setup(config)
    with TemporaryDirectory(prefix="mllm_jax-") as name:
        folder = Path(name)
        params = initial_parameters(config.model, config.train.seed)
        write_release(folder, config, params)
        ours = OurDecoding(config, params)
        with TurnWorker(PEER, name, environment=QUIET) as peer:
            return [compare_answers(ours, peer, batch, print_line) for batch in BATCHES]


def check_setup(config: ExperimentConfig) -> None:
    """Check that both sides can run, and do the same.

    Raises:
        ConfigError: the message lists what the comparison does not allow.
    """
    problems = check_installed()
    if config.model.others:
        problems.append(f"the encoders of the model: {', '.join(config.model.others)}; valid: none")
    if config.model.dtype != "float32":
        problems.append(f"model.dtype: {config.model.dtype}; valid: float32")
    if problems:
        raise ConfigError("bench generate", problems)


def write_release(folder: Path, config: ExperimentConfig, params: Any) -> None:
    """The parameters as the decoder's family releases them."""
    composition = ReleasedModel(config.model.backbone_config)
    write_tensors(folder, format_named(config.model.backbone_config.family), composition, params)


class OurDecoding:
    """Our way.

    Args:
        config: configuration of the experiment.
        params: parameters of the model, as numpy arrays.
    """

    def __init__(self, config: ExperimentConfig, params: Any) -> None:
        step, self._backbone = Experiment.build(config).forward_step, config.model.backbone
        self._decoding = DecodingPrograms(step, ())
        shardings = jax.tree.map(lambda leaf: leaf.sharding, step.abstract_state["params"])
        stored = jax.device_put(step.form.to_stored(params), shardings)
        self._params = self._decoding.prepare_parameters(stored)

    def generate_answers(self, prompts: Tokens) -> tuple[WrittenAnswers, float]:
        """Answers to prompts `[rows, tokens]`, and seconds of the call without compiling."""
        began = time.perf_counter()
        batch, slots = _pack_prompts(prompts, self._backbone)
        limits = [ANSWER] * len(slots)
        columns = AnswerColumns.from_prompts(
            slots, range(len(slots)), self._decoding.columns_unit, limits
        )
        written = self._decoding.write_answers(
            self._params, batch, columns, ANSWER, TokenSampling()
        )
        return written, time.perf_counter() - began - written.compile_seconds


def _pack_prompts(prompts: Tokens, backbone: str) -> tuple[PackedBatch, list[PromptSlot]]:
    """Prompts in a row each, and their places."""
    count, length = prompts.shape
    spec = TokenSpec(backbone)
    rows = spec.empty_rows((count, length), [])
    rows.inputs[:] = prompts
    for row in range(count):
        spec.write(rows, row, 0, 1, length)
    return PackedBatch({backbone: rows}), [
        PromptSlot(row, row, 0, length, 1, ()) for row in range(count)
    ]


def compare_answers(
    ours: OurDecoding, peer: TurnWorker, batch: int, print_line: PrintLine
) -> dict[str, Any]:
    """The row of a number of prompts."""
    rng = np.random.default_rng(batch)
    prompts = rng.integers(0, 256, (batch, PROMPT)).astype(np.int32)
    asked = {"prompts": prompts.tolist(), "tokens": ANSWER}
    turns: list[dict[str, float]] = []
    for turn in range(1 + TURNS):
        written, seconds = ours.generate_answers(prompts)
        theirs = peer.ask("generate", **asked)
        first = peer.ask("generate", **asked | {"tokens": 1})
        if turn:
            turns.append(_turn_seconds(written, seconds, theirs, first))
            print_line(f"{batch} prompts, turn {turn} of {TURNS}: {json.dumps(turns[-1])}")
    pairs = zip(written.answers, theirs["answers"], strict=True)
    same = sum(answer == other for answer, other in pairs) / batch
    return make_report(batch, turns) | {"same": same}


def _turn_seconds(
    written: WrittenAnswers, seconds: float, theirs: Mapping[str, Any], first: Mapping[str, Any]
) -> dict[str, float]:
    """Seconds of a turn."""
    return {
        "ours": seconds,
        "ours_prefill": written.prefill_seconds,
        "ours_decode": written.decode_seconds,
        "transformers": theirs["seconds"],
        "transformers_prefill": first["seconds"],
    }


def make_report(batch: int, turns: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Rates of the medians of turns."""
    seconds = {name: median(turn[name] for turn in turns) for name in turns[0]}
    decode = seconds["transformers"] - seconds["transformers_prefill"]
    total, decoded = batch * ANSWER, batch * (ANSWER - 1)
    return {
        "prompts": batch,
        "tokens_per_second": total / seconds["ours"],
        "transformers_tokens_per_second": total / seconds["transformers"],
        "speedup": seconds["transformers"] / seconds["ours"],
        "decode_tokens_per_second": decoded / seconds["ours_decode"],
        "transformers_decode_tokens_per_second": decoded / decode,
        "decode_speedup": decode / seconds["ours_decode"],
        "prefill_seconds": seconds["ours_prefill"],
        "transformers_prefill_seconds": seconds["transformers_prefill"],
    }
