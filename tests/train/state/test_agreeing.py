"""Processes verify a checkpoint together, and agree before all that they wait for others in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.train.state import checkpoint
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.regroup import LayerRegrouping
from mllm_jax.train.state.saved import CheckpointDamageError, CheckpointError
from tests.train.state.test_damage import (
    KEEP,
    abstract,
    as_saved,
    files,
    saved,  # noqa: F401 - a fixture
    state,
)

WHOLE, READ, TAKEN = (
    "a checkpoint is whole",
    "the arrays of a checkpoint are read",
    "a checkpoint is read",
)
#: What a process is told of a step that another one refuses, by the question.
REASONS = {
    WHOLE: "another process has found damage",
    READ: "another process cannot read its arrays",
    TAKEN: "cannot be read by another process",
}


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:  # noqa: F811
    return Path(shutil.copytree(saved, tmp_path / "checkpoints"))


def restored(folder: Path) -> Any:
    checkpoints = CheckpointManager(folder, KEEP, LayerRegrouping(1, None))
    try:
        return checkpoints.restore_state(abstract(state(0)))
    finally:
        checkpoints.close()


@pytest.mark.parametrize("question", REASONS)
def test_what_another_process_refuses_is_refused_by_all(copy, monkeypatch, caplog, question):
    """Here all is well, and the process goes no further than the agreement."""
    asked: list[tuple[str, bool]] = []

    def everywhere(what: str, well: bool) -> bool:
        asked.append((what, well))
        return well and (what, len([one for one in asked if one[0] == what])) != (question, 1)

    monkeypatch.setattr(checkpoint, "true_on_all_processes", everywhere)
    assert as_saved(restored(copy)) == 1
    order = [WHOLE, READ, TAKEN]
    first = order[: order.index(question) + 1]
    refused = [] if question == TAKEN else [(TAKEN, False)]
    # The vote on what was refused is the last of step 2; step 1 then passes all three.
    assert asked == [*((one, True) for one in first), *refused, *((one, True) for one in order)]
    assert f"{REASONS[question]}; trying " in caplog.text


@pytest.mark.parametrize("question", [WHOLE, READ])
def test_what_is_damaged_here_is_told_the_others_before_they_wait(copy, monkeypatch, question):
    asked: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        checkpoint, "true_on_all_processes", lambda *own: asked.append(own) or own[1]
    )
    for path in files(copy):
        if "/d/" in str(path):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
    if question == READ:  # which checksums do not tell
        for path in [*copy.rglob("checksums*.json")]:
            path.unlink()
    with pytest.raises(CheckpointError, match="no readable checkpoint"):
        restored(copy)
    before = [(WHOLE, True)] * (question == READ)
    assert asked == 2 * [*before, (question, False), (TAKEN, False)]


@pytest.mark.parametrize(("process", "count"), [(0, 1), (0, 3), (2, 3)])
def test_each_process_verifies_its_share(copy, monkeypatch, process, count):
    shares = []

    def look(folder: Path, share: tuple[int, int]) -> None:
        shares.append((folder.name, share))
        raise CheckpointDamageError("so that nothing is read")

    checkpoints = CheckpointManager(copy, KEEP, LayerRegrouping(1, None))
    monkeypatch.setattr(checkpoint, "verify_checkpoint", look)
    monkeypatch.setattr(checkpoint.jax, "process_index", lambda: process)
    monkeypatch.setattr(checkpoint.jax, "process_count", lambda: count)
    with pytest.raises(CheckpointError, match="so that nothing is read"):
        checkpoints.restore_state(abstract(state(0)))
    monkeypatch.undo()
    checkpoints.close()
    assert shares == [("2", (process, count)), ("1", (process, count))]
