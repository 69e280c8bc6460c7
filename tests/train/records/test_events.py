"""The events of the loop, and the figures that are made of them."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from data.planning.stream import LoaderState
from mllm_jax.runtime.hardware.peak import Peak
from mllm_jax.runtime.part import Peers
from mllm_jax.supervise.attempts import read
from mllm_jax.train import trainer as loop
from mllm_jax.train.events import (
    Agreed,
    Dispatched,
    Done,
    Evaluating,
    Placed,
    Read,
    Reading,
    Saving,
    Taken,
    Timed,
)
from mllm_jax.train.feed.feed import open_loader
from mllm_jax.train.listeners import figures, listeners
from mllm_jax.train.listeners.figures import Recording
from mllm_jax.train.listeners.goodput.ledger import Ledger
from mllm_jax.train.listeners.goodput.listener import Goodput
from mllm_jax.train.listeners.goodput.record import Record
from mllm_jax.train.records.metrics import Meter
from mllm_jax.train.state.progress import Progress

#: What a step gives.
SCALARS = {
    "loss": 1.0,
    "grad_norm": 1.0,
    "targets": 1,
    "aux": {},
    "loads": None,
    "trust_ratios": None,
}


def test_every_step_is_told_in_order_and_its_parts_are_within_its_time(
    experiment, fresh_state, monkeypatch
):
    place, slow = loop.batch_of, 0.05

    def placed(*arguments):
        time.sleep(slow)
        return place(*arguments)

    monkeypatch.setattr(loop, "batch_of", placed)
    state, progress = fresh_state()
    events, recording, meter = [], Recording(experiment), Meter(experiment.config.train.steps)

    def listen(event):
        events.append(event)
        recording(event)

    for _, taken in loop.steps(experiment, state, progress, listen):
        events.append(taken)
        record = recording.record(taken)
        own = [event for event in events if event.step == taken.step and isinstance(event, Timed)]
        assert record.wait_seconds == own[0].seconds
        assert record.place_seconds == own[2].seconds > slow
        parts = record.wait_seconds, record.place_seconds, record.device_wait_seconds
        assert sum(parts) + own[3].seconds <= record.seconds
        report = meter.add(record)
    steps = experiment.config.train.steps
    told = [(type(event), event.step) for event in events]
    for step in range(1, steps + 1):
        kinds = [kind for kind, number in told if number == step]
        assert kinds == [Reading, Read, Agreed, Placed, Dispatched, Taken, Done]
    ahead = told.index((Done, 1))
    assert told[ahead + 1] == (Dispatched, 2)  # on CPU a step waits for the one before
    assert report.place_seconds > slow
    assert meter.totals()["place_seconds"] > slow


def test_a_step_that_is_reported_waits_for_itself_within_its_time(
    experiment, fresh_state, monkeypatch
):
    slow, wait = 0.05, loop._done

    def slowly(*step):
        time.sleep(slow)
        done = wait(*step)
        return Done(done.step, done.seconds + slow)

    monkeypatch.setattr(loop, "_done", slowly)
    state, progress = fresh_state()
    told, recording = [], Recording(experiment)

    def listen(event):
        told.append((type(event), event.step))
        recording(event)

    records = []
    for _, taken in loop.steps(experiment, state, progress, listen, lambda step: step == 2):
        told.append((Taken, taken.step))
        records.append(recording.record(taken))
    assert [step for kind, step in told[: told.index((Taken, 2))] if kind is Done] == [1, 2]
    assert (Done, 3) not in told[: told.index((Taken, 3))]
    waits = [record.device_wait_seconds for record in records]
    assert waits[1] > 2 * slow
    assert waits[3] > slow
    assert waits[0] == waits[2] == 0
    assert all(record.seconds > wait for record, wait in zip(records, waits, strict=True))


def test_the_record_of_an_attempt_knows_the_steps_of_earlier_ones(tmp_path):
    progress = Progress(7, LoaderState(0), effective=100.0)
    record = Record(Ledger(0.0), tmp_path)
    goodput = Goodput(record, progress)
    for event in (Reading(8), Read(8, 0.0, []), Placed(8, 0.0), Dispatched(8, 0.0), Done(8, 0.0)):
        goodput(event)
    record.write()
    (own,) = read(tmp_path).spent
    assert own.effective == progress.effective == 100.0 + own.seconds["step"] > 100.0


def test_the_other_processes_are_told_what_may_take_long(monkeypatch):
    class Noted(Peers):
        def note(self, event, *, limited=True, key=""):
            told.append((event, limited, key))

    told = []
    monkeypatch.setattr(listeners, "peers", Noted)
    for event in (Reading(7), Read(7, 0.1, []), Placed(7, 0.1), Saving(7), Evaluating(7)):
        listeners.tell_peers(event)
    assert told == [
        ("waiting for the data of step 7", True, "data.source"),
        ("step 7", True, ""),
        ("saving after step 7", True, ""),
        ("evaluating after step 7", False, "data.source"),
    ]


def test_what_was_waited_for_the_devices_belongs_to_the_step_that_waited(experiment):
    recording = Recording(experiment)
    for step in (1, 2, 3):
        for event in (Read(step, 1.0, []), Placed(step, 2.0), Dispatched(step, 0.5)):
            recording(event)
        if step == 3:
            recording(Done(1, 4.0))
            recording(Done(2, 8.0))
        record = recording.record(Taken(step, 20.0, [], SCALARS, 0.1))
        assert (record.wait_seconds, record.place_seconds) == (1.0, 2.0)
        assert record.device_wait_seconds == (12.0 if step == 3 else 0.0)


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_peak_of_a_run_is_kept_while_its_devices_are_the_same(is_kept, experiment, monkeypatch):
    found, before = Peak("this", 1e9, "measured now"), Peak("this", 2e9, "measured before")
    before = before if is_kept else replace(before, of="another")
    progress = Progress(0, LoaderState(0), peak=before)
    monkeypatch.setattr(figures, "peak", lambda _: found)
    figures.Figures(experiment, progress, SimpleNamespace(log=lambda *_: None))
    assert progress.peak == (before if is_kept else found)


def test_outputs_for_another_host_move_there_and_their_gradients_back(experiment):
    """Beside the samples that a host has read for another one."""
    with open_loader(experiment, LoaderState(0)) as loader:
        own = next(loader)
    crossing = {"vision": 5, "audio": 2}
    sent = [replace(own, stats=replace(own.stats, crossing=crossing, sent=n)) for n in (0, 100)]
    taken = Taken(1, 1.0, sent, SCALARS, 0.1)
    width = experiment.config.model.decoder.d_model * 4  # float32
    assert Recording(experiment).record(taken).moved_bytes == 2 * (2 * 7 * width) + 100
