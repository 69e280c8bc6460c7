"""Measurements of kernels of an accelerator: exchanges, attention, products by groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.accelerator_setting import MachineSetting, Measure
from benchmarks.cases import attention as check_attention
from benchmarks.cases import grouped as check_grouped
from benchmarks.cases.attention import AttentionCase
from benchmarks.cases.exchange import MergeCase
from benchmarks.cases.grouped import GroupedCase
from benchmarks.findings import make_row
from benchmarks.pipeline import Row
from mllm_jax.layers.attention.limits import able_backends
from mllm_jax.layers.config.kinds import MaskKind

# ---- exchange ------------------------------------------------------------------------------------


def list_exchanges(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """Outputs to random tokens of all devices, padded, and ragged where the platform can."""
    modes = {"padded": False} if setting.platform == "cpu" else {"ragged": True, "padded": False}
    for name, ragged in modes.items():
        case = MergeCase(setting.devices, *setting.sizes.exchange, ragged)
        yield name, partial(_measure_exchange, setting, name, case)


def _measure_exchange(setting: MachineSetting, name: str, case: MergeCase) -> Iterator[Row]:
    run = case.compile_program()
    error, seconds = case.largest_error(run()), setting.time_programs({0: run})[0]
    count = len(setting.devices)
    over = f"over {count} devices" if count > 1 else "of one device with itself: a copy"
    note = f"{case.bytes / 2**20:.4g} MiB of a device there and its gradient back, {over}"
    yield make_row("", f"{name}: forward and backward", seconds, note=note)
    wrong = "" if error == 0 else "FAILED: not what a lookup gives"
    yield make_row("", f"{name}: error", error, 0.0, "largest", wrong, failed=error != 0)


# ---- attention -----------------------------------------------------------------------------------


def list_attentions(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """Every backend that can run here against the reference, causal and not."""
    case = setting.sizes.attention
    able = able_backends(
        setting.platform, tokens=case.tokens, head_dim=case.width, dtype="bfloat16"
    )
    for backend in able:
        for causal in (True, False):
            what = f"{backend}, {'causal' if causal else 'bidirectional'}"
            yield what, partial(_measure_attention, setting, what, backend, causal)


def _measure_attention(
    setting: MachineSetting, what: str, backend: str, causal: bool
) -> Iterator[Row]:
    if backend != "reference":
        small = replace(AttentionCase(), width=setting.sizes.attention.width)
        modes = (small.make_program(name, MaskKind(causal)) for name in (backend, "reference"))
        output, expected = (run(small.inputs()) for run in modes)
        yield from _error_rows(what, small.relative_errors(output, expected), check_attention.LIMIT)
    case = setting.sizes.attention
    inputs = case.inputs()
    names = dict.fromkeys((backend, "reference"))
    runs = {name: partial(case.make_program(name, MaskKind(causal)), inputs) for name in names}
    seconds = setting.time_programs(runs)
    note = f"forward and backward, 2 x {case.tokens} tokens, {case.heads} x {case.width} wide"
    reference = seconds["reference"] if backend != "reference" else None
    times = (
        f"; {reference / seconds[backend]:.3g} times as fast as the reference" if reference else ""
    )
    yield make_row("", what, seconds[backend], reference, note=note + times)


# ---- experts -------------------------------------------------------------------------------------


def list_grouped_products(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """Products by groups against the reference, and against a dense product of as many FLOPs."""
    yield "grouped product: errors", partial(_grouped_errors, GroupedCase())
    for way in ("grouped", "ragged_dot"):
        yield f"{way}: forward and backward", partial(_measure_grouped, setting, way)


def _grouped_errors(case: GroupedCase) -> Iterator[Row]:
    output, expected = (
        case.make_program(way)(case.inputs_of(way)) for way in ("grouped", "reference")
    )
    yield from _error_rows(
        "grouped product", case.relative_errors(output, expected), check_grouped.LIMIT
    )


def _measure_grouped(setting: MachineSetting, way: str) -> Iterator[Row]:
    case = setting.sizes.grouped
    runs = {each: partial(case.make_program(each), case.inputs_of(each)) for each in (way, "dense")}
    seconds = setting.time_programs(runs)
    note = (
        f"forward and backward, {case.rows} rows of {case.groups} groups, {case.inputs} to "
        f"{case.outputs}; {seconds[way] / seconds['dense']:.3g} times a dense product of as many "
        f"FLOPs, {case.flops / seconds[way] / 1e12:.3g} TFLOP/s"
    )
    yield make_row("", way, seconds[way], seconds["dense"], note=note)


def _error_rows(what: str, errors: tuple[float, float], limit: float) -> Iterator[Row]:
    """Errors of outputs and of gradients, which fail above `limit`."""
    for kind, error in zip(("outputs", "gradients"), errors, strict=True):
        wrong = "" if error < limit else f"FAILED: above {limit:g}"
        failed = not error < limit
        yield make_row("", f"{what}: error of {kind}", error, 0.0, "share", wrong, failed=failed)
