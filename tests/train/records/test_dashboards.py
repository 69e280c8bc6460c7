"""Dashboards: training waits for none, a resumed run goes on, and no credential is told."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from mllm_jax.config.load import ConfigError
from mllm_jax.config.run import MlflowConfig, RunConfig, WandbConfig
from mllm_jax.runtime.folder import RunError, ensure_identity
from mllm_jax.train.records.dashboards import dashboard
from mllm_jax.train.records.dashboards.dashboard import DashboardSink, RunDescription
from mllm_jax.train.records.dashboards.open import check_loggers, open_dashboards
from mllm_jax.train.records.scalars import report_scalars
from mllm_jax.train.records.sinks import MetricSinks
from tests.configs import config
from tests.timing import PATIENCE, soon
from tests.train.records.test_metrics import REPORT

LAST = replace(REPORT, step=REPORT.steps)
SECRET = "s3cret-value-of-a-key"


class Kept:
    """A service that keeps what it is sent, and fails while it is `away`."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, Mapping[str, float]]] = []
        self.connected, self.away = 0, False
        self.ended: list[bool] = []

    def connect(self) -> Kept:
        self.connected += 1
        self._answer()
        return self

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        self._answer()
        self.steps.append((step, values))

    def close(self, *, done: bool) -> None:
        self._answer()
        self.ended.append(done)

    def _answer(self) -> None:
        if self.away:
            raise RuntimeError(f"no answer from https://me:{SECRET}@service/api")


def test_a_service_gets_every_figure_and_the_end() -> None:
    service = Kept()
    board = DashboardSink("kept", service.connect)
    soon(lambda: service.connected == 1)
    board.write_report(REPORT)
    board.log_values(120, {"heldout_loss": 0.5, "heldout_losses": {"mine": 0.5}})
    board.write_report(LAST)
    board.close()
    assert service.steps[0] == (REPORT.step, report_scalars(REPORT))
    assert service.steps[1] == (120, {"heldout_loss": 0.5})
    assert service.ended == [True]
    assert service.connected == 1
    early = Kept()
    stopped = DashboardSink("kept", early.connect)
    stopped.write_report(REPORT)
    stopped.close()
    assert early.ended == [False]


def test_a_service_that_is_away_is_told_once_and_comes_back(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    service = Kept()
    service.away = True
    board = DashboardSink("kept", service.connect)
    metrics = MetricSinks.open(
        tmp_path,
        Console(file=io.StringIO()),
        tensorboard=False,
        primary=True,
        resumed_step=0,
        others=lambda: [board],
    )
    with metrics:
        for _ in range(3):
            metrics.write_report(REPORT)
        soon(lambda: service.connected == 4)
        service.away = False
        metrics.write_report(LAST)
    warnings = [record.getMessage() for record in caplog.records]
    told = "run.loggers: kept cannot be written: RuntimeError: no answer from https://...@service"
    assert [message.startswith(told) for message in warnings] == [True, False]
    assert warnings[1] == "run.loggers: kept lacks 3 reports; metrics.jsonl has all"
    assert SECRET not in caplog.text
    assert [step for step, _ in service.steps] == [LAST.step]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4


def test_training_waits_for_no_service_but_at_its_end_and_not_for_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "CLOSING", 0.2)
    monkeypatch.setattr(dashboard, "ROOM", 8)
    stuck = threading.Event()

    def connect() -> Kept:
        stuck.wait()
        return Kept()

    board = DashboardSink("stuck", connect)
    for _ in range(100):
        board.write_report(REPORT)
    board.close()
    assert "has not taken all figures in 0.2 s; the run ends without it" in caplog.text
    stuck.set()


def test_only_process_0_has_dashboards(tmp_path: Path) -> None:
    def never() -> list[DashboardSink]:
        raise AssertionError

    opened = MetricSinks.open(
        tmp_path,
        Console(file=io.StringIO()),
        tensorboard=False,
        primary=False,
        resumed_step=0,
        others=never,
    )
    with opened as metrics:
        metrics.write_report(REPORT)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run__loggers": ["wandbb"]}, "run.loggers"),
        ({"run__loggers": ["wandb", "wandb"]}, "valid: each once"),
        ({"run__wandb": {"project": "x"}}, "run.wandb has no effect, as run.loggers is []"),
        (
            {
                "run__loggers": ["mlflow"],
                "run__mlflow": {"tracking": f"http://me:{SECRET}@host"},
            },
            "run.mlflow.tracking",
        ),
        ({"checkpoint__copy_to": f"s3://me:{SECRET}@bucket"}, "checkpoint.copy_to"),
        ({"checkpoint__copy_to": f"https://{SECRET}@host/a"}, "valid: the address without them"),
        ({"checkpoint__copy_to": f"https://host/a?sig={SECRET}"}, "checkpoint.copy_to"),
        ({"run__directory": f"https://host/a?X-Amz-Signature={SECRET}"}, "run.directory"),
    ],
)
def test_what_cannot_be_logged_is_refused_without_a_credential(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        config(**changes)
    assert told in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_package_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mllm_jax.train.records.dashboards.open.find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"wandb .* is not installed; valid: make install EXTRAS="):
        check_loggers(RunConfig(name="x", loggers=("wandb",)))
    both = r"wandb and mlflow need their packages, which are not .* EXTRAS=demo,wandb,mlflow,"
    with pytest.raises(RunError, match=both):
        check_loggers(RunConfig(name="x", loggers=("wandb", "mlflow")))
    check_loggers(RunConfig(name="x"))


def test_a_data_base_that_the_package_does_not_know_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"mlflow"}
    monkeypatch.setattr(
        "mllm_jax.train.records.dashboards.open.find_spec", lambda name: name in there or None
    )
    run = RunConfig(name="x", loggers=("mlflow",), mlflow={"tracking": "sqlite:///runs.db"})
    with pytest.raises(RunError, match=r"sqlite:///runs.db is a data base, .* valid: pip install"):
        check_loggers(run)
    there.add("sqlalchemy")
    check_loggers(run)


@pytest.mark.parametrize(
    ("mode", "found", "told"),
    [("online", True, None), ("offline", False, None), ("online", False, "WANDB_API_KEY")],
)
def test_wandb_is_never_left_to_ask_for_credentials(
    monkeypatch: pytest.MonkeyPatch, mode: str, found: bool, told: str | None
) -> None:
    package: Any = ModuleType("wandb")
    settings = SimpleNamespace(mode=mode, base_url="https://service")
    package.setup = lambda given: SimpleNamespace(settings=settings)
    package.login = lambda *, prompt, verify: found and not prompt and not verify
    package.Settings, package.errors = dict, SimpleNamespace(Error=RuntimeError)
    module = "mllm_jax.train.records.dashboards.on_wandb"
    # The module that this test imports goes again, also from the package that holds it.
    monkeypatch.setattr(module, None, raising=False)
    monkeypatch.setitem(sys.modules, module, package)
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setattr("mllm_jax.train.records.dashboards.open.find_spec", lambda name: package)
    if told is None:
        check_loggers(RunConfig(name="x", loggers=("wandb",)))
        return
    with pytest.raises(RunError, match=f"no credentials for https://service; valid: set {told}"):
        check_loggers(RunConfig(name="x", loggers=("wandb",)))


# ---- real packages, without network --------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a local store of MLflow, which it allows only if it is asked to."""
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    return (tmp_path / "store").as_uri()


def about(folder: Path) -> RunDescription:
    return RunDescription(
        "mine", "00ff00ff", folder, {"train": {"steps": 4}}, "train: {steps: 4}\n"
    )


def test_a_run_in_mlflow_goes_on_where_it_stopped(tmp_path: Path, store: str) -> None:
    import mlflow

    from mllm_jax.train.records.dashboards.on_mlflow import MlflowBoard

    own = MlflowConfig(tracking=store, experiment="tests")
    for step in (1, 2):
        board = MlflowBoard(own, about(tmp_path))
        board.log_values(step, {"train/loss": 3.0 - step, "heldout_loss/a+b": 1.0})
        board.close(done=step == 2)
    client = mlflow.MlflowClient(own.tracking)
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert sorted((point.step, point.value) for point in history) == [(1, 2.0), (2, 1.0)]
    assert run.data.params == {"train.steps": "4"}
    assert run.data.metrics["heldout_loss/a_b"] == 1.0
    assert run.data.tags["report"] == str(tmp_path / "report.html")
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")


def test_mlflow_keeps_runs_in_the_folder_of_runs_unless_it_is_told_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from mllm_jax.train.records.dashboards.on_mlflow import MlflowBoard

    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    MlflowBoard(MlflowConfig(), about(tmp_path / "mine")).close(done=True)
    assert list((tmp_path / "mlruns").rglob("meta.yaml"))


def test_wandb_without_credentials_is_refused_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_IDENTITY_TOKEN_FILE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    code = (
        "from mllm_jax.config.run import RunConfig\n"
        "from mllm_jax.train.records.dashboards import open\n"
        "try: open.check_loggers(RunConfig(name='x', loggers=('wandb',)))\n"
        "except open.RunError as error: print(error)\n"
    )
    ours, terminal = pty.openpty()
    try:
        told = subprocess.run(
            [sys.executable, "-c", code],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=terminal,
            text=True,
            timeout=PATIENCE,
            check=True,
        ).stdout
    finally:
        os.close(ours)
        os.close(terminal)
    assert told.startswith("run.loggers: wandb has no credentials for https://")


def test_a_run_in_wandb_has_figures_and_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    from mllm_jax.train.records.dashboards.on_wandb import WandbBoard

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    board = WandbBoard(WandbConfig(tags=("small",)), about(tmp_path))
    for step in (5, 3):  # taken again after a fault
        board.log_values(step, {"train/loss": 1.0 / step})
    board.close(done=True)
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert file.name == "run-00ff00ff.wandb"
    for word in (b"train/loss", b"steps", b"report.html", b"small"):
        soon(partial(_has, file, word))  # its service writes on after the end of the run
    for path in (tmp_path / "wandb").rglob("*"):
        if path.is_file():
            assert b"0123456789abcdef0123" not in path.read_bytes(), path


def _has(file: Path, word: bytes) -> bool:
    return word in file.read_bytes()


def test_requests_to_mlflow_have_no_more_than_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from mllm_jax.train.records.dashboards import on_mlflow

    sent: list[tuple[int, int]] = []
    client: Any = SimpleNamespace(
        get_experiment_by_name=lambda name: None,
        create_experiment=lambda name: "1",
        search_runs=lambda *_, **__: [],
        create_run=lambda *_, **__: SimpleNamespace(info=SimpleNamespace(run_id="r")),
        log_batch=lambda run, metrics=(), params=(): sent.append((len(metrics), len(params))),
        update_run=lambda *_, **__: None,
        log_text=lambda *_: None,
    )
    monkeypatch.setattr(on_mlflow, "MlflowClient", lambda place: client)
    own = replace(about(tmp_path), config={"data": {str(n): n for n in range(250)}})
    on_mlflow.MlflowBoard(MlflowConfig(tracking="http://host"), own).log_values(
        3, {str(n): 0.0 for n in range(2500)}
    )
    assert sent == [(0, 100), (0, 100), (0, 50), (1000, 0), (1000, 0), (500, 0)]


def test_steps_in_wandb_are_those_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is taken again; the run is found by its identity."""
    pytest.importorskip("wandb")
    from mllm_jax.train.records.dashboards import on_wandb

    begun: dict[str, Any] = {}
    told: list[Any] = []
    run = SimpleNamespace(
        config=SimpleNamespace(update=lambda *_, **__: None),
        define_metric=lambda name, step_metric: told.append((name, step_metric)),
        log=told.append,
    )
    monkeypatch.setattr("wandb.init", lambda **how: begun.update(how) or run)
    board = on_wandb.WandbBoard(WandbConfig(), about(tmp_path))
    for step in (5, 3):
        board.log_values(step, {"train/loss": 1.0})
    steps = [{"step": step, "train/loss": 1.0} for step in (5, 3)]
    assert told == [("*", "step"), *steps]
    assert (begun["id"], begun["resume"]) == ("00ff00ff", "allow")
    hidden = ("disable_git", "disable_code", "x_disable_meta")
    assert all(getattr(begun["settings"], name) for name in hidden)
    assert begun["settings"].console == "off"


def test_the_dashboards_of_a_configuration_know_the_run(
    tmp_path: Path, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = config(
        run__directory=str(tmp_path),
        run__loggers=["mlflow"],
        run__mlflow={"tracking": store},
    )
    own.run.path.mkdir()
    caplog.set_level(logging.WARNING)
    (board,) = open_dashboards(own)
    board.write_report(LAST)
    board.close()
    assert not caplog.records, caplog.text
    (tag,) = (tmp_path / "store").rglob("mllm_jax.identity")
    assert tag.read_text() == ensure_identity(own.run.path)
    (artifact,) = (tmp_path / "store").rglob("resolved.yaml")
    assert "d_model" in artifact.read_text()
    assert json.dumps(own.model_dump(mode="json"))
