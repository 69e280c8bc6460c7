"""What checksums cost: saving and restoring with them, beside the same with plain Orbax."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax
import orbax.checkpoint as ocp

from data.planning.stream import LoaderState
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.guard import not_finite
from mllm_jax.train.state.checkpoint import Checkpoints
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.saved import check_whole

#: Turns, after one that warms up.
TURNS = 9
Tell = Callable[[str], None]


def bench_checkpoint(config: ExperimentConfig, tell: Tell = lambda text: None) -> dict[str, float]:
    """Save and restore the configured state, in turns with and without checksums.

    Files are in the host's memory when they are read, which makes the share of the checksums the
    largest that it can be.

    Returns:
        `bytes` of the state; medians in seconds: `blocking` of a save, until training goes on, and
        `saving` until it is whole, with checksums and `plain` without; `finite`, to see that a
        state holds finite numbers alone before it is saved; `restoring`, and `verifying`, a part of
        it. `blocking_share`: by how much checksums make the blocking part longer;
        `verifying_share`: of restoring.
    """
    experiment = Experiment.build(config)
    state = jax.block_until_ready(experiment.step.init(jax.random.key(config.train.seed)))
    found: dict[str, list[float]] = {}
    root = Path(tempfile.mkdtemp(dir=_made(config.run.path))).absolute()
    try:
        for turn in range(TURNS + 1):
            tell(f"turn {turn} of {TURNS}")
            seconds = _turn(experiment, state, root / str(turn), plain_first=turn % 2 == 1)
            for name, value in seconds.items():
                found.setdefault(name, []).extend([value] * (turn > 0))
            shutil.rmtree(root / str(turn))
    finally:
        shutil.rmtree(root)
    figures = {name: median(values) for name, values in found.items()}
    return {
        "bytes": float(experiment.state_bytes()),
        **figures,
        "blocking_share": figures["blocking"] / figures["plain_blocking"] - 1,
        "verifying_share": figures["verifying"] / figures["restoring"],
    }


def _turn(
    experiment: Experiment, state: Any, folder: Path, *, plain_first: bool
) -> dict[str, float]:
    """Seconds of each part, once."""
    config = experiment.config
    summed = Checkpoints(folder / "summed", config.checkpoint, experiment.step.regrouping)
    progress = Progress(1, LoaderState(0)).to_json()
    described = config.model_dump(mode="json")
    plain = ocp.CheckpointManager(folder / "plain", item_names=("state", "progress", "config"))
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(state),
        progress=ocp.args.JsonSave(progress),
        config=ocp.args.JsonSave(described),
    )
    savers: dict[str, tuple[Callable[[], Any], Callable[[], None]]] = {
        "": (lambda: summed.save(1, state, progress, described), summed.wait),
        "plain_": (lambda: plain.save(1, args=items), plain.wait_until_finished),
    }
    seconds = {"finite": _seconds(lambda: not_finite(state))}
    for name, (save, wait) in sorted(savers.items(), reverse=plain_first):
        seconds[f"{name}blocking"] = _seconds(save)
        seconds[f"{name}saving"] = seconds[f"{name}blocking"] + _seconds(wait)
    abstract = experiment.step.abstract
    seconds["verifying"] = _seconds(lambda: check_whole(folder / "summed" / "1"))
    seconds["restoring"] = _seconds(lambda: _restored(summed, abstract))
    summed.close()
    plain.close()
    return seconds


def _restored(checkpoints: Checkpoints, abstract: Any) -> None:
    found = checkpoints.restore(abstract)
    assert found is not None
    jax.block_until_ready(found.state)


def _seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
