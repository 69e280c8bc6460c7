"""An assignment keeps every limit, lets the oldest through, and balances every such phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.batch import PackedBatch
from data.config import Balance, DataConfig
from data.faults import FaultKind
from data.loading.assemble import BatchAssembler
from data.planning.balance import lpt
from data.planning.bucket_thresholds import bucket_seconds, group_seconds
from data.planning.ladder import Ladder
from data.planning.lengths import measure
from data.planning.packing import make_capacity, spans_of
from data.planning.problem import BalanceProblem
from data.planning.row_assignment import RowAssigner
from data.planning.steps import StepPacker
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand
from data.processing.processor import Processor
from data.rows.spec import BucketCost, LengthBucket
from data.sample import DataError, Lengths
from mllm_jax.train.step.batch_placement import select_rows
from tests.data.planning.test_packing import sample_lengths
from tests.data.samples import (
    AUDIO,
    CAPACITY,
    TEXT,
    UNITS,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    Noise,
    Picture,
    assert_same_arrays,
    assign_samples,
    make_lengths,
    make_sample,
    mixed_source,
    of_example,
    of_tokens,
)

BALANCES = st.sampled_from(get_args(Balance))
#: Patches of images, with many that fill a row or a half of one.
SIZES = st.sampled_from([72, 72, 36, 36]) | st.integers(1, 72)


@given(
    samples=st.lists(sample_lengths, min_size=1, max_size=30),
    rows=st.integers(1, 4),
    balance=BALANCES,
)
def test_rows_keep_their_limits_and_the_oldest_is_placed(
    samples: list[Lengths], rows: int, balance: Balance
) -> None:
    packer = StepPacker(CAPACITY, rows, 1, balance == "per_phase", evenly=False)
    samples = [n for n in samples if packer.misfit(n) is None]
    here, assigned = assign_samples(samples, balance, rows)
    assert here[:1] == [0][: len(samples)]
    used: Counter[tuple[str, int]] = Counter()
    for number, row, media in zip(here, assigned.rows, assigned.media, strict=True):
        lengths = samples[number]
        used["tokens", row] += lengths.total("decoder")
        used["segments", row] += 1
        assert {name: len(own) for name, own in media.items() if own} == {
            name: len(own) for name, own in lengths.modules.items() if own and name != "decoder"
        }
        for spec in (VISION, AUDIO):
            where = media.get(spec.name, ())
            for r, span in zip(where, spans_of(spec, lengths.counts(spec.name)), strict=True):
                used[spec.name, r] += span
                used[f"{spec.name} segments", r] += 1
            if balance != "per_phase":
                assert set(where) <= {row}
    limits = dict(zip(CAPACITY.resources, CAPACITY.limits, strict=True))
    assert all(row in range(rows) and n <= limits[name] for (name, row), n in used.items())
    for name, loads in assigned.loads.items():
        assert loads.before.sum() == pytest.approx(loads.after.sum())
        balanced = balance == "per_phase" or (balance == "backbone" and name == "decoder")
        if balanced:
            assert loads.after.max() <= loads.before.max() * (1 + 1e-6)
        elif balance == "none":
            np.testing.assert_array_equal(loads.after, loads.before)


def test_every_phase_is_balanced_by_itself() -> None:
    """Long and short texts, each with large and with small images."""
    images = (30, 30, 4, 4)
    samples = [make_lengths(n, {"vision": (patches,)}) for n in (60, 10) for patches in images]
    by = {name: assign_samples(samples, name, 4)[1] for name in get_args(Balance)}
    even = {
        n: [float(d.loads[n].after.max() / d.loads[n].after.mean()) for d in by.values()]
        for n in ("decoder", "vision")
    }
    none, decoder, phases = (
        dict(zip(even, own, strict=True)) for own in zip(*even.values(), strict=True)
    )
    assert decoder["decoder"] == pytest.approx(1)
    assert phases["decoder"] == pytest.approx(1)
    assert phases["vision"] == pytest.approx(1)
    assert none["decoder"] > 1.5
    assert decoder["vision"] > 1.2


def test_a_sample_that_waits_takes_nothing() -> None:
    """There is room for the second one's text but not for its image; the third needs that room."""
    samples = [
        make_lengths(100, {"vision": (72,)}),
        make_lengths(200, {"vision": (8,)}),
        make_lengths(212),
    ]
    assert assign_samples(samples, "per_phase", 1)[0] == [0, 2]


@pytest.mark.parametrize("bucket", [None, LengthBucket("vision")])
def test_media_are_encoded_on_the_host_that_needs_them(bucket: LengthBucket | None) -> None:
    name = "vision" if bucket is None else "wide"
    capacity = make_capacity(
        {"tokens": 312, name: 72, "audio": 640, "segments": 24},
        (TEXT, replace(VISION, name=name, bucket=bucket), AUDIO),
    )
    work = WORK | {name: WORK["vision"]}
    samples = [make_lengths(200 + i, {name: (40 + 2 * i,)}) for i in range(4)]
    hosts = {"decoder": [0, 1, 1, 0], name: [0, 0, 1, 1], "audio": [0, 0, 0, 0]}
    crossing = []
    for where in ({}, hosts):
        _, assigned = assign_samples(samples, "per_phase", 4, work, where, capacity=capacity)
        media = [own[name][0] for own in assigned.media]
        rows = list(zip(media, assigned.rows, strict=True))
        assert sorted(row for row, _ in rows) == [0, 1, 2, 3]
        crossing.append(
            sum(hosts[name][e] != hosts["decoder"][d] for e, d in rows if d is not None)
        )
    assert crossing[0] > 0
    assert crossing[1] == 0


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 72), max_size=8),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 72]),
)
def test_groups_of_a_bucket_by_cost_are_even_and_fill_few_rows(
    lengths: list[int], groups: int, row: int
) -> None:
    cost = BucketCost(groups, 0.0, 1.0, 0.01, row)
    budgets = {"tokens": 312, "long": 72, "audio": 640, "segments": 24}
    capacity = make_capacity(
        budgets,
        (TEXT, replace(VISION, name="long", bucket=LengthBucket("vision", cost=cost)), AUDIO),
    )
    samples = [make_lengths(10, {"long": (n,)}) for n in lengths]
    _, assigned = assign_samples(
        samples, "per_phase", 8, WORK | {"long": WORK["vision"]}, capacity=capacity
    )
    rows = np.array([own["long"][0] for own in assigned.media], np.int64)
    spans = np.array(spans_of(VISION, lengths), np.int64)
    filled = np.bincount(rows, spans, minlength=8)
    assert filled.max(initial=0) <= 72
    each = 8 // groups
    if row and each > 1:
        # Rows with media are as many on all groups, and no two of all would fit into one.
        number = np.count_nonzero(filled.reshape(groups, each), axis=1)
        assert number.max() - number.min() <= 1
        used = filled[filled > 0]
        assert all(a + b > 72 for i, a in enumerate(used) for b in used[:i])
        # A cut expects the seconds of what is assigned.
        seconds = group_seconds(spans, rows // each, rows, cost).max()
        assert bucket_seconds(spans, cost) == pytest.approx(seconds)
        return
    even = np.bincount(
        lpt(BalanceProblem(np.array(lengths, np.int64), groups, cost)), minlength=groups
    )
    assert sorted(np.bincount(rows // each, minlength=groups)) == sorted(even) or each == 1
    for own in filled.reshape(groups, each):
        used = own[own > 0]
        # No two rows of a group would fit into one.
        assert all(a + b > 72 for i, a in enumerate(used) for b in used[:i])


@given(st.lists(SIZES, min_size=12, max_size=24), st.sampled_from([0.0, 1.0]))
def test_what_the_groups_of_a_bucket_cannot_hold_has_a_row_all_the_same(
    lengths: list[int], each: float
) -> None:
    """Groups may be full for an assignment by their cost alone, where the rows of all are not."""
    cost = BucketCost(2, 0.0, each, 0.01, 0)
    budgets = {"tokens": 312, "long": 72, "audio": 640, "segments": 24}
    bucket = replace(VISION, name="long", bucket=LengthBucket("vision", cost=cost))
    samples = [make_lengths(10, {"long": (n,)}) for n in lengths]
    work = WORK | {"long": WORK["vision"]}
    capacity = make_capacity(budgets, (TEXT, bucket, AUDIO))
    here, assigned = assign_samples(samples, "per_phase", 8, work, capacity=capacity)
    spans = spans_of(VISION, [lengths[number] for number in here])
    filled = Counter[int]()
    for span, media in zip(spans, assigned.media, strict=True):
        (row,) = media["long"]
        filled[row] += span
    assert set(filled) <= set(range(8))
    assert max(filled.values()) <= 72


def test_the_work_of_all_balanced_phases_must_be_known() -> None:
    with pytest.raises(ValueError, match="per_phase must know the work of vision"):
        assign_samples([], "per_phase", 2, {k: WORK[k] for k in ("decoder", "audio")})
    assign_samples([], "none", 2, {})
    assign_samples([], "backbone", 2, {"decoder": WORK["decoder"]})


# ---- algorithms of users -------------------------------------------------------------------------


def one_by_one(problem: BalanceProblem) -> list[list[int]]:
    """Assign items in turn, whatever they cost."""
    return [list(range(r, len(problem.lengths), problem.ranks)) for r in range(problem.ranks)]


def forgetful(problem: BalanceProblem) -> list[list[int]]:
    """All items but the last."""
    return [list(range(len(problem.lengths) - 1)), *[[]] * (problem.ranks - 1)]


def repeating(problem: BalanceProblem) -> list[list[int]]:
    """The first item on every rank."""
    return [[*range(len(problem.lengths))], *[[0]] * (problem.ranks - 1)]


SMALL = [make_lengths(20 + n, {"vision": (8 * n,)}) for n in range(1, 6)]


@pytest.mark.parametrize("phase", ["decoder", "vision"])
def test_an_algorithm_of_a_user_deals_its_tower(phase: str, monkeypatch: Any) -> None:
    called: list[BalanceProblem] = []

    def counted(problem: BalanceProblem, own: Any = one_by_one) -> Any:
        called.append(problem)
        return own(problem)

    monkeypatch.setattr(f"{__name__}.one_by_one", counted, raising=True)
    how = {phase: {"algorithm": f"{__name__}:one_by_one"}}
    here, _ = assign_samples(SMALL, "per_phase", 2, balancing=how)
    assert len(here) == len(SMALL)
    lengths = [n.total("decoder") if phase == "decoder" else n.counts("vision")[0] for n in SMALL]
    assert [problem.lengths.tolist() for problem in called] == [lengths]


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("forgetful", "drops item clip 4"),
        ("repeating", "repeats item clip 0: ranks 0 and 1"),
    ],
)
def test_an_algorithm_that_drops_or_repeats_a_sample_is_refused(
    algorithm: str, message: str
) -> None:
    how = {"vision": {"algorithm": f"{__name__}:{algorithm}"}}
    with pytest.raises(DataError, match=message):
        assign_samples(SMALL, "per_phase", 2, name="clip {}".format, balancing=how)


@pytest.mark.parametrize(
    ("cost", "rows"), [("padded", [[8], [32]]), ("packed", [[8, 32], [8, 32]])]
)
def test_a_tower_that_pads_is_distributed_by_runs_of_like_lengths(
    cost: str, rows: list[list[int]]
) -> None:
    samples = [make_lengths(20, {"vision": (n,)}) for n in (8, 32, 8, 8, 32, 8)]
    _, assigned = assign_samples(samples, "per_phase", 2, balancing={"vision": {"cost": cost}})
    by_row: dict[int, set[int]] = {}
    for lengths, media in zip(samples, assigned.media, strict=True):
        by_row.setdefault(media["vision"][0], set()).update(lengths.counts("vision"))
    assert sorted(map(sorted, by_row.values())) == rows


def test_an_unknown_tower_or_algorithm_is_refused() -> None:
    with pytest.raises(DataError, match=r"data.balancing.video: no such module; valid: decoder"):
        assign_samples([], "per_phase", 2, balancing={"video": {}})
    with pytest.raises(DataError, match=r"data.balancing.audio.algorithm: .*'no.where:at'"):
        assign_samples([], "per_phase", 2, balancing={"audio": {"algorithm": "no.where:at"}})


# ---- from plans to arrays ------------------------------------------------------------------------


def planned(source: ListSource, processor: Processor, config: Any) -> MicrobatchPlan:
    return BatchPlanner(
        source, measure(source, processor), config, CAPACITY, LoaderState(0), TrainingDemand(WORK)
    ).plan()


def assembled(
    source: ListSource,
    processor: Processor,
    config: Any,
    plan: MicrobatchPlan,
    rows: dict[str, list[int]],
) -> PackedBatch:
    return BatchAssembler(source, processor, config, rows, by_parts=True)(
        plan.placements, CAPACITY
    )[0]


def test_what_is_merged_is_the_same_under_every_balance(
    processor: Processor, make_config: MakeConfig
) -> None:
    """A sample has the same tokens and the same encoder inputs at its multimodal positions."""
    source = mixed_source(12)
    everywhere = {name: list(range(4)) for name in ("decoder", "vision", "audio")}
    seen = []
    for balance in get_args(Balance):
        config = make_config(rows=4, balance=balance, lookahead=12)
        plan = planned(source, processor, config)
        batch = assembled(source, processor, config, plan, everywhere)
        seen.append({p.index: content(batch, p, processor) for p in plan.placements})
    assert len(seen[0]) == 12
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


def content(batch: PackedBatch, placement: Any, processor: Processor) -> list[bytes]:
    start, row = placement.start, placement.row
    span = np.s_[row, start : start + placement.lengths.total("decoder")]
    decoder = batch.text_rows
    found = [array[span].tobytes() for array in of_example(decoder)]
    for name, spec in processor.media.items():
        inputs = batch.rows[name].inputs
        outputs = inputs.reshape(-1, spec.reduction * spec.features)
        index = decoder.merges[name][span]
        found += [np.flatnonzero(index >= 0).tobytes(), outputs[index[index >= 0]].tobytes()]
    return found


def test_hosts_read_each_medium_once(
    processor: Processor, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, config = mixed_source(20), make_config(rows=4, balance="per_phase")
    plan = planned(source, processor, config)
    everywhere = {name: list(range(4)) for name in ("decoder", "vision", "audio")}
    whole = assembled(source, processor, config, plan, everywhere)
    loads: Counter[int] = Counter()
    for kind in (Picture, Noise):
        load = kind.load

        def counted(self: Any, *args: Any, load: Any = load) -> Any:
            loads[id(self)] += 1
            return load(self, *args)

        monkeypatch.setattr(kind, "load", counted)
    for host in range(2):
        rows = {
            "decoder": [2 * host, 2 * host + 1],
            "vision": [host, host + 2],
            "audio": [3, 2, 1, 0] if host else [],
        }
        part = assembled(source, processor, config, plan, rows)
        assert_same_arrays(part, select_rows(whole, rows))
    samples = [source.samples[p.index] for p in plan.placements]
    media = [
        id(m) for s in samples if not isinstance(s, str) for m in (*s.of("image"), *s.of("audio"))
    ]
    assert loads == Counter(media)


def test_a_bad_medium_is_blank_and_reported(processor: Processor, make_config: MakeConfig) -> None:
    config = make_config(rows=1, balance="per_phase")
    sample = make_sample("liar", [40, 24])
    liar = type(sample)(
        sample.name,
        sample.turns,
        {"image": (Picture(16, 40, claimed=(16, 60)), sample.of("image")[1])},
    )
    rows = {name: [0] for name in ("decoder", "vision", "audio")}
    source = ListSource([liar])
    plan = planned(source, processor, config)
    assembler = BatchAssembler(source, processor, config, rows, by_parts=True)
    batch, skipped = assembler(plan.placements, CAPACITY)
    ((name, fault),) = set(skipped)
    assert name == "liar"
    assert "medium 0 of vision was measured as 8 positions but holds 5" in fault.text
    assert fault.kind == FaultKind.LENGTH
    vision = batch.rows["vision"]
    blank = vision.segment_ids[0] == plan.placements[0].media["vision"][0][2]
    assert blank.sum() == 8
    assert not vision.inputs[0][blank].any()
    assert vision.inputs[0][~blank].any()
    # The text is here, and is left out; another process that holds it is told where it is.
    assert not any(array.any() for array in of_tokens(batch.text_rows))
    _, missing = assembler.assemble_batch(plan.placements, CAPACITY)
    assert missing == tuple((placement, (name, fault)) for placement in plan.placements)


@pytest.mark.parametrize("balance", ["backbone", "per_phase"])
@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 100), min_size=4, max_size=12),
    readers=st.lists(st.integers(0, 1), min_size=12, max_size=12),
)
def test_rows_lie_where_most_of_their_tokens_are_read(
    balance: Balance, lengths: list[int], readers: list[int]
) -> None:
    """However rows are numbered, no more tokens would stay on the host that has read them."""
    where, samples = [0, 0, 1, 1], [make_lengths(n) for n in lengths]
    hosts = dict.fromkeys(("decoder", "vision", "audio"), where)
    config = make_balance_config(balance, len(where))
    packed = StepPacker(CAPACITY, len(where), 1, balance == "per_phase", evenly=False)(samples)
    here = packed.placed_samples
    ladder = Ladder.build(config, UNITS)
    assigner = RowAssigner(config, CAPACITY, ladder, WORK, hosts)
    own = [samples[i] for i in here]
    assigned = assigner(own, packed.select_samples(here), readers=readers[: len(own)])

    def kept(order: Sequence[int]) -> int:
        rows = [where[order[row]] for row in assigned.rows]
        return sum(
            one.total("decoder")
            for one, row, read in zip(own, rows, readers, strict=False)
            if row == read
        )

    assert kept(range(4)) == max(map(kept, permutations(range(4))))


def make_balance_config(balance: Balance, rows: int) -> DataConfig:
    budgets = {name: CAPACITY.limit(name) for name in ("tokens", "vision", "audio", "segments")}
    return DataConfig.model_validate({"budgets": budgets, "balance": balance, "rows": rows})
