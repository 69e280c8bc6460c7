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
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from benchmarks.accelerator_kernels import list_attentions, list_exchanges, list_grouped_products
from benchmarks.accelerator_setting import SIZES, SMALL_SIZES, MachineSetting, Measure
from benchmarks.emulated import emulated_rows
from benchmarks.findings import BenchmarkFindings, line_of, make_row
from benchmarks.pipeline import PrintLine, Row
from data.batch import NEXT_TOKEN, PackedBatch
from mllm_jax.calibrate.measure import CalibrationPrograms
from mllm_jax.calibrate.probes import InPlaceProgram, make_copy, make_matmul
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.compile.report import temporary_bytes
from mllm_jax.config.hardware import of_kind
from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config
from mllm_jax.layers.attention.limits import PREFERRED, able_backends
from mllm_jax.models.module import model_flops
from mllm_jax.models.short_form import module_values, sections_of_modules
from mllm_jax.models.work.profile import module_parameters
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from mllm_jax.runtime.hardware.peak import peak_flops
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_train_step
from scheduling.costs.hardware import Hardware

logger = logging.getLogger(__name__)

#: Sizes for a CPU in place of the configured ones, by section.
SMALL: Mapping[str, Mapping[str, Any]] = {
    "backbone": {"layers": 4, "d_model": 64, "heads": 4, "kv_heads": 2, "head_dim": 16}
    | {"d_ff": 128, "vocab": 256},
    "encoder": {"layers": 4, "d_model": 32, "heads": 2, "head_dim": 16, "d_ff": 64},
    "data": {"rows": 2, "budgets": {"tokens": 64, "segments": 8, "vision": 32}},
}
#: Batches of which the one with the fullest encoder rows is taken.
DRAWN = 16
#: Names and measurements of a part.
Part = Callable[[MachineSetting], Iterator[tuple[str, Measure]]]


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
    backbone = config.model.backbone
    modules = module_values(values["model"], backbone)
    if devices[0].platform == "cpu":
        for name, module in modules.items():
            module |= SMALL["backbone" if name == backbone else "encoder"]
        values["data"] |= SMALL["data"]
    values["parallel"] |= {"platform": devices[0].platform, "devices": count}
    values["parallel"] |= sections_of_modules({name: {"data": count} for name in modules}, backbone)
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
    backbone = config.model.backbone
    lengths = {
        name: _segment_lengths(np.abs(rows.segment_ids)) for name, rows in batch.rows.items()
    }
    count, flops = len(setting.devices), model_flops(config.model, lengths)
    size = f"{config.data.rows} rows of {config.data.budgets['tokens']} tokens"
    note = f"{size}, {_format_counts(config)}"
    yield make_row("", what, seconds, note=note)
    tokens = float(sum(lengths[backbone]))
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
    places = np.broadcast_to(np.arange(data.budgets["tokens"]), batch.text_rows.inputs.shape)
    learnt = batch.text_rows.next_token
    decoder = replace(
        batch.text_rows,
        segment_ids=(places // half + 1).astype(np.int32),
        positions=(places % half).astype(np.int32)[..., None],
        index=(places % half).astype(np.int32),
        targets={NEXT_TOKEN: replace(learnt, weights=np.ones(places.shape, np.float32))},
    )
    return replace(batch, rows={**batch.rows, config.model.backbone: decoder})


def _count_used(batch: PackedBatch) -> float:
    """Positions of encoders that hold media."""
    media = (batch.rows[name] for name in batch.text_rows.merges)
    return sum(float(np.count_nonzero(rows.segment_ids)) for rows in media)


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
