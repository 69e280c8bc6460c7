"""Samples that no step holds: all of them are found, each once, with the kind of its fault."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.faults import FaultKind, SampleFault
from data.planning.lengths import LengthTable
from data.planning.packing import make_capacity
from data.planning.unusable import refuse, unusable_samples
from data.sample import LengthError, Lengths, MediaError, SampleError
from tests.configs import ROOT
from tests.data.samples import AUDIO, TEXT, VISION, ListSource, make_lengths, make_sample

SPECS = (TEXT, VISION, AUDIO)
BUDGETS = {"tokens": 20, "vision": 24, "audio": 32, "segments": 2}

faults = st.builds(SampleFault, st.sampled_from(FaultKind), st.text(max_size=8))
media = st.lists(st.integers(1, 40), max_size=3).map(tuple)
lengths = st.builds(
    lambda tokens, vision, audio: make_lengths(
        tokens,
        {n: own for n, own in (("vision", vision), ("audio", audio)) if own},
        {n: (0,) * len(own) for n, own in (("vision", vision), ("audio", audio)) if own},
    ),
    st.integers(1, 30),
    media,
    media,
)


@given(
    st.lists(lengths | faults, min_size=1, max_size=12),
    st.sampled_from([1, 4]),
    st.none() | st.integers(1, 30),
)
def test_what_no_row_holds_is_found(
    samples: list[Lengths | SampleFault], rows: int, longest: int | None
) -> None:
    capacity = make_capacity(BUDGETS, SPECS, longest)
    table = LengthTable.from_lengths(samples, [*SPECS])
    wanted = {
        index: fault
        for index, own in enumerate(samples)
        if (fault := own if isinstance(own, SampleFault) else capacity.misfit(own, rows))
    }
    found = unusable_samples(table, capacity, rows)
    assert found == wanted
    assert [*found] == sorted(found)
    for own in (own for index, own in enumerate(samples) if index not in found):
        assert isinstance(own, Lengths)
        assert own.total("decoder") <= (longest or 20)


def test_a_sample_longer_than_the_models_positions_fits_no_row() -> None:
    short, row = make_capacity(BUDGETS, SPECS, 12), make_lengths(12)
    assert short.misfit(row) is None
    fault = short.misfit(make_lengths(13), 4)
    assert fault is not None
    assert fault.kind is FaultKind.POSITIONS
    assert str(fault) == "has 13 tokens, media included, above the 12 of decoder.max_positions"


def test_the_first_is_raised_with_names_of_others() -> None:
    source = ListSource([make_sample(f"s{i}") for i in range(9)])
    gone = SampleFault(FaultKind.MISSING, "gone")
    refuse(source, {})
    with pytest.raises(SampleError, match=r"^sample s2: gone$"):
        refuse(source, {2: gone})
    with pytest.raises(SampleError, match=r"^sample s1: gone \(6 more: s2, s3, s4, ...\)$"):
        refuse(source, dict.fromkeys(range(1, 8), gone))


@given(faults)
def test_a_fault_survives_json_and_processes(fault: SampleFault) -> None:
    assert SampleFault.from_json(json.loads(json.dumps(fault.to_json()))) == fault
    for error in (
        SampleError("a", fault),
        LengthError("a", fault.text),
        MediaError(fault.kind, fault.text),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.fault) == (str(error), error.fault)


@pytest.mark.parametrize("value", [None, 3, [], ["missing file"], ["no kind", "text"], [1, 2]])
def test_what_is_no_fault_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="no"):
        SampleFault.from_json(value)


def test_every_kind_is_on_the_page_of_data() -> None:
    page = (ROOT / "docs" / "how-to" / "bad-samples.md").read_text()
    assert [kind for kind in FaultKind if f"`{kind}`" not in page] == []
