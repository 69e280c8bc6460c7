"""Every medium goes through exactly one bucket of its encoder, which its length chooses."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from data.planning.buckets import by_bucket, by_module, number_of
from data.planning.lengths import LengthTable
from data.planning.packing import make_capacity
from data.planning.unusable import unusable_samples
from data.rows.spec import LengthBucket, RowSpec
from data.sample import Grid, Lengths
from tests.data.media.tiled import TILED
from tests.data.samples import AUDIO, TEXT, VISION, make_lengths


@st.composite
def buckets(draw: st.DrawFn, whole: RowSpec) -> list[RowSpec]:
    """An encoder, whole or with up to four buckets, in any order."""
    bounds = sorted(draw(st.sets(st.integers(1, 40), max_size=3)))
    if not bounds and draw(st.booleans()):
        return [whole]
    ranges = zip([0, *bounds], [*bounds, None], strict=True)
    found = [
        replace(whole, name=f"{whole.name} {i}", bucket=LengthBucket(whole.name, above, most))
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
    return make_lengths(50, media, starts, {n: own for n, own in grids.items() if n == "vision"})


BOTH = st.tuples(buckets(VISION), buckets(AUDIO)).map(lambda pair: [TEXT, *pair[0], *pair[1]])


@given(measured(), BOTH)
def test_every_medium_goes_through_the_one_bucket_for_its_length(
    whole: Lengths, specs: list[RowSpec]
) -> None:
    assigned = by_bucket(whole, specs)
    found: dict[tuple[str, int], str] = {}
    for spec in specs:
        name, bucket = spec.name, spec.bucket or LengthBucket(spec.name)
        for number, length in enumerate(assigned.counts(name)):
            original = number_of(assigned, name, number)
            assert (bucket.module, original) not in found
            found[bucket.module, original] = name
            assert bucket.above < length
            assert bucket.up_to is None or length <= bucket.up_to
            assert length == whole.counts(bucket.module)[original]
            if spec is not TEXT:
                assert assigned.starts[name][number] == whole.starts[bucket.module][original]
            assert assigned.of(name)[number] == whole.of(bucket.module)[original]
    assert len(found) == sum(map(len, whole.modules.values()))


@given(measured(), BOTH)
def test_lengths_by_encoder_come_back(whole: Lengths, specs: list[RowSpec]) -> None:
    assert by_module(by_bucket(whole, specs), specs) == whole


def test_encoders_without_buckets_change_nothing() -> None:
    whole = make_lengths(4, {"vision": (3, 1)}, {"vision": (0, 2)})
    assert by_bucket(whole, [TEXT, VISION, AUDIO]) is whole
    assert by_module(whole, [TEXT, VISION, AUDIO]) is whole
    assert number_of(whole, "vision", 1) == 1


@given(st.lists(measured(), min_size=1, max_size=6), BOTH, st.sampled_from([1, 4]))
def test_samples_that_no_rows_of_a_bucket_hold_are_found(
    samples: list[Lengths], specs: list[RowSpec], rows: int
) -> None:
    budgets = {m.name: 24 if m.module == "vision" else 32 for m in specs[1:]}
    capacity = make_capacity({"tokens": 60, "segments": 2, **budgets}, specs)
    table = LengthTable.from_lengths(samples, [TEXT, TILED, AUDIO])
    misfits = {i: capacity.misfit(capacity.by_bucket(own), rows) for i, own in enumerate(samples)}
    expected = {index: fault for index, fault in misfits.items() if fault}
    assert unusable_samples(table, capacity, rows) == expected
