"""Benchmark of whatever device is there: kernels, products, a step of 1B parameters, a pipeline.

Every measurement stands by itself: one that fails on a device is a row with its error's first line
(the log has the traceback), and the others still run. CPUs run tiny shapes, which show that all of
it works; their figures mean nothing.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks.emulated import emulated_rows
from benchmarks.findings import BenchmarkFindings, line_of, make_row
from benchmarks.pipeline import PrintLine, Row
from data.batch import NEXT_TOKEN, PackedBatch
from mllm_jax.calibrate.measure import REPETITIONS, CalibrationPrograms
from mllm_jax.calibrate.probes import InPlaceProgram, make_copy, make_matmul
from mllm_jax.calibrate.timing import lower_quartiles
from mllm_jax.check import attention as check_attention
from mllm_jax.check import grouped as check_grouped
from mllm_jax.check.attention import AttentionCase
from mllm_jax.check.exchange import MergeCase
from mllm_jax.check.grouped import GroupedCase
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.compile.report import temporary_bytes
from mllm_jax.config.hardware import of_kind
from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config
from mllm_jax.layers.attention.limits import PREFERRED, able_backends
from mllm_jax.layers.config.kinds import MaskKind
from mllm_jax.models.module import model_flops
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.models.work.profile import module_parameters
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from mllm_jax.runtime.hardware.peak import peak_flops
from mllm_jax.train.step.batch import place_microbatches
from mllm_jax.train.step.build import build_train_step
from scheduling.costs.hardware import Hardware

logger = logging.getLogger(__name__)

#: Sizes for a CPU in place of the configured ones, by section.
SMALL: Mapping[str, Mapping[str, Any]] = {
    "decoder": {"layers": 4, "d_model": 64, "heads": 4, "kv_heads": 2, "head_dim": 16}
    | {"d_ff": 128, "vocab": 256},
    "encoder": {"layers": 4, "d_model": 32, "heads": 2, "head_dim": 16, "d_ff": 64},
    "data": {"rows": 2, "budgets": {"tokens": 64, "segments": 8, "vision": 32}},
}
#: Batches of which the one with the fullest encoder rows is taken.
DRAWN = 16
#: Yields rows while it measures, so that rows before an error are kept.
Measure = Callable[[], Iterator[Row]]
#: Names and measurements of a part.
Part = Callable[["MachineSetting"], Iterator[tuple[str, Measure]]]


@dataclass(frozen=True)
class MeasurementSizes:
    """Sizes of all measurements but the step.

    Attributes:
        matrices: rows and columns of products.
        attention: shapes that are timed; errors are those of small ones.
        exchange: rows of a device, outputs and tokens of a row, width.
        grouped: products by groups that are timed; errors are those of small ones.
        repetitions: number of repetitions of every timed program.
    """

    matrices: tuple[int, ...]
    attention: AttentionCase
    exchange: tuple[int, int, int, int]
    grouped: GroupedCase
    repetitions: int


SIZES = MeasurementSizes(
    (2048, 4096, 8192),
    AttentionCase(4096, 16, 8, 128),
    (4, 2048, 4096, 2048),
    # Widths of Qwen3-30B-A3B, and half of its experts.
    GroupedCase(rows=32768, trailing=0, groups=64, inputs=2048, outputs=768),
    REPETITIONS,
)
SMALL_SIZES = MeasurementSizes(
    (128,),
    AttentionCase(512, 2, 1, 16),
    (2, 16, 32, 8),
    GroupedCase(96, 0, 4, inputs=16, outputs=8),
    2,
)


@dataclass(frozen=True)
class MachineSetting:
    """The machine and its configuration.

    Attributes:
        config: configuration for all `devices`.
        hardware: the shipped description of the devices; None if there is none.
        steps: seconds and bytes of the measured step, once they are known.
    """

    config: ExperimentConfig
    devices: list[jax.Device]
    sizes: MeasurementSizes
    hardware: Hardware | None
    print_line: PrintLine
    steps: dict[str, float] = field(default_factory=dict)

    @property
    def platform(self) -> str:
        """`cpu`, `gpu` or `tpu`."""
        return self.devices[0].platform

    def time_programs(self, programs: Mapping[Any, Callable[[], Any]]) -> dict[Any, float]:
        """Seconds of every program, run in turns."""
        return lower_quartiles(programs, self.sizes.repetitions)


def bench_accelerator(
    config: ExperimentConfig,
    print_line: PrintLine,
    devices: Sequence[jax.Device] | None = None,
    parts: Sequence[str] | None = None,
) -> BenchmarkFindings:
    """Rows of `COLUMNS`, and whether each `failed`, of what `PARTS` measures on this machine.

    Args:
        devices: devices of one kind; by default all devices that are present.
        parts: names in `PARTS`, which run in its order; by default all.

    Raises:
        ConfigError: the configuration cannot be run on as many devices as there are, or there is no
            such part.
    """
    chosen = _select_parts(parts)
    devices = list(jax.devices() if devices is None else devices)
    small = devices[0].platform == "cpu"
    setting = MachineSetting(
        on_devices(config, devices),
        devices,
        SMALL_SIZES if small else SIZES,
        of_kind(devices[0].device_kind),
        print_line,
    )
    count, note = float(len(devices)), _format_versions(devices[0])
    rows = [_log_row(make_row("device", devices[0].device_kind, count, unit="devices", note=note))]
    for part, measures in chosen.items():
        for what, measure in measures(setting):
            print_line(f"{part}: {what}")
            rows += [_log_row(each) for each in _measure_rows(part, what, measure)]
    return BenchmarkFindings(rows)


def _select_parts(parts: Sequence[str] | None) -> Mapping[str, Part]:
    if parts is None:
        return PARTS
    if unknown := [
        f"--parts: no part {name!r}; valid: {', '.join(PARTS)}"
        for name in parts
        if name not in PARTS
    ]:
        raise ConfigError("bench accelerator", unknown)
    return {name: part for name, part in PARTS.items() if name in parts}


def _log_row(measured: Row) -> Row:
    """`measured`, in the log at once: a run that is interrupted later has it in the log."""
    logger.info("%s", line_of(measured))
    return measured


def _measure_rows(part: str, what: str, measure: Measure) -> Iterator[Row]:
    """The rows of one measurement; whatever a device makes of it, the others are still to run."""
    try:
        for each in measure():
            yield each | {"part": part}
    except Exception as error:
        logger.exception("bench accelerator: %s: %s failed", part, what)
        text = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        yield make_row(part, what, None, unit="-", note=f"FAILED: {text}", failed=True)


def _format_versions(device: jax.Device) -> str:
    """Versions of JAX and of its platform, in one line."""
    version = " ".join(device.client.platform_version.split())
    return f"{device.platform}, JAX {jax.__version__}, {version}"


def on_devices(config: ExperimentConfig, devices: Sequence[jax.Device]) -> ExperimentConfig:
    """`config` with data parallelism over all `devices`, each with the configured rows.

    Raises:
        ConfigError: something in it cannot run on them.
    """
    values, count = config.model_dump(mode="json"), len(devices)
    encoders = values["model"]["encoders"]
    if devices[0].platform == "cpu":
        values["model"]["decoder"] |= SMALL["decoder"]
        for encoder in encoders.values():
            encoder |= SMALL["encoder"]
        values["data"] |= SMALL["data"]
    plan = {"data": count}
    values["parallel"] |= {"platform": devices[0].platform, "devices": count, "decoder": plan}
    values["parallel"]["encoders"] = dict.fromkeys(encoders, plan)
    values["data"]["rows"] *= count
    return resolve_config(values, source=f"bench accelerator on {count} x {devices[0].device_kind}")


# ---- peaks ---------------------------------------------------------------------------------------


def list_products(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """FLOP/s of products of large matrices, bytes per second of a copy, of one device."""
    known, dtype = setting.hardware, "bfloat16"
    peak = known.peak_flops(dtype) / 1e12 if known else None
    for size in setting.sizes.matrices:
        what = f"product of matrices of {size}, {dtype}"
        run = partial(
            _measure_rate, setting, what, partial(make_matmul, setting.devices, dtype, size), peak
        )
        yield what, partial(run, "TFLOP/s", 1e12)
    peak = known.memory_bandwidth / 1e9 if known else None
    what = "copy in place, float32"
    yield (
        what,
        partial(
            _measure_rate, setting, what, partial(make_copy, setting.devices), peak, "GB/s", 1e9
        ),
    )


def _measure_rate(
    setting: MachineSetting,
    what: str,
    make: Callable[[], Any],
    peak: float | None,
    unit: str,
    scale: float,
) -> Iterator[Row]:
    run, amount = make()
    rate = amount / setting.time_programs({0: run})[0] / scale
    note = f"{rate / peak:.1%} of the data sheet" if peak else "peak not described"
    yield make_row("", what, rate, peak, unit, note)


# ---- step ----------------------------------------------------------------------------------------


def list_steps(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """The train step with every attention that `auto` may choose, the first choice first."""
    model, data = setting.config.model, setting.config.data
    shapes = [(data.budgets["tokens"], model.backbone_config.head_dim)]
    for name, encoder in model.others.items():
        shapes.append((data.budgets[name] // encoder.stride, encoder.head_dim))
    dtype = model.dtype_on(setting.platform)
    able = [
        set(able_backends(setting.platform, tokens=tokens, head_dim=n, dtype=dtype))
        for tokens, n in shapes
    ]
    preferred = [b for b in PREFERRED[setting.platform] if all(b in backends for backends in able)]
    # The reference keeps all pairs of tokens, which is much memory: only where nothing else can.
    for backend in [b for b in preferred if b != "reference"] or preferred:
        yield f"train step, attention {backend}", partial(_measure_step, setting, backend)


def _measure_step(setting: MachineSetting, backend: str) -> Iterator[Row]:
    what = f"train step, attention {backend}"
    changed = setting.config.model.model_copy(update={"attention": backend})
    config = setting.config.model_copy(update={"model": changed})
    step = build_train_step(config, setting.devices)
    batch = full_batch(config)
    begin = time.perf_counter()
    state = step.init(jax.random.key(config.train.seed))
    placed = place_microbatches([batch], step)
    program = step.update.lower(state, placed).compile()
    yield make_row("", f"{what}: initialise, lower, compile", time.perf_counter() - begin)
    run = InPlaceProgram(lambda *inputs: program(*inputs)[0], state, (placed,))
    seconds = setting.time_programs({0: run.run})[0]
    loss = float(program(run.state, placed)[1]["loss"])
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss}")
    sizes = program.memory_analysis()
    assert sizes is not None  # every backend that we compile for reports them
    platform = setting.devices[0].platform
    size = sizes.argument_size_in_bytes + temporary_bytes(sizes, platform)
    setting.steps.setdefault("seconds", seconds)
    setting.steps.setdefault("bytes", size)
    yield from _report_figures(setting, config, batch, what, seconds)
    yield make_row("", f"{what}: arguments and temporaries", size / 2**30, unit="GiB of a device")
    used = (setting.devices[0].memory_stats() or {}).get("peak_bytes_in_use")
    note = "" if used else "the device does not report it"
    peak = used / 2**30 if used else None
    yield make_row("", f"{what}: most in use so far", peak, unit="GiB of a device", note=note)


def _report_figures(
    setting: MachineSetting, config: ExperimentConfig, batch: PackedBatch, what: str, seconds: float
) -> Iterator[Row]:
    """Time, tokens per second and MFU."""
    lengths = {"decoder": _segment_lengths(batch.decoder.segment_ids)}
    for name, rows in batch.encoders.items():
        lengths[name] = _segment_lengths(np.abs(rows.segment_ids))
    count, flops = len(setting.devices), model_flops(config.model, lengths)
    size = f"{config.data.rows} rows of {config.data.budgets['tokens']} tokens"
    note = f"{size}, {_format_counts(config)}"
    yield make_row("", what, seconds, note=note)
    tokens = float(sum(lengths["decoder"]))
    yield make_row("", f"{what}: tokens", tokens / seconds / count, unit="per second and device")
    peak = peak_flops(setting.devices[0])
    mfu = flops / seconds / count / peak if peak else None
    rate = f"{flops / seconds / count / 1e12:.4g} TFLOP/s of a device for the samples"
    yield make_row("", f"{what}: MFU", mfu, unit="share", note=rate)


def _format_counts(config: ExperimentConfig) -> str:
    counted = module_parameters(config.model).items()
    counts = [f"{name} {count / 1e9:.3g}B" for name, count in counted]
    return f"parameters: {', '.join(counts)}"


def full_batch(config: ExperimentConfig) -> PackedBatch:
    """A microbatch of full rows: two segments, a loss on each token, and many media."""
    data = config.data
    media = {name: data.budgets[name] for name in config.model.buckets}
    drawn = [
        synthetic_batch(config.model, data.rows, data.budgets["tokens"], media, seed)
        for seed in range(DRAWN)
    ]
    batch = max(drawn, key=_count_used)
    half = -(-data.budgets["tokens"] // 2)
    places = np.broadcast_to(np.arange(data.budgets["tokens"]), batch.decoder.inputs.shape)
    learnt = batch.decoder.next_token
    decoder = replace(
        batch.decoder,
        segment_ids=(places // half + 1).astype(np.int32),
        positions=(places % half).astype(np.int32)[..., None],
        index=(places % half).astype(np.int32),
        targets={NEXT_TOKEN: replace(learnt, weights=np.ones(places.shape, np.float32))},
    )
    return replace(batch, rows={**batch.rows, BACKBONE: decoder})


def _count_used(batch: PackedBatch) -> float:
    """Positions of encoders that hold media."""
    return sum(float(np.count_nonzero(rows.segment_ids)) for rows in batch.encoders.values())


def _segment_lengths(segment_ids: np.ndarray) -> list[int]:
    """Lengths of all segments of rows, without padding."""
    return [n for row_ids in segment_ids for n in np.bincount(row_ids)[1:].tolist() if n]


# ---- cost model ----------------------------------------------------------------------------------


def list_predictions(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """The step by the shipped description of the device, and by constants that are calibrated."""
    if setting.hardware is not None:
        what = f"step, by configs/hardware/{setting.hardware.name}.yaml"
        yield what, partial(_compare_prediction, setting, setting.hardware, what)
    yield "step, calibrated", partial(_measure_calibration, setting)


def _measure_calibration(setting: MachineSetting) -> Iterator[Row]:
    bench = CalibrationPrograms.build(setting.config, setting.print_line)
    fitted = bench.fit_constants(setting.time_programs(bench.programs), "calibrated")
    for name, value in fitted.constants.items():
        note = "kept as it was" if name.rpartition(".")[2] in fitted.unfitted else ""
        yield make_row("", f"calibrated {name}", value, unit="constant", note=note)
    errors = [abs(each["error"]) for each in fitted.rows]
    yield make_row("", "calibration: median error", float(np.median(errors)), unit="share")
    yield from _compare_prediction(setting, fitted.hardware, "step, calibrated")


def _compare_prediction(setting: MachineSetting, hardware: Hardware, what: str) -> Iterator[Row]:
    """Seconds and bytes of the configured step: measured and predicted."""
    seconds = simulate_step(setting.config, hardware).makespan
    yield _comparison_row(f"{what}: seconds", setting.steps.get("seconds"), seconds, "s")
    size, scale = predict_memory(setting.config, hardware).total, 2**30
    measured = setting.steps.get("bytes")
    memory = None if measured is None else measured / scale
    yield _comparison_row(f"{what}: memory", memory, size / scale, "GiB of a device")


def _comparison_row(what: str, measured: float | None, predicted: float, unit: str) -> Row:
    error = "step not measured" if measured is None else f"{predicted / measured - 1:+.1%}"
    return make_row("", what, measured, predicted, unit, f"reference: predicted, {error}")


# ---- pipeline ------------------------------------------------------------------------------------


def list_pipelines(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """See `benchmarks.emulated`."""

    def measure_stages() -> Iterator[Row]:
        for what, measured, reference, unit, note, good in emulated_rows(
            setting.config, setting.devices, setting.time_programs
        ):
            yield make_row("", what, measured, reference, unit, note, failed=not good)

    yield "stages", measure_stages


# ---- exchange ------------------------------------------------------------------------------------


def list_exchanges(setting: MachineSetting) -> Iterator[tuple[str, Measure]]:
    """Outputs to random tokens of all devices, padded, and ragged where the platform can."""
    ways = {"padded": False} if setting.platform == "cpu" else {"ragged": True, "padded": False}
    for name, ragged in ways.items():
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
        ways = (small.make_program(name, MaskKind(causal)) for name in (backend, "reference"))
        output, expected = (run(small.inputs()) for run in ways)
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


#: Kernels last: one that breaks its device leaves the rest measured.
PARTS: Mapping[str, Part] = {
    "products": list_products,
    "step": list_steps,
    "cost_model": list_predictions,
    "pipeline": list_pipelines,
    "exchange": list_exchanges,
    "attention": list_attentions,
    "experts": list_grouped_products,
}
