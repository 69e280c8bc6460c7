"""`data.budgets: auto`: chosen from the lengths, told, and kept by a run that has begun."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import launch
from data.sample import DataError
from mllm_jax.config.inputs import TOKENS
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config, to_yaml
from mllm_jax.config.sections import ConfigError as Refused
from mllm_jax.plan import settled as module
from mllm_jax.plan.budgets import SAMPLES, usual_samples
from mllm_jax.plan.settled import settle_budgets
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.records import signed_text
from mllm_jax.train.state.checksums import write_checksums
from tests.configs import values


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a small demo set, whose budgets are to be chosen."""
    folder = tmp_path_factory.mktemp("settled")
    changes = {
        "run__directory": str(folder / "runs"),
        "data__source": {"kind": "demo", "train": 64, "heldout": 8, "clips": 8, "variants": 1},
        "data__cache": str(folder / "cache"),
        "data__lookahead": 32,
        "data__budgets": "auto",
    }
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(values(**changes)))
    return path


@pytest.fixture
def begun(file: Path, tmp_path: Path) -> Callable[..., ExperimentConfig]:
    """Makes a configuration whose run has begun with certain budgets."""

    def make(budgets: Any, *overrides: str) -> ExperimentConfig:
        folder = tmp_path / "runs" / "test"
        folder.mkdir(parents=True)
        own = [f"run.directory={tmp_path / 'runs'}", *overrides]
        record = yaml.safe_load(to_yaml(load_config(file, own)))
        record["data"]["budgets"] = budgets
        (folder / "resolved.yaml").write_text(yaml.safe_dump(record))
        (folder / "metrics.jsonl").write_text('{"step": 1}\n')
        return load_config(file, own)

    return make


def test_budgets_are_those_that_the_command_suggests(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch.main(["budgets", "--config", str(file), "--json"]) == ExitCode.OK
    suggested = json.loads(capsys.readouterr().out)["suggested"]
    told: list[str] = []
    config = settle_budgets(load_config(file), told.append)
    assert config.data.budgets == suggested["budgets"]
    assert settle_budgets(config) is config
    (line,) = told
    assert str(suggested["budgets"]["tokens"]) in line
    assert "padding tokens" in line
    assert 0.8 * SAMPLES < suggested["samples"] / config.data.rows < 1.3 * SAMPLES


def test_auto_is_written_as_it_was_read(file: Path) -> None:
    config = load_config(file)
    assert config.data.auto_budgets
    assert yaml.safe_load(to_yaml(config))["data"]["budgets"] == "auto"
    assert settle_budgets(config).model_dump(mode="json")["data"]["budgets"]["tokens"]


def test_a_run_that_has_begun_keeps_its_budgets(begun: Callable[..., ExperimentConfig]) -> None:
    kept = {"tokens": 96, "segments": 8, "vision": 64, "audio": 640}
    told: list[str] = []
    assert settle_budgets(begun(kept), told.append).data.budgets == kept
    assert "resolved.yaml has them" in told[0]


def test_a_run_that_has_taken_no_step_gets_new_ones(
    begun: Callable[..., ExperimentConfig],
) -> None:
    config = begun({"tokens": 96, "segments": 8, "vision": 64, "audio": 640})
    (config.run.path / "metrics.jsonl").unlink()
    assert settle_budgets(config).data.budgets["tokens"] != 96


def test_kept_budgets_that_fit_no_more_are_refused(
    begun: Callable[..., ExperimentConfig],
) -> None:
    config = begun({"tokens": 97, "segments": 8, "vision": 64, "audio": 640})
    with pytest.raises(ConfigError, match=r"resolved.yaml.*\n.*data.budgets.tokens"):
        settle_budgets(config)


KEPT = {"tokens": 96, "segments": 8, "vision": 64, "audio": 640}


def damage(path: Path) -> None:
    """Flip a bit of the budgets in a configuration."""
    text = path.read_text()
    if path.suffix == ".yaml":
        text = signed_text(text)
    path.write_text(re.sub(r"(tokens\"?: )96", r"\g<1>98", text))


def checkpoint(run: Path, step: int, budgets: Any = KEPT) -> Path:
    """The configuration of a checkpoint, with checksums."""
    folder = run / "checkpoints" / str(step) / "config"
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"data": {"budgets": budgets}}))
    write_checksums(folder)
    return folder / "metadata"


@pytest.mark.parametrize("record", ["auto", {"tokens": "many"}, None])
def test_a_record_that_does_not_say_them_is_refused(
    begun: Callable[..., ExperimentConfig], record: Any
) -> None:
    with pytest.raises(DataError, match=r"does not say them .* has no checkpoint; .* run.name"):
        settle_budgets(begun(record))


def test_a_damaged_record_without_a_checkpoint_is_refused(
    begun: Callable[..., ExperimentConfig],
) -> None:
    config = begun(KEPT)
    damage(config.run.path / "resolved.yaml")
    with pytest.raises(DataError, match=r"last line, does not hold.*checkpoints has no checkpoint"):
        settle_budgets(config)


@pytest.mark.parametrize("lost", ["damaged", "cut", "empty", "none", "other"])
def test_budgets_of_a_damaged_record_are_those_of_the_newest_checkpoint(
    begun: Callable[..., ExperimentConfig], lost: str
) -> None:
    config = begun(KEPT)
    record = config.run.path / "resolved.yaml"
    checkpoint(config.run.path, 1, KEPT | {"tokens": 112})
    newest = checkpoint(config.run.path, 20, KEPT | {"tokens": 80})
    if lost == "damaged":
        damage(record)
    elif lost == "none":
        record.unlink()
    else:
        record.write_text({"cut": record.read_text()[:40], "empty": "", "other": "a: 1"}[lost])
    told: list[str] = []
    assert settle_budgets(config, told.append).data.budgets["tokens"] == 80
    (line,) = told
    assert f"as {newest} has them; {record} " in line


@pytest.mark.parametrize("end", ["change", "checksums", "gone", "text"])
def test_a_damaged_checkpoint_is_passed_over_and_named(
    begun: Callable[..., ExperimentConfig], end: str
) -> None:
    config = begun(KEPT)
    damage(config.run.path / "resolved.yaml")
    older, newest = checkpoint(config.run.path, 3), checkpoint(config.run.path, 20)
    if end == "change":
        damage(newest)
    elif end == "checksums":
        newest.with_name("checksums.json").write_text("{}")
    elif end == "gone":
        newest.unlink()
    else:
        newest.write_text("text")
    told: list[str] = []
    assert settle_budgets(config, told.append).data.budgets == KEPT
    assert f"as {older} has them" in told[0]
    assert f"{newest} " in told[0].partition("resolved.yaml ")[2]
    older.write_text("[]")
    with pytest.raises(DataError) as caught:
        settle_budgets(config)
    for path in (config.run.path / "resolved.yaml", newest, older):
        assert f"{path} " in str(caught.value)


def test_a_checkpoint_of_an_earlier_version_has_no_checksums(
    begun: Callable[..., ExperimentConfig],
) -> None:
    config = begun(None)
    checkpoint(config.run.path, 20).with_name("checksums.json").unlink()
    assert settle_budgets(config).data.budgets == KEPT


def test_checkpoints_that_are_set_aside_say_nothing(
    begun: Callable[..., ExperimentConfig],
) -> None:
    config = begun(None)
    checkpoint(config.run.path, 20).parents[1].rename(config.run.path / "checkpoints/damaged-20-1")
    with pytest.raises(DataError, match="checkpoints has no checkpoint"):
        settle_budgets(config)
    (config.run.path / "resolved.yaml").unlink()
    assert settle_budgets(config).data.budgets["tokens"] != 96


class Peers:
    """Two processes, of which this one is `index`; process 0 has found `first`."""

    count = 2

    def __init__(self, index: int, first: Any = None) -> None:
        self.index, self.first = index, first

    def note_activity(self, *told: Any, **how: Any) -> None:
        """Tell nobody."""

    def gather_values(self, what: str, own: Any) -> list[Any]:
        """What both processes have."""
        return [own, own] if self.index == 0 else [self.first, own]


def test_processes_take_what_the_first_one_has_chosen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = {"tokens": 96, "segments": 8, "vision": 64, "audio": 640}
    first = {"budgets": budgets, "origin": "elsewhere"}
    monkeypatch.setattr(module, "current_peers", lambda: Peers(1, first))
    told: list[str] = []
    assert settle_budgets(load_config(file), told.append).data.budgets == budgets
    assert told == []
    monkeypatch.setattr(module, "current_peers", lambda: Peers(1, {"error": "no such file"}))
    with pytest.raises(DataError, match="no such file"):
        settle_budgets(load_config(file))


@pytest.mark.parametrize(
    "command", [["simulate"], ["plan"], ["preview", "--samples", "1"], ["config"]]
)
def test_commands_take_them(
    file: Path, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = {"preview": "--out", "config": ""}.get(command[0], "--output")
    where = [out, str(tmp_path / "made")] if out else []
    assert launch.main([*command, "--config", str(file), *where]) == ExitCode.OK
    assert ("data.budgets auto: {tokens" in capsys.readouterr().out) == (command[0] != "config")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("data.lengths=on_read", "no lengths to choose by"),
        ("data.budgets={}", "lacks segments, tokens"),
        ("data.budgets=many", "nor auto"),
        (
            "model.encoders.vision.buckets={short: auto, long: null}",
            "buckets short, long are cut by seconds",
        ),
    ],
)
def test_what_budgets_cannot_be_chosen_for_is_refused(file: Path, override: str, told: str) -> None:
    more = ["parallel.encoders={short: {}, long: {}, audio: {}}", "parallel.devices=1"]
    own = [*more, "parallel.decoder={}", "schedule.hardware=h100"] if "buckets" in override else []
    with pytest.raises(Refused, match=told):
        load_config(file, [override, *own])


def test_other_mistakes_are_told_before_data_are_read(file: Path) -> None:
    with pytest.raises(Refused, match="covers 6 devices"):
        load_config(
            file, ["parallel.decoder.tensor=3", "data.source={kind: llava, path: nowhere.json}"]
        )


def test_a_row_holds_the_longest_sample_without_much_padding() -> None:
    even = np.full((100, 2), (200, 64))
    assert usual_samples(even) == SAMPLES
    # One text is as long as twenty, so that budgets of images are for twenty as well.
    assert usual_samples(np.vstack([even, [(4000, 0)]])) == pytest.approx(17, abs=1)
    # Long samples share no row of more tokens than the longest has.
    assert usual_samples(np.full((10, 2), (3 * TOKENS, 64))) == 1
    # An encoder that no sample uses decides nothing.
    assert usual_samples(np.full((10, 2), (200, 0))) == SAMPLES
