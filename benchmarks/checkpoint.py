"""Cost of checksums: saving and restoring with them, compared with plain Orbax.

A turn saves with checksums, twice without and again with them, every other turn the other way
round, and gives one ratio: neither what slows the machine for longer than a turn nor what a save
leaves for the next one favours any. Ratios spread by a tenth and more, so that a share comes
with the interval that its median lies in.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import orbax.checkpoint as ocp

from data.planning.stream import LoaderState
from mllm_jax.calibrate.timing import median_between
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.components.guard import not_finite
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.saved import verify_checkpoint

#: Turns, after one that warms up: enough to measure a twentieth of the blocking part.
TURNS = 40
#: Ratios to report: name, both measurements, and the number subtracted from their ratio.
SHARES = (
    ("blocking", "blocking", "plain_blocking", 1.0),
    ("finite", "finite", "blocking", 0.0),
    ("verifying", "verifying", "restoring", 0.0),
)
PrintLine = Callable[[str], None]


def bench_checkpoint(
    config: ExperimentConfig, print_line: PrintLine = lambda text: None
) -> dict[str, float]:
    """Save and restore the configured state, in turns with and without checksums.

    Files are in the host's memory when they are read, which makes the share of the checksums the
    largest that it can be.

    Returns:
        `bytes` of the state; medians in seconds: `blocking` of a save, until training goes on, and
        `saving` until it is whole, with checksums and `plain` without; `finite`, to see that a
        state holds finite numbers alone, which a run waits for before it saves; `restoring`, and
        `verifying`, a part of it. Medians of the ratios within a turn: `blocking_share`, by how
        much checksums make the blocking part longer; `finite_share`, how long the look at the
        numbers is compared with the blocking part; `verifying_share` of restoring. `low` and `high`
        are the ends of the interval in which each of these medians lies, see `median_between`.
    """
    experiment = Experiment.build(config)
    state = jax.block_until_ready(experiment.step.init(jax.random.key(config.train.seed)))
    turns: list[dict[str, float]] = []
    root = Path(tempfile.mkdtemp(dir=_make_folder(config.run.path))).absolute()
    try:
        for turn in range(TURNS + 1):
            print_line(f"turn {turn} of {TURNS}")
            turns.append(_time_turn(experiment, state, root / str(turn), plain_first=turn % 2 == 1))
            shutil.rmtree(root / str(turn))
    finally:
        shutil.rmtree(root)
    return {"bytes": float(experiment.state_bytes()), **_median_figures(turns[1:])}


def _median_figures(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Medians of the seconds and of the ratios within a turn."""
    figures = {name: median(turn[name] for turn in turns) for name in turns[0]}
    for name, part, total, less in SHARES:
        shares = [turn[part] / turn[total] - less for turn in turns]
        low, high = median_between(shares)
        share = f"{name}_share"
        figures |= {share: median(shares), f"{share}_low": low, f"{share}_high": high}
    return figures


def _time_turn(
    experiment: Experiment, state: Any, folder: Path, *, plain_first: bool
) -> dict[str, float]:
    """Seconds of each part; for saves the mean of two."""
    config = experiment.config
    summed = CheckpointManager(
        folder / "summed", config.checkpoint, experiment.step.form.regrouping
    )
    described = config.model_dump(mode="json")
    plain = ocp.CheckpointManager(folder / "plain", item_names=("state", "progress", "config"))
    savers: dict[str, tuple[Callable[[int], Any], Callable[[], None]]] = {
        "": (
            lambda step: summed.save_state(step, state, _progress_at(step), described),
            summed.wait_for_saves,
        ),
        "plain_": (
            lambda step: plain.save(step, args=_orbax_contents(step, state, described)),
            plain.wait_until_finished,
        ),
    }
    once, other = sorted(savers, reverse=plain_first)
    seconds: defaultdict[str, float] = defaultdict(float)
    for step, name in ((1, once), (1, other), (2, other), (2, once)):
        save, wait = savers[name]
        blocking = _time_action(partial(save, step))
        seconds[f"{name}blocking"] += blocking / 2
        seconds[f"{name}saving"] += (blocking + _time_action(wait)) / 2
        seconds["finite"] += _time_action(lambda: not_finite(state)) / 4
    seconds["verifying"] = _time_action(lambda: verify_checkpoint(folder / "summed" / "2"))
    seconds["restoring"] = _time_action(
        lambda: _restore_state(summed, experiment.step.abstract_state)
    )
    summed.close()
    plain.close()
    return seconds


def _progress_at(step: int) -> dict[str, Any]:
    return Progress(step, LoaderState(0)).to_json()


def _orbax_contents(step: int, state: Any, config: dict[str, Any]) -> Any:
    """Contents of a checkpoint, for Orbax' own handlers."""
    save = ocp.args.JsonSave
    return ocp.args.Composite(
        state=ocp.args.StandardSave(state), progress=save(_progress_at(step)), config=save(config)
    )


def _restore_state(checkpoints: CheckpointManager, abstract: Any) -> None:
    restored = checkpoints.restore_state(abstract)
    assert restored is not None
    assert restored.step == 2
    jax.block_until_ready(restored.state)


def _time_action(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
