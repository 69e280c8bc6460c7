"""Records of attempts: what they say of the time of a run, and what is no record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.supervise.attempts import (
    KINDS,
    LOSSES,
    AttemptRecords,
    TimeSpent,
    WatchedAttempt,
    account_attempts,
    compute_goodput,
    effective_seconds,
    goodput_line,
    newest_attempt,
    read_attempts,
    write_attempt,
)

SECONDS = st.floats(0, 1e4)


def test_the_time_of_a_run_is_what_its_attempts_have_spent() -> None:
    first = TimeSpent(1, 100.0, {"start": 5.0, "compile": 10.0, "step": 60.0, "save": 2.0})
    second = TimeSpent(2, 200.0, {"start": 4.0, "restore": 3.0, "step": 30.0, "evaluate": 8.0})
    watched = [
        WatchedAttempt(1, 100.0, 190.0, hung=True, again=True, code=-9),
        WatchedAttempt(2, 200.5, 245.0),
    ]
    # 20 of the 60 seconds of the first attempt were after the checkpoint of the second.
    found = compute_goodput([first, second], watched, effective=70.0)
    assert found["attempts"] == 2
    assert {kind: own for kind, own in found["seconds"].items() if own} == {
        "effective": 70.0,
        "rework": 20.0,
        "hang": 13.0,
        "pause": 10.5,
        "start": 9.0,
        "compile": 10.0,
        "restore": 3.0,
        "save": 2.0,
        "evaluate": 8.0,
    }
    assert {*found["seconds"]} == {"effective", *KINDS, *LOSSES} - {"step"}
    total = sum(found["seconds"].values())
    assert total == pytest.approx(245.0 - 100.0 + 0.5)
    assert found["share"] == pytest.approx(70.0 / total)
    line = "goodput 48.1% of 146 s in 2 attempts: rework 20.0 s, hang 13.0 s, pause 10.5 s, "
    assert goodput_line(found).startswith(line)


def test_an_attempt_that_ends_while_it_starts_counts_as_what_it_was_at() -> None:
    """Rework are steps: one that has taken none has lost none."""
    watched = [
        WatchedAttempt(1, 10.0, 14.0, again=True, code=-9),
        WatchedAttempt(4, 15.0, 27.0, again=True, code=7),
        WatchedAttempt(5, 30.0),
    ]
    spent = [
        TimeSpent(4, 15.0, {"start": 2.0, "data": 1.0}, "restore"),
        TimeSpent(5, 30.0, {"start": 2.0, "step": 8.0}),
    ]
    assert account_attempts(spent, watched) == {
        1: {"start": 4.0, "pause": 1.0},
        4: {"start": 2.0, "data": 1.0, "restore": 9.0, "pause": 3.0},
        5: {"start": 2.0, "step": 8.0},
    }
    found = compute_goodput(spent, watched, effective=8.0)
    assert found["seconds"]["rework"] == 0.0
    assert found["seconds"]["restore"] == 9.0
    assert found["share"] == pytest.approx(8 / 30)


def test_an_attempt_whose_supervisor_was_killed_lasts_until_the_next_one_begins() -> None:
    spent = [TimeSpent(1, 0.0, {"step": 95.0, "save": 5.0}), TimeSpent(2, 700.0, {"step": 95.0})]
    found = compute_goodput(
        spent, [WatchedAttempt(1, 0.0), WatchedAttempt(2, 700.0)], effective=190.0
    )
    assert found["seconds"]["pause"] == 600.0
    assert found["share"] == pytest.approx(190 / 795)


def test_a_hang_counts_whatever_code_the_attempt_has_ended_with() -> None:
    """One of its processes may have been done."""
    spent, watched = (
        [TimeSpent(1, 0.0, {"step": 10.0})],
        [WatchedAttempt(1, 0.0, 30.0, hung=True, code=0)],
    )
    assert account_attempts(spent, watched) == {1: {"step": 10.0, "hang": 20.0}}


def test_no_time_is_lost_that_a_process_knows_to_have_spent() -> None:
    """Its last word may be later than the end that its supervisor tells."""
    spent = [TimeSpent(1, 0.0, {"step": 10.5})]
    watched = [WatchedAttempt(1, 0.0, 10.0, again=True, code=-9), WatchedAttempt(2, 20.0)]
    assert account_attempts(spent, watched) == {
        1: {"step": 10.5, "rework": 0.0, "pause": 9.5},
        2: {},
    }


def test_clocks_of_two_hosts_make_no_time_that_is_below_zero() -> None:
    """Steps may seem longer than all that was told, and an attempt seem to begin too early."""
    spent = [TimeSpent(1, 0.0, {"step": 10.0}), TimeSpent(2, 29.5, {"step": 5.0})]
    watched = [WatchedAttempt(1, 0.0, 30.0, again=True, code=-9), WatchedAttempt(2, 29.5)]
    found = compute_goodput(spent, watched, effective=16.0)
    assert found["seconds"]["pause"] == 0.0
    assert found["seconds"]["effective"] == 15.0
    assert found["seconds"]["rework"] == 20.0
    assert found["share"] == pytest.approx(15 / 35)


@given(
    st.lists(st.dictionaries(st.sampled_from(KINDS), SECONDS), min_size=1, max_size=4),
    st.lists(
        st.tuples(SECONDS, SECONDS, st.booleans(), st.booleans(), st.sampled_from(KINDS)),
        min_size=4,
        max_size=4,
    ),
    st.floats(0, 1),
)
def test_supervised_time_is_counted_once(
    each: list[dict[str, float]],
    ends: list[tuple[float, float, bool, bool, str]],
    share: float,
) -> None:
    """All seconds together are those from the first begin to the last end that is known."""
    now, spent, watched = 1000.0, [], []
    for n, (seconds, (tail, pause, hung, killed, at)) in enumerate(
        zip(each, ends, strict=False), 1
    ):
        spent.append(TimeSpent(n, now, seconds, at))
        known = now + sum(seconds.values())
        end = known + tail
        closed = WatchedAttempt(n, now, end, hung, again=n < len(each), code=-9)
        watched.append(WatchedAttempt(n, now) if killed else closed)
        now, end = end + pause, known if killed else end
    stepping = sum(own.get("step", 0.0) for own in each)
    found = compute_goodput(spent, watched, share * stepping)
    total = sum(found["seconds"].values())
    assert total == pytest.approx(end - 1000.0, rel=1e-6, abs=1e-6)
    assert all(value >= 0 for value in found["seconds"].values())
    assert found["share"] is None or 0 <= found["share"] <= 1


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert newest_attempt(tmp_path) == 0
    assert read_attempts(tmp_path) == AttemptRecords()
    spent, watched = (
        TimeSpent(11, 1.5, {"step": 2.0}),
        WatchedAttempt(9, 1.0, 2.0, True, True, -9, "killed"),
    )
    write_attempt(tmp_path, TimeSpent(11, 1.5, {"step": 1.0}))
    for record in (spent, watched):
        write_attempt(tmp_path, record)
    assert newest_attempt(tmp_path) == 11
    assert read_attempts(tmp_path) == AttemptRecords([spent], [watched])
    assert {path.name for path in (tmp_path / "attempts").iterdir()} == {
        "11.json",
        "9.supervisor.json",
    }


def test_a_record_is_on_the_disk_before_it_replaces_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a machine that is lost may leave an empty one in the place of the last."""
    synced: list[str] = []
    sync, replace = os.fsync, Path.replace

    def moved(part: Path, path: Path) -> Path:
        assert synced == [part.read_text()]
        return replace(part, path)

    def syncing(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").read_text())
        sync(file)

    monkeypatch.setattr("os.fsync", syncing)
    monkeypatch.setattr(Path, "replace", moved)
    write_attempt(tmp_path, TimeSpent(1, 1.0, {"step": 2.0}))
    assert (tmp_path / "attempts" / "1.json").read_text() == synced[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is no JSON"),
        ("[]", "it is no JSON object"),
        ('{"attempt": 1}', "no key began"),
        ('{"attempt": 1, "began": 2.0, "pid": 3}', "unknown key pid"),
        ('{"attempt": 1, "began": "2"}', "began is of another type"),
    ],
)
def test_what_is_no_record_is_named_and_costs_that_record_alone(
    text: str, why: str, tmp_path: Path
) -> None:
    spent, watched = TimeSpent(1, 1.0, {"step": 2.0}), WatchedAttempt(2, 1.0)
    for own in (spent, watched, WatchedAttempt(1, 1.0)):
        write_attempt(tmp_path, own)
    (tmp_path / "attempts" / "1.supervisor.json").write_text(text)
    named = f"1.supervisor.json is damaged, and left out: {why}"
    assert read_attempts(tmp_path) == AttemptRecords(
        [spent], [watched], {"1.supervisor.json": named}
    )


def test_a_record_of_an_earlier_version_is_read_without_a_checksum(tmp_path: Path) -> None:
    write_attempt(tmp_path, TimeSpent(1, 1.0, {"step": 2.0}))
    path = tmp_path / "attempts" / "1.json"
    path.write_text('{"attempt": 1, "began": 1.0, "seconds": {"step": 2.0}, "now": "step"}\n')
    assert read_attempts(tmp_path) == AttemptRecords([TimeSpent(1, 1.0, {"step": 2.0})])
    path.write_text('{"attempt": 1, "began": 1.0, "seconds": {"stfp": 2.0}, "now": "step"}\n')
    assert "unknown kind stfp" in read_attempts(tmp_path).damage["1.json"]


def damaged(folder: Path, name: str) -> AttemptRecords:
    path = folder / "attempts" / name
    path.write_bytes(path.read_bytes().replace(b"attempt", b"auempt"))
    return read_attempts(folder)


@pytest.mark.parametrize("name", ["1.json", "2.json", "1.supervisor.json", "2.supervisor.json"])
def test_a_damaged_record_leaves_the_goodput_of_the_others(name: str, tmp_path: Path) -> None:
    """Time whose record is damaged is unknown, but for the steps that the state has."""
    first = TimeSpent(1, 0.0, {"start": 10.0, "step": 80.0}, effective=80.0)
    second = TimeSpent(2, 100.0, {"start": 10.0, "step": 90.0}, effective=160.0)
    watched = WatchedAttempt(1, 0.0, 95.0, again=True, code=-9), WatchedAttempt(2, 100.0, 200.0)
    for own in (first, second, *watched):
        write_attempt(tmp_path, own)
    whole = compute_goodput([first, second], watched, 160.0)
    kept = damaged(tmp_path, name)
    found = compute_goodput(kept.times_spent, kept.watched, 160.0, [*kept.damage])
    assert found["attempts"] == 2
    assert found["damaged"] == [name]
    assert f"without the damaged attempts/{name}" in goodput_line(found)
    assert found["seconds"]["effective"] == 160.0
    assert sum(found["seconds"].values()) == pytest.approx(200.0)
    assert found["share"] == pytest.approx(whole["share"])
    assert (found["seconds"]["unknown"] > 0) == (name != "2.supervisor.json")
    # Of a run that goes on, the newest record tells what its state has.
    assert kept.effective_seconds == (None if name == "2.json" else 160.0)


def test_steps_that_nothing_tells_of_are_not_made_up(tmp_path: Path) -> None:
    for own in (
        TimeSpent(1, 0.0, {"step": 80.0}),
        TimeSpent(2, 500.0, {"start": 5.0, "step": 45.0}),
    ):
        write_attempt(tmp_path, own)
    kept = damaged(tmp_path, "1.json")
    found = compute_goodput(kept.times_spent, kept.watched, 120.0, [*kept.damage])
    assert found["seconds"]["effective"] == 45.0
    assert found["share"] == pytest.approx(45 / 50)
    assert found["attempts"] == 2


@pytest.mark.parametrize("kind", [TimeSpent, WatchedAttempt])
def test_what_a_process_that_is_killed_has_begun_is_overwritten(
    kind: type[TimeSpent | WatchedAttempt], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(attempt: int) -> TimeSpent | WatchedAttempt:
        return TimeSpent(attempt, 1.0, {}) if kind is TimeSpent else WatchedAttempt(attempt, 1.0)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(Path, "replace", killed)
        dying.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            write_attempt(tmp_path, record(1))
    monkeypatch.setattr("os.getpid", lambda: 1)
    write_attempt(tmp_path, record(2))
    (left,) = (tmp_path / "attempts").iterdir()
    assert left.name.startswith("2.")


def test_effective_seconds_are_those_of_the_newest_record_that_knows_them() -> None:
    """Records of an earlier version know none, but steps of an only attempt are all effective."""
    old = [TimeSpent(n, 0.0, {"start": 1.0, "step": 8.0}) for n in (1, 2)]
    known = [TimeSpent(n, 0.0, {"step": 9.0}, effective=7.0 + n) for n in (1, 2)]
    assert effective_seconds([]) is None
    assert effective_seconds(old[:1]) == 8.0
    assert effective_seconds([TimeSpent(1, 0.0, {"start": 1.0})]) == 0.0
    assert effective_seconds(old) is None
    assert effective_seconds([*old, *known]) == 9.0
    assert effective_seconds([*known, *old]) == 9.0
