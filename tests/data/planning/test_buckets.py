"""Every medium goes through exactly one lane of its encoder, which its length chooses."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from data.planning.buckets import by_encoder, by_lane, number_of
from data.planning.lengths import LengthTable
from data.planning.packing import make_capacity
from data.planning.unusable import unusable_samples
from data.rows.spec import Lane, Modality
from data.sample import Grid, Lengths
from tests.data.samples import AUDIO, VISION


@st.composite
def lanes(draw: st.DrawFn, whole: Modality) -> list[Modality]:
    """An encoder, whole or with up to four lanes, in any order."""
    bounds = sorted(draw(st.sets(st.integers(1, 40), max_size=3)))
    if not bounds and draw(st.booleans()):
        return [whole]
    ranges = zip([0, *bounds], [*bounds, None], strict=True)
    found = [
        replace(whole, name=f"{whole.name} {i}", lane=Lane(whole.name, above, most))
        for i, (above, most) in enumerate(ranges)
    ]
    return draw(st.permutations(found))


@st.composite
def measured(draw: st.DrawFn) -> Lengths:
    """A sample, with grids for images, as if they were in tiles."""
    counts = st.lists(st.integers(1, 45), max_size=5).map(tuple)
    media = {name: own for name in ("vision", "audio") if (own := draw(counts))}
    starts = {name: tuple(range(0, 3 * len(own), 3)) for name, own in media.items()}
    grids = {n: tuple(Grid(1, i, length) for i, length in enumerate(m)) for n, m in media.items()}
    return Lengths(50, media, starts, {n: own for n, own in grids.items() if n == "vision"})


BOTH = st.tuples(lanes(VISION), lanes(AUDIO)).map(lambda pair: [*pair[0], *pair[1]])


@given(measured(), BOTH)
def test_every_medium_goes_through_the_one_lane_for_its_length(
    whole: Lengths, modalities: list[Modality]
) -> None:
    dealt = by_lane(whole, modalities)
    found: dict[tuple[str, int], str] = {}
    for modality in modalities:
        name, lane = modality.name, modality.lane or Lane(modality.name)
        for number, length in enumerate(dealt.media.get(name, ())):
            original = number_of(dealt, name, number)
            assert (lane.encoder, original) not in found
            found[lane.encoder, original] = name
            assert lane.above < length
            assert lane.up_to is None or length <= lane.up_to
            assert length == whole.media[lane.encoder][original]
            assert dealt.starts[name][number] == whole.starts[lane.encoder][original]
            if lane.encoder in whole.grids:
                assert dealt.grids[name][number] == whole.grids[lane.encoder][original]
    assert len(found) == sum(map(len, whole.media.values()))


@given(measured(), BOTH)
def test_lengths_by_encoder_come_back(whole: Lengths, modalities: list[Modality]) -> None:
    assert by_encoder(by_lane(whole, modalities), modalities) == whole


def test_encoders_without_lanes_change_nothing() -> None:
    whole = Lengths(4, {"vision": (3, 1)}, {"vision": (0, 2)})
    assert by_lane(whole, [VISION, AUDIO]) is whole
    assert by_encoder(whole, [VISION, AUDIO]) is whole
    assert number_of(whole, "vision", 1) == 1


@given(st.lists(measured(), min_size=1, max_size=6), BOTH, st.sampled_from([1, 4]))
def test_samples_that_no_rows_of_a_lane_hold_are_found(
    samples: list[Lengths], modalities: list[Modality], rows: int
) -> None:
    budgets = {m.name: 24 if m.encoder == "vision" else 32 for m in modalities}
    capacity = make_capacity({"tokens": 60, "segments": 2, **budgets}, modalities)
    table = LengthTable.of(samples, ["vision", "audio"], ["vision"])
    misfits = {i: capacity.misfit(capacity.by_lane(own), rows) for i, own in enumerate(samples)}
    expected = {index: fault for index, fault in misfits.items() if fault}
    assert unusable_samples(table, capacity, rows) == expected
