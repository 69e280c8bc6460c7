"""The events of the loop, and the figures that are made of them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from data.planning.stream import LoaderState
from mllm_jax.runtime.hardware.peak import DevicePeak
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.supervise.attempts import read_attempts
from mllm_jax.train import trainer as loop
from mllm_jax.train.events import Phase, StepEnded, StepStarted
from mllm_jax.train.listeners import figures, listeners
from mllm_jax.train.listeners.figures import StepRecorder
from mllm_jax.train.listeners.goodput.ledger import TimeLedger
from mllm_jax.train.listeners.goodput.listener import GoodputListener
from mllm_jax.train.listeners.goodput.record import TimeRecord
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.records.metrics import FigureMeter
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.batch_placement import PlacedBatch
from tests.train.runs import take_steps

#: What a step gives.
SCALARS = {
    "loss": 1.0,
    "grad_norm": 1.0,
    "targets": 1,
    "aux": {},
    "loads": None,
    "trust_ratios": None,
}


def name_of(event):
    """The name of an event, with whether a phase starts or ends."""
    if isinstance(event, Phase):
        return f"{event.name} {'ends' if event.is_over else 'starts'}"
    return type(event).__name__


def test_every_step_is_told_in_order_and_its_parts_are_within_its_time(
    experiment, fresh_state, monkeypatch
):
    place, slow = loop.place_step, 0.05

    def placed(*arguments):
        time.sleep(slow)
        return place(*arguments)

    monkeypatch.setattr(loop, "place_step", placed)
    state, progress = fresh_state()
    events, recorder, meter = (
        [],
        StepRecorder(experiment),
        FigureMeter(experiment.config.train.steps),
    )

    def listen(event):
        events.append(event)
        recorder(event)

    for ended in take_steps(loop.StepRunner(experiment, state, progress, listen)):
        events.append(ended)
        record = recorder.make_record(ended)
        phases = [event for event in events if event.step == ended.step]
        seconds = {event.name: event.seconds for event in phases if isinstance(event, Phase)}
        assert record.wait_seconds == seconds["read"]
        assert record.place_seconds == seconds["place"] > slow
        parts = record.wait_seconds, record.place_seconds, record.device_wait_seconds
        assert sum(parts) + seconds["dispatch"] <= record.seconds
        report = meter.add_step(record)
    steps = experiment.config.train.steps
    told = [(name_of(event), event.step) for event in events]
    for step in range(1, steps + 1):
        names = [name for name, number in told if number == step]
        phases = ("read", "agree", "place", "dispatch")
        in_step = [f"{name} {end}" for name in phases for end in ("starts", "ends")]
        assert names == ["StepStarted", *in_step, "StepEnded", "wait starts", "wait ends"]
    waited = told.index(("wait ends", 1))
    assert told[waited + 1] == ("dispatch starts", 2)  # on CPU a step waits for the one before
    assert report.place_seconds > slow
    assert meter.summary_figures()["place_seconds"] > slow


def test_a_step_that_is_reported_waits_for_itself_within_its_time(
    experiment, fresh_state, monkeypatch
):
    slow = 0.05

    @contextmanager
    def waiting(name):
        time.sleep(slow)
        yield

    monkeypatch.setattr(loop, "waiting_for_peers", waiting)
    monkeypatch.setattr(loop.StepRunner, "must_wait_for", lambda trainer, step: step == 2)
    state, progress = fresh_state()
    told, recorder = [], StepRecorder(experiment)

    def listen(event):
        told.append((name_of(event), event.step))
        recorder(event)

    records = []
    for ended in take_steps(loop.StepRunner(experiment, state, progress, listen)):
        told.append(("StepEnded", ended.step))
        records.append(recorder.make_record(ended))
    until = told[: told.index(("StepEnded", 2))]
    assert [step for name, step in until if name == "wait ends"] == [1, 2]
    assert ("wait ends", 3) not in told[: told.index(("StepEnded", 3))]
    waits = [record.device_wait_seconds for record in records]
    assert waits[1] > 2 * slow
    assert waits[3] > slow
    assert waits[0] == waits[2] == 0
    assert all(record.seconds > wait for record, wait in zip(records, waits, strict=True))


def test_the_record_of_an_attempt_knows_the_steps_of_earlier_ones(tmp_path):
    progress = Progress(7, LoaderState(0), effective=100.0)
    record = TimeRecord(TimeLedger(0.0), tmp_path)
    goodput = GoodputListener(record, progress)
    goodput(StepStarted(8))
    for name in ("read", "agree", "place", "dispatch", "wait"):
        goodput(Phase(name, 8))
        goodput(Phase(name, 8, 0.0))
    record.write_record()
    (own,) = read_attempts(tmp_path).times_spent
    assert own.effective == progress.effective == 100.0 + own.seconds["step"] > 100.0


def test_the_other_processes_are_told_what_may_take_long(monkeypatch):
    class Noted(RunPeers):
        def note_activity(self, event, *, limited=True, key=""):
            told.append((event, limited, key))

    told = []
    monkeypatch.setattr(listeners, "current_peers", Noted)
    for name in ("read", "place", "save", "evaluate"):
        for seconds in (None, 0.1):
            listeners.note_activity(Phase(name, 7, seconds))
    assert told == [
        ("waiting for the data of step 7", True, "data.source"),
        ("step 7", True, ""),
        ("saving after step 7", True, ""),
        ("evaluating after step 7", False, "data.source"),
    ]


def test_what_was_waited_for_the_devices_belongs_to_the_step_that_waited(experiment):
    recorder, placed = StepRecorder(experiment), PlacedBatch(None, {}, "")
    for step in (1, 2, 3):
        recorder(Phase("read", step, 1.0))
        recorder(Phase("place", step, 2.0, placed))
        recorder(Phase("dispatch", step, 0.5))
        if step == 3:
            recorder(Phase("wait", 1, 4.0))
            recorder(Phase("wait", 2, 8.0))
        record = recorder.make_record(StepEnded(step, 20.0, [], SCALARS, 0.1))
        assert (record.wait_seconds, record.place_seconds) == (1.0, 2.0)
        assert record.device_wait_seconds == (12.0 if step == 3 else 0.0)


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_peak_of_a_run_is_kept_while_its_devices_are_the_same(is_kept, experiment, monkeypatch):
    found, before = (
        DevicePeak("this", 1e9, "measured now"),
        DevicePeak("this", 2e9, "measured before"),
    )
    before = before if is_kept else replace(before, of="another")
    progress = Progress(0, LoaderState(0), peak=before)
    monkeypatch.setattr(figures, "device_peak", lambda _: found)
    figures.StepFigures(experiment, progress, SimpleNamespace(log_values=lambda *_: None))
    assert progress.peak == (before if is_kept else found)


def test_outputs_for_another_host_move_there_and_their_gradients_back(experiment):
    """Beside the samples that a host has read for another one."""
    with open_loader(experiment, LoaderState(0)) as loader:
        own = next(loader)
    crossing = {"vision": 5, "audio": 2}
    sent = [replace(own, stats=replace(own.stats, crossing=crossing, sent=n)) for n in (0, 100)]
    ended = StepEnded(1, 1.0, sent, SCALARS, 0.1)
    width = experiment.config.model.decoder.d_model * 4  # float32
    assert StepRecorder(experiment).make_record(ended).moved_bytes == 2 * (2 * 7 * width) + 100
