"""Overlap read off small scheduled modules whose answers are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mllm_jax.compile.hlo import HloError, HloInstruction, instruction_flops, parse_hlo, shape_bytes
from mllm_jax.compile.overlap import (
    DeviceSpeeds,
    HloOverlap,
    measure_overlap,
    replica_groups,
    ring_bytes,
)

#: The product below takes 2 seconds, the all-gather 3, its reduce-scatter 6.
SPEEDS = DeviceSpeeds(flops=2 * 8 * 8 * 8 / 2, link=8 * 8 * 2 * 3 / 4 / 3)
HEAD = "HloModule jit_f, is_scheduled=true, entry_computation_layout={()->f32[]}\n\n"
GROUPS = "replica_groups={{0,1,2,3},{4,5,6,7}}"
PRODUCT = """\
%product (p: bf16[8,8], q: bf16[8,8]) -> bf16[8,8] {
  %p = bf16[8,8]{1,0} parameter(0)
  %q = bf16[8,8]{1,0} parameter(1)
  ROOT %r = bf16[8,8]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

"""
GATHER = f"""\
  %s = (bf16[2,8]{{1,0}}, bf16[8,8]{{1,0}}) all-gather-start(%a), {GROUPS}, dimensions={{0}}
"""
GATHERED = "  %d = bf16[8,8]{1,0} all-gather-done(%s)\n"
SCATTER = f"""\
  %t = ((bf16[8,8]{{1,0}}), bf16[4,8]{{1,0}}) reduce-scatter-start(%b), {GROUPS}, dimensions={{0}}
"""
SCATTERED = "  %u = bf16[4,8]{1,0} reduce-scatter-done(%t)\n"


def dot(name: str) -> str:
    return (
        f"  %{name} = bf16[8,8]{{1,0:T(8,128)(2,1)}} fusion(%b, %b), kind=kOutput, calls=%product\n"
    )


def computation(body: str, name: str = "main", entry: str = "ENTRY ") -> str:
    parameters = "  %a = bf16[2,8]{1,0} parameter(0)\n  %b = bf16[8,8]{1,0} parameter(1)\n"
    root = "  ROOT %end = () tuple()\n"
    return f"{entry}%{name} (a: bf16[2,8], b: bf16[8,8]) -> () {{\n{parameters}{body}{root}}}\n\n"


def found(*computations: str, **options) -> HloOverlap:
    text = HEAD + PRODUCT + "".join(computations)
    total = sum(measure_overlap(parse_hlo(text), SPEEDS, **options).values(), HloOverlap())
    assert total.bytes == pytest.approx(total.seconds * SPEEDS.link)
    assert (total.overlapped_bytes > 0) is (total.hidden_seconds > 0)
    return replace(total, bytes=0.0, overlapped_bytes=0.0)


def test_only_what_lies_between_start_and_done_hides():
    body = dot("x") + GATHER + GATHERED + dot("y")
    assert found(computation(body)) == HloOverlap(1, 3.0, 0.0)
    body = dot("x") + GATHER + dot("y") + GATHERED
    assert found(computation(body)) == HloOverlap(1, 3.0, 2.0)


def test_a_collective_hides_no_longer_than_it_takes():
    body = GATHER + dot("x") + dot("y") + dot("z") + GATHERED
    assert found(computation(body)) == HloOverlap(1, 3.0, 3.0)
    assert found(computation(body)).hidden_share == 1


def test_a_product_hides_its_own_time_only_once():
    body = GATHER + SCATTER + dot("x") + GATHERED + SCATTERED
    assert found(computation(body)) == HloOverlap(2, 9.0, 2.0)
    body = GATHER + SCATTER + dot("x") + dot("y") + GATHERED + SCATTERED
    assert found(computation(body)) == HloOverlap(2, 9.0, 4.0)


def test_bytes_are_beside_compute_where_any_is():
    body = GATHER + SCATTER + dot("x") + GATHERED + SCATTERED + GATHER.replace("%s", "%v")
    text = HEAD + PRODUCT + computation(body + GATHERED.replace("%s", "%v").replace("%d", "%w"))
    found = measure_overlap(parse_hlo(text), SPEEDS)
    # The product is shorter than the first gather: the scatter after it has none.
    assert found["all-gather"].share_with_compute == 0.5
    assert found["reduce-scatter"].share_with_compute == 0


def test_collectives_that_block_hide_nothing():
    body = f"  %g = bf16[8,8]{{1,0}} all-gather(%a), {GROUPS}, dimensions={{0}}\n" + dot("x")
    assert found(computation(body)) == HloOverlap(1, 3.0, 0.0)


@pytest.mark.parametrize(("of", "calls"), [("async", "calls"), ("call", "to_apply")])
def test_generic_asynchronous_collectives_with_updates(of, calls):
    inner = f"  %g = bf16[8,8]{{1,0}} all-gather(%a), {GROUPS}, dimensions={{0}}\n"
    wrapped = computation(inner, "wrapped", entry="")
    kind = "((bf16[2,8]{1,0}), bf16[8,8]{1,0}, s32[])"
    body = (
        f"  %s = {kind} {of}-start(%a), {calls}=%wrapped\n{dot('x')}"
        f"  %m = {kind} {of}-update(%s), {calls}=%wrapped\n{dot('y')}"
        f"  %d = bf16[8,8]{{1,0}} {of}-done(%m), {calls}=%wrapped\n"
    )
    assert found(wrapped, computation(body)) == HloOverlap(1, 3.0, 3.0)


def tpu_part(name: str, last: str) -> str:
    gather = (
        f"  %g = bf16[8,8]{{1,0}} all-gather(%a), {GROUPS}, dimensions={{0}}, "
        'frontend_attributes={chain_id="7"}\n'
    )
    return computation(gather + last, name, entry="")


def tpu_call(name: str, called: str) -> str:
    kind = "(bf16[8,8]{1,0:T(8,128)(2,1)}, u32[]{:S(2)})"
    return f"  %{name} = {kind} fusion(%a, %b), kind=kCustom, calls=%{called}\n"


def test_collectives_that_a_tpu_fuses_with_compute():
    start = '  %c = () custom-call(%g), custom_call_target="AsyncCollectiveStart"\n'
    done = '  %c = () custom-call(%g), custom_call_target="AsyncCollectiveDone"\n'
    parts = tpu_part("start", start), tpu_part("middle", dot("x")), tpu_part("done", done)
    begin, end = tpu_call("s", "start"), tpu_call("d", "done")
    body = begin + tpu_call("m", "middle") + end + dot("y")
    assert found(*parts, computation(body)) == HloOverlap(1, 3.0, 2.0)
    with pytest.raises(HloError, match="chain 7 starts and is not done in main"):
        found(*parts, computation(begin))
    with pytest.raises(HloError, match="chain 7 is done and does not start in main"):
        found(*parts, computation(end))


def test_collectives_on_the_sparse_cores_of_a_tpu():
    inner = f"  %g = bf16[8,8]{{1,0}} all-gather(%a), {GROUPS}, dimensions={{0}}\n"
    called = computation(inner, "called", entry="").replace(
        "}\n\n", '}, execution_thread="sparsecore"\n\n'
    )
    kind = "((bf16[2,8]{1,0}, token[]), bf16[8,8]{1,0})"
    body = (
        f'  %s = {kind} call-start(%a), async_execution_thread="sparsecore", to_apply=%called\n'
        f"{dot('x')}  %d = bf16[8,8]{{1,0}} call-done(%s)\n{dot('y')}"
    )
    assert found(called, computation(body)) == HloOverlap(1, 3.0, 2.0)


def loop(rest: str) -> str:
    return f"  %w = () while(%b), condition=%less, body=%body{rest}\n"


CONDITION = """\
%less (p: (s32[])) -> pred[] {
  %n = s32[]{:T(128)} constant(5)
  %p = (s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

"""
UNKNOWN = """\
%less (p: (pred[])) -> pred[] {
  %p = (pred[]) parameter(0)
  ROOT %i = pred[] get-tuple-element(%p), index=0
}

"""


@pytest.mark.parametrize(
    ("condition", "rest", "times"),
    [
        (UNKNOWN, ', backend_config={"known_trip_count":{"n":"3"}}', 3),
        (CONDITION, "", 5),
        (UNKNOWN, "", 1),
        (UNKNOWN, ', metadata={op_name="jit(f)/F+B/while"}', 0.5),
    ],
)
def test_loops_count_as_often_as_they_run(condition, rest, times):
    inside = computation(GATHER + dot("x") + GATHERED, "body", entry="")
    whole = found(
        condition,
        inside,
        computation(loop(rest)),
        runs=lambda loop: 0.5 if "F+B" in loop.scopes else 1.0,
    )
    assert whole == HloOverlap(1, times * 3.0, times * 2.0)


def test_a_loop_beside_a_collective_hides_all_its_iterations():
    inside = computation(dot("x"), "body", entry="")
    body = SCATTER + loop(', backend_config={"known_trip_count":{"n":"2"}}') + SCATTERED
    assert found(UNKNOWN, inside, computation(body)) == HloOverlap(1, 6.0, 4.0)


def test_branches_are_read():
    inside = computation(GATHER + GATHERED, "one", entry="")
    body = "  %c = () conditional(%b), branch_computations={%one, %one}\n"
    assert found(inside, computation(body)) == HloOverlap(2, 6.0, 0.0)
    body = "  %c = () conditional(%b), true_computation=%one, false_computation=%one\n"
    assert found(inside, computation(body)) == HloOverlap(2, 6.0, 0.0)


def test_kinds_are_told_apart():
    module = parse_hlo(
        HEAD + PRODUCT + computation(GATHER + SCATTER + dot("x") + GATHERED + SCATTERED)
    )
    by_kind = measure_overlap(module, SPEEDS)
    assert by_kind == {
        # Of 8 x 8 numbers of two bytes three quarters are sent; the older one hides first.
        "all-gather": HloOverlap(1, 3.0, 2.0, 96.0, 96.0),
        "reduce-scatter": HloOverlap(1, 6.0, 0.0, 192.0),
    }


def test_groups_beyond_a_domain_use_the_network():
    module = parse_hlo(HEAD + PRODUCT + computation(GATHER + GATHERED))
    for domain, seconds in ((8, 3.0), (4, 3.0), (2, 12.0)):
        speeds = replace(SPEEDS, network=SPEEDS.link / 4, domain=domain)
        assert measure_overlap(module, speeds)["all-gather"].seconds == seconds


def test_groups_choose_what_counts():
    module = parse_hlo(HEAD + PRODUCT + computation(GATHER + dot("x") + GATHERED))
    assert not measure_overlap(
        module, SPEEDS, lambda groups: groups != ((0, 1, 2, 3), (4, 5, 6, 7))
    )
    assert HloOverlap().hidden_share == 0


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("replica_groups={{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("replica_groups=[2,3]<=[6]", ((0, 1, 2), (3, 4, 5))),
        ("replica_groups=[3,2]<=[2,3]T(1,0)", ((0, 3), (1, 4), (2, 5))),
        ("replica_groups=mesh['a'=2,'b'=2] {'b'}", ((0, 1), (2, 3))),
        ("replica_groups=mesh['a'=2,'b'=2,'c'=2] {'a','b'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("replica_groups=mesh['a'=2,'b'=2] {'b','a'}", ((0, 2, 1, 3),)),
        ("source_target_pairs={{0,1},{1,0}}", ((0, 1), (1, 0))),
        ("replica_groups={}", ()),
    ],
)
def test_replica_groups(text, groups):
    assert (
        replica_groups(HloInstruction("r", "f32[]", "all-reduce", "", f", {text}", False)) == groups
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "replica_groups=mesh[x=2]{x}",
        "replica_groups=mesh['x'=4] {'x':(2)2}",
        "replica_groups=mesh['x'=4] {'y'}",
    ],
)
def test_unknown_replica_groups_are_refused(text):
    with pytest.raises(HloError, match="replica groups"):
        replica_groups(HloInstruction("r", "f32[]", "all-reduce", "", text, False))


def test_bytes_of_a_ring():
    assert ring_bytes("all-gather", 8, 4) == 6
    assert ring_bytes("reduce-scatter", 2, 4) == 6
    assert ring_bytes("all-reduce", 8, 4) == 12
    assert ring_bytes("collective-permute", 8, 2) == 8
    assert shape_bytes("(bf16[2,8]{1,0:T(8,128)(2,1)}, f32[], pred[3], s4[2])") == 32 + 4 + 3 + 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # A matrix product as TPUs write it.
        ("f32[8,4] convolution(%x, %y), dim_labels=bf_io->bf", 2 * 8 * 4 * 16),
        # Batched over 3: the batch is a dilated dimension, and each input meets one position.
        (
            "f32[3,8,4] convolution(%u, %v), window={size=3 stride=2 lhs_dilate=3}, "
            "dim_labels=0bf_0io->0bf",
            2 * 3 * 8 * 4 * 16,
        ),
        # Same-padded window of 3 over 8 positions: 22 pairs lie inside.
        (
            "f32[1,8,4] convolution(%w, %z), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
            2 * 22 * 4 * 16,
        ),
        (
            'f32[8,4] custom-call(%x, %y), custom_call_target="__cublas$gemm", backend_config='
            '{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}',
            2 * 8 * 4 * 16,
        ),
        ('f32[8,4] custom-call(%x), custom_call_target="other"', 0),
        ("f32[8,16] add(%x, %x)", 0),
    ],
)
def test_flops_of_products(line, expected):
    body = (
        "  %x = f32[8,16] parameter(0)\n  %y = f32[16,4] parameter(1)\n"
        "  %u = f32[3,8,16] parameter(2)\n  %v = f32[3,16,4] parameter(3)\n"
        "  %w = f32[1,8,16] parameter(4)\n  %z = f32[3,16,4] parameter(5)\n"
        f"  ROOT %r = {line}\n"
    )
    module = parse_hlo(f"{HEAD}ENTRY %main (x: f32[]) -> f32[] {{\n{body}}}\n")
    main = module["main"]
    assert instruction_flops(module, main, main.root) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no HLO module"),
        ("module @jit_f {}", "no HLO module"),
        ("HloModule jit_f\n", "not scheduled"),
        (HEAD + computation("", entry=""), "no ENTRY"),
        (HEAD + computation("  what is this\n"), "'what is this' is no instruction"),
        (HEAD + computation("  %x = f32[8] add(%a\n"), "a bracket is not closed"),
    ],
)
def test_texts_that_are_refused(text, reason):
    with pytest.raises(HloError, match=reason):
        parse_hlo(text)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (GATHER, "collective s starts and is not done in main"),
        (GATHERED, "d in main ends 's', which does not start there"),
        ("  %x = bf16[8,8] fusion(%a), kind=kLoop, calls=%gone\n", "'gone' is called, but not in"),
        (
            GATHER + "  %x = f32[8,8] dot(%no, %b), lhs_contracting_dims={1}\n" + GATHERED,
            "no is read in main, but not computed there",
        ),
        (
            "  %g = bf16[8,8] all-gather(%a), replica_groups={}\n",
            "g: replica groups are not listed",
        ),
    ],
)
def test_modules_that_are_refused(body, reason):
    with pytest.raises(HloError, match=reason):
        found(computation(body))


def test_an_instruction_may_go_on_in_further_lines():
    call = '  %k = () custom-call(%b), custom_call_target="kernel", attributes={\n"x": 1\n}}\n'
    assert found(computation(GATHER + call + dot("x") + GATHERED)) == HloOverlap(1, 3.0, 2.0)


def test_copies_are_no_collectives():
    body = "  %c = (bf16[8,8], bf16[8,8], u32[]) copy-start(%b)\n  %d = bf16[8,8] copy-done(%c)\n"
    assert found(computation(body)) == HloOverlap()
