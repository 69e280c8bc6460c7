"""Independent microbatches: a step's media packed by themselves, and what they carry along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.batch import ModuleRows
from data.media.audio.row_spec import AudioRowSpec
from data.planning.independent_microbatches import (
    MEDIUM,
    IndependentMicrobatches,
    Ints,
    count_independent_microbatches,
    feeds_of_all,
    plan_independent_microbatches,
    rows_of_independent_microbatches,
)
from data.rows.pack import by_name, empty_rows, of_names, read_medium, write_medium
from data.rows.spec import ArraySpec
from data.sample import MediumLengths, ProcessedMedium
from mllm_jax.config.inputs import media_specs
from tests.train.models import small_model

ROWS, POSITIONS = 3, 16
SPECS = {spec.name: spec for spec in media_specs(small_model())}
VISION = SPECS["vision"]
#: Rows of a unit for each row of the batch.
SPREADS = st.integers(1, 3)


@st.composite
def steps(draw: st.DrawFn, reduction: int = 1) -> list[Ints]:
    """The media of one to five microbatches, each row filled from the left; some have none."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        media = []
        for row in range(ROWS):
            start = 0
            for number, n in enumerate(draw(st.lists(st.integers(1, 6), max_size=4)), start=1):
                if (start + n) * reduction <= POSITIONS:
                    media.append((row, start * reduction, n * reduction, number, 1))
                    start += n
        made.append(np.array(draw(st.permutations(media)), np.int64).reshape(-1, 5))
    return made


@given(steps(), SPREADS)
def test_media_stay_in_their_rows_and_do_not_overlap(media: list[Ints], spread: int) -> None:
    units = plan_independent_microbatches(media, ROWS, POSITIONS, spread=spread)
    assert len(units.media) == sum(map(len, media))
    assert (units.row // spread == units.media[:, 0]).all()
    used = used_by(units, ROWS * spread, POSITIONS)
    assert used.max(initial=0) <= 1
    assert used.sum() == sum(own[:, 2].sum() for own in media)


@given(steps(), SPREADS, st.integers(1, ROWS))
def test_groups_of_rows_feed_together_what_all_rows_do(
    media: list[Ints], spread: int, groups: int
) -> None:
    parts = [
        plan_independent_microbatches(
            [own[own[:, 0] % groups == g] for own in media], ROWS, POSITIONS, spread=spread
        )
        for g in range(groups)
    ]
    whole = plan_independent_microbatches(media, ROWS, POSITIONS, spread=spread)
    assert feeds_of_all([own.feeds for own in parts]) == whole.feeds


@given(steps(), SPREADS)
def test_rows_that_go_on_together_feed_few_microbatches(media: list[Ints], spread: int) -> None:
    units = plan_independent_microbatches(media, ROWS, POSITIONS, spread=spread, together=True)
    assert used_by(units, ROWS * spread, POSITIONS).max(initial=0) <= 1
    assert (units.row // spread == units.media[:, 0]).all()
    # A microbatch needs at most one more unit, as each of its rows fits into one.
    assert units.count <= len(media)
    ends = units.feeds
    assert all(last <= following for (_, last), (following, _) in pairwise(ends))
    assert sum(last + 1 - first for first, last in ends) <= len(media) + max(0, units.count - 1)


def test_rows_by_themselves_may_feed_many_microbatches() -> None:
    """The example of the module, and units of a full first row beside an empty one."""
    media = [np.array([own]) for own in ([0, 0, 5, 1, 1], [0, 0, 7, 1, 1], [1, 0, 5, 1, 1])]
    assert plan_independent_microbatches(media, 2, 10).feeds == ((0, 2), (1, 1))
    assert plan_independent_microbatches(media, 2, 10, together=True).feeds == ((0, 0), (1, 2))
    late = [np.array([[int(m >= 8), 0, 10, 1, 1]]) for m in range(16)]
    assert plan_independent_microbatches(late, 2, 10).feeds == tuple((m, m + 8) for m in range(8))
    assert plan_independent_microbatches(late, 2, 10, together=True).count == 15


def used_by(units: IndependentMicrobatches, rows: int, positions: int) -> Ints:
    """How many media are at every position of the units, `[units, rows, positions]`."""
    used = np.zeros((units.count, rows, positions), np.int64)
    places = zip(units.media[:, 2], units.encoder_microbatch, units.row, units.start, strict=True)
    for span, encoder_microbatch, row, start in places:
        used[encoder_microbatch, row, start : start + span] += 1
    return used


@given(steps(), st.integers(2, 3))
def test_more_rows_take_fewer_units(media: list[Ints], spread: int) -> None:
    """A unit is left only where the next medium fits none of its rows for a row of the batch."""
    units = plan_independent_microbatches(media, ROWS, POSITIONS, spread=spread)
    assert units.count <= plan_independent_microbatches(media, ROWS, POSITIONS).count
    filled = used_by(units, ROWS * spread, POSITIONS).sum(-1).reshape(-1, ROWS, spread)
    order = units.media[:, 0], units.encoder_microbatch
    for row in range(ROWS):
        for encoder_microbatch in range(
            1, int(units.encoder_microbatch[order[0] == row].max(initial=-1)) + 1
        ):
            first = units.media[(order[0] == row) & (order[1] == encoder_microbatch), 2][0]
            assert (filled[encoder_microbatch - 1, row] + first > POSITIONS).all()


@given(steps(), SPREADS, st.sampled_from([None, 1, 2]), st.booleans())
def test_media_go_to_the_first_open_bin_that_has_room(
    media: list[Ints], spread: int, each: int | None, together: bool
) -> None:
    """As said medium by medium, in the plainest way."""
    positions = POSITIONS if spread * (each or 1) == 1 else 8
    expected = plainly(media, positions, spread, each, together)
    if each and any(encoder_microbatch // each > m for (encoder_microbatch, *_), m in expected):
        with pytest.raises(ValueError, match="media of a microbatch need"):
            plan_independent_microbatches(media, ROWS, positions, each, spread, together)
        return
    units = plan_independent_microbatches(media, ROWS, positions, each, spread, together)
    places = zip(units.encoder_microbatch, units.row, units.start, units.segment, strict=True)
    found = zip(places, units.microbatch, strict=True)
    assert [(tuple(map(int, place)), int(m)) for place, m in found] == expected


def plainly(
    media: list[Ints], positions: int, spread: int, each: int | None, together: bool
) -> list[tuple[tuple[int, ...], int]]:
    """Unit, row, start and segment of each medium, and its microbatch, by a search of all bins."""
    count, least, first = spread * (each or 1), 0, [0] * ROWS
    found: list[tuple[tuple[int, ...], int]] = []
    inside: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for m, own in enumerate(media):
        least, furthest = m * count if each else least, 0
        for row, _, span, _, segments in sorted(own.tolist()):
            of_row = range(first[row], first[row] + count) if first[row] >= least else range(0)
            room = (
                i for i in of_row if sum(n for n, _ in inside.get((row, i), [])) + span <= positions
            )
            taken = next(room, None)
            if taken is None:
                taken = first[row] = max(first[row] + count, least)
            held = inside.setdefault((row, taken), [])
            start, segment = sum(n for n, _ in held), 1 + sum(n for _, n in held)
            held.append((span, segments))
            place = taken // spread, row * spread + taken % spread, start, segment
            found.append((place, m))
            furthest = max(furthest, taken)
        if together:
            least = max(least, furthest // spread * spread)
    return found


@given(steps())
def test_units_follow_the_load(media: list[Ints]) -> None:
    units = plan_independent_microbatches(media, ROWS, POSITIONS)
    assert units.count <= sum(len(own) > 0 for own in media)
    fullest = max(sum(own[own[:, 0] == row, 2].sum() for own in media) for row in range(ROWS))
    assert units.count >= -(-fullest // POSITIONS)
    assert (units.count == 0) == (fullest == 0)
    # A row goes on only where a medium has no room.
    for row in range(ROWS):
        own = units.media[:, 0] == row
        for encoder_microbatch in range(1, int(units.encoder_microbatch[own].max(initial=-1)) + 1):
            before = units.media[
                own & (units.encoder_microbatch == encoder_microbatch - 1), 2
            ].sum()
            first = units.media[own & (units.encoder_microbatch == encoder_microbatch), 2][0]
            assert before + first > POSITIONS


@given(steps())
def test_units_feed_the_microbatches_of_their_media_in_order(media: list[Ints]) -> None:
    units = plan_independent_microbatches(media, ROWS, POSITIONS)
    for encoder_microbatch, (first, last) in enumerate(units.feeds):
        own = set(units.microbatch[units.encoder_microbatch == encoder_microbatch].tolist())
        assert {first, last} <= own
        assert own <= set(range(first, last + 1))
    firsts = [first for first, _ in units.feeds]
    assert firsts == sorted(firsts)


def filled(media: Ints, seed: int) -> ModuleRows:
    """Rows with random values in their media."""
    rng, rows = np.random.default_rng(seed), empty_rows(VISION, ROWS, POSITIONS)
    for row, start, span, segment, _ in media.tolist():
        for name, array in by_name(rows).items():
            own = VISION.arrays.get(name)
            step = VISION.reduction if own is not None and own.axis == "output" else 1
            part = array[row, start // step : (start + span) // step]
            part[...] = rng.integers(1, 9, part.shape)
        rows.segment_ids[row, start : start + span] = segment
    return rows


@given(steps(reduction=VISION.reduction), st.integers(0, 99), SPREADS)
def test_arrays_move_with_their_media(media: list[Ints], seed: int, spread: int) -> None:
    units = plan_independent_microbatches(media, ROWS, POSITIONS, spread=spread)
    arrays = [filled(own, seed + m) for m, own in enumerate(media)]
    rows = [2, 0]  # this process's rows, in its order
    # It has all rows of units but the last of one row of the batch.
    here = [row * spread + i for row in rows for i in range(spread)][: 2 * spread - (spread > 1)]
    local = [
        of_names({name: array[rows] for name, array in by_name(own).items()}) for own in arrays
    ]
    made = rows_of_independent_microbatches(units, local, rows, here, VISION, POSITIONS)
    assert made.inputs.shape[:3] == (max(1, units.count), len(here), POSITIONS)
    seen: dict[tuple[int, int], list[int]] = {}
    places = units.encoder_microbatch, units.row, units.start, units.segment
    for (row, start, span, _, _), m, encoder_microbatch, there, to, first in zip(
        units.media, units.microbatch, *places, strict=True
    ):
        if there in here:
            place = encoder_microbatch, here.index(there), slice(to, to + span)
            own = arrays[m].inputs[row, start : start + span]
            np.testing.assert_array_equal(made.inputs[place], own)
            assert (made.segment_ids[place] == first).all()
            seen.setdefault(place[:2], []).append(int(first))
    # Segments of a row are numbered from 1 without a gap, and all else is padding.
    for numbers in seen.values():
        assert numbers == list(range(1, len(numbers) + 1))
    moved = int(units.media[np.isin(units.row, here), 2].sum())
    assert np.count_nonzero(made.segment_ids) == moved


@given(steps(reduction=2), st.data(), SPREADS)
def test_runs_move_with_their_media(media: list[Ints], data: st.DataObject, spread: int) -> None:
    units = plan_independent_microbatches(media, ROWS, POSITIONS, spread=spread)
    for m, own in enumerate(media):
        runs: list[tuple[int, ...]] = []
        for row, start, span, _, _ in own.tolist():
            count = data.draw(st.integers(1, span // 2))
            runs.append((row, start // 2, data.draw(st.integers(0, 9)), len(runs) * 10, count))
        given_ = np.array(runs, np.int64).reshape(-1, 5)
        assert merged(units.move_runs(m, given_, 2)) == expected(units, m, given_)


def test_a_run_over_two_media_is_cut() -> None:
    media = [np.array([[0, 0, 4, 1, 1], [0, 4, 8, 2, 1]]), np.array([[0, 0, 8, 1, 1]])]
    units = plan_independent_microbatches(media, 1, 12)
    moved = units.move_runs(0, np.array([[0, 1, 5, 7, 4]]), 2)
    assert sorted(moved.tolist()) == [[0, 1, 5, 7, 1, 0], [0, 2, 5, 8, 3, 0]]
    # The medium of the second microbatch is the first of the second unit.
    assert units.move_runs(1, np.array([[0, 0, 1, 0, 4]]), 2).tolist() == [[0, 0, 1, 0, 4, 1]]


def test_a_run_in_no_medium_is_refused() -> None:
    units = plan_independent_microbatches([np.array([[0, 0, 4, 1, 1]])], 2, 8)
    for run in ([0, 1, 0, 0, 3], [1, 0, 0, 0, 1]):
        with pytest.raises(ValueError, match="is in no medium of its row"):
            units.move_runs(0, np.array([run]), 2)


def merged(runs: Ints) -> set[tuple[int, ...]]:
    """Unit, row and output, and decoder row and token, of every output."""
    return {
        (encoder_microbatch, row, first + i, to, token + i)
        for row, first, to, token, count, encoder_microbatch in runs.tolist()
        for i in range(count)
    }


def expected(units: IndependentMicrobatches, microbatch: int, runs: Ints) -> set[tuple[int, ...]]:
    """`merged_outputs`, output by output."""
    found: set[tuple[int, ...]] = set()
    for row, first, to, token, count in runs.tolist():
        for i in range(count):
            own = (units.microbatch == microbatch) & (units.media[:, 0] == row)
            starts, spans = units.media[:, 1], units.media[:, 2]
            own &= (starts <= 2 * (first + i)) & (2 * (first + i) < starts + spans)
            (at,) = np.flatnonzero(own).tolist()
            output = first + i + (int(units.start[at]) - int(starts[at])) // 2
            found.add(
                (int(units.encoder_microbatch[at]), int(units.row[at]), output, to, token + i)
            )
    return found


@given(steps(), st.integers(6, POSITIONS), SPREADS)
def test_a_microbatch_fits_the_units_that_are_counted_for_it(
    media: list[Ints], positions: int, spread: int
) -> None:
    each = count_independent_microbatches(
        POSITIONS, positions, longest=6, reduction=1, spread=spread
    )
    apart = plan_independent_microbatches(media, ROWS, positions, each, spread)
    assert apart.count == each * len(media)
    assert (apart.encoder_microbatch // each == apart.microbatch).all()
    together = plan_independent_microbatches(media, ROWS, positions, spread=spread)
    for units in (apart, together):
        assert used_by(units, ROWS * spread, positions).max(initial=0) <= 1
    if spread == 1:
        assert together.count <= apart.count


def test_the_count_of_units_is_reached() -> None:
    """Of three rows of 8 no two hold 8 or less; media of 2 leave no row with less than 7."""
    assert count_independent_microbatches(16, 8, longest=6, reduction=1) == 4
    assert count_independent_microbatches(16, 8, longest=2, reduction=1) == 3
    assert count_independent_microbatches(16, 16, longest=6, reduction=1) == 1
    assert count_independent_microbatches(16, 8, longest=6, reduction=1, spread=3) == 2
    media = [np.array([[0, 5 * n, 5, 1, 1] for n in range(3)])]
    assert plan_independent_microbatches(media, 1, 8, 4).encoder_microbatch.tolist() == [0, 1, 2]
    apart = plan_independent_microbatches(media, 1, 8, 2, 3)
    assert (apart.encoder_microbatch.tolist(), apart.row.tolist()) == ([0, 0, 0], [0, 1, 2])


def test_what_fits_no_unit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a medium of 9 positions does not fit .* of 8; valid"):
        plan_independent_microbatches([np.array([[0, 0, 9, 1, 1]])], 1, 8)
    media = [np.array([[0, 0, 5, 1, 1], [0, 5, 5, 1, 1]])]
    with pytest.raises(
        ValueError, match=r"need 2 encoder microbatches of 8 positions each; valid: at most 1"
    ):
        plan_independent_microbatches(media, 1, 8, 1)


# ---- further axes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphRows(AudioRowSpec):
    """Nodes, and edges between them."""

    @property
    def budgets(self) -> Mapping[str, str]:
        return {**super().budgets, "edge": "edges"}

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        return {**super().arrays, "edges": ArraySpec("edge", (2,), offset="position")}


GRAPHS, EDGES = GraphRows("graphs", mels=1, stride=1), 8


def packed_graphs(rng: np.random.Generator) -> tuple[ModuleRows, Ints, list[Any]]:
    """Two rows with graphs of random sizes, their places, and the graphs."""
    rows, places, graphs = empty_rows(GRAPHS, 2, 12, [EDGES]), [], []
    for row in range(2):
        start = first = 0
        for number in range(int(rng.integers(0, 4))):
            nodes, edges = int(rng.integers(1, 5)), int(rng.integers(0, 3))
            ends = rng.integers(0, nodes, (edges, 2), np.int32)
            inputs = rng.normal(size=(nodes, 1)).astype(np.float32)
            position = np.arange(nodes, dtype=np.int32)[:, None]
            graph = ProcessedMedium(inputs, position, {"edges": ends}, entries=(edges,))
            write_medium(rows, GRAPHS, row, start, number + 1, graph, [first])
            places.append((row, start, nodes, number + 1, 1, first, edges))
            graphs.append(graph)
            start, first = start + nodes, first + edges
    return rows, np.array(places, np.int64).reshape(-1, len(MEDIUM) + 2), graphs


@given(st.integers(0, 999), st.sampled_from([(None, False), (None, True), (3, False)]))
def test_edges_move_with_their_graphs(seed: int, how: tuple[int | None, bool]) -> None:
    rng = np.random.default_rng(seed)
    packed = [packed_graphs(rng) for _ in range(3)]
    media, (each, together) = [places for _, places, _ in packed], how
    units = plan_independent_microbatches(media, 2, 6, each, 1, together, [EDGES])
    arrays = [rows for rows, _, _ in packed]
    moved = rows_of_independent_microbatches(units, arrays, [0, 1], [0, 1], GRAPHS, 6)
    assert moved.array("edges").shape[2] == EDGES
    graphs = [graph for _, _, own in packed for graph in own]
    for number, graph in enumerate(graphs):  # places are by row and start already
        lengths = MediumLengths(len(graph.inputs), None, graph.entries)
        encoder_microbatch, row, start = (
            int(own[number]) for own in (units.encoder_microbatch, units.row, units.start)
        )
        here = of_names({name: array[encoder_microbatch] for name, array in by_name(moved).items()})
        read = read_medium(here, GRAPHS, row, start, lengths, units.offsets[number].tolist())
        np.testing.assert_equal(read.arrays, graph.arrays)
    edges = np.zeros((units.count, 2), int)
    np.add.at(edges, (units.encoder_microbatch, units.row), units.media[:, 6])
    assert edges.max(initial=0) <= EDGES


def test_a_unit_ends_where_its_edges_do() -> None:
    media = [np.array([[0, 0, 1, 1, 1, 0, 5]]), np.array([[0, 0, 1, 1, 1, 0, 4]])]
    assert plan_independent_microbatches(media, 1, 8, entries=[8]).encoder_microbatch.tolist() == [
        0,
        1,
    ]
    assert plan_independent_microbatches(media, 1, 8, entries=[9]).encoder_microbatch.tolist() == [
        0,
        0,
    ]
