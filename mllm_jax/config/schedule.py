"""From a configuration to the checked plan of its pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from mllm_jax.config.pipeline_plan import PipelinePlan, check_layers
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.config.workload import co_issues, on_platform, strategy, workload
from mllm_jax.models.config.model import ModelConfig
from mllm_jax.models.frozen import FrozenParts
from mllm_jax.models.work.flops import work_parts
from scheduling.costs.estimate import step_times
from scheduling.costs.hardware import HardwareError, named
from scheduling.schedules.bubbles import choose_pieces, fill_ahead, place_encoders
from scheduling.schedules.check import check
from scheduling.schedules.costs import EncoderCosts, TaskCosts
from scheduling.schedules.schedule import EncoderPieces, Schedule, ScheduleError, gpipe, interleaved
from sharding.plan import divisors


def pipeline_plan(config: ExperimentConfig) -> PipelinePlan | None:
    """The plan of the configured pipeline, or None where the decoder has one stage.

    Raises:
        ScheduleError: layers, stages, chunks, pieces and microbatches do not fit together.
    """
    plan = config.parallel.decoder
    if plan.stage == 1:
        return None
    chosen = config.schedule
    schedule = make_schedule(config)
    check_layers(config.model, schedule, chosen.pad_layers)
    check(schedule)
    return PipelinePlan(
        schedule,
        gather=chosen.fsdp_gather,
        co_issue=co_issues(config),
        overlap_gather="data" in chosen.fill,
    )


def make_schedule(config: ExperimentConfig, thorough: bool = True) -> Schedule:
    """Decoder tasks by `schedule.kind`, encoder tasks by `schedule.encoder_placement`.

    Args:
        thorough: as of `place_encoders`.
    """
    chosen, cuts = config.schedule, encoder_pieces(config)
    decoder, costs = _decoder(config, config.train.accumulate), _placing_costs(config, cuts)
    if chosen.work_ahead and chosen.encoder_placement == "bubbles":
        cuts = fill_ahead(decoder, cuts, costs, chosen.fill, chosen.live)
    way = chosen.encoder_placement, chosen.fill, chosen.live
    return place_encoders(decoder, cuts, costs, *way, thorough)


def one_stage(config: ExperimentConfig) -> Schedule:
    """The order of a step without a pipeline: microbatch by microbatch, its encoders first."""
    cuts = tuple(_pieces(config, name, 1) for name in config.model.encoders)
    decoder = interleaved(1, 1, config.train.accumulate)
    return place_encoders(decoder, cuts, task_costs(config, cuts), "first_stage")


def _decoder(config: ExperimentConfig, microbatches: int) -> Schedule:
    stages, chunks = config.parallel.decoder.stage, config.schedule.chunks
    if config.schedule.kind == "gpipe":
        return gpipe(stages, microbatches, chunks)
    return interleaved(stages, chunks, microbatches)


def encoder_pieces(config: ExperimentConfig) -> tuple[EncoderPieces, ...]:
    """How every encoder is cut."""
    return tuple(cut_encoder(config, name) for name in config.model.encoders)


def _placing_costs(config: ExperimentConfig, cuts: Sequence[EncoderPieces]) -> TaskCosts:
    """What encoders are placed by: seconds on the hardware of the schedule, or FLOPs.

    Raises:
        ScheduleError: there is no such hardware.
    """
    if config.schedule.hardware is None:
        return task_costs(config, tuple(cuts))
    try:
        hardware = named(config.schedule.hardware)
    except HardwareError as error:
        raise ScheduleError(f"schedule.hardware: {error}") from None
    settled = on_platform(config, hardware.platform)
    pieces = {cut.name: cut.pieces for cut in cuts}
    return step_times(workload(settled), strategy(settled, pieces), hardware).costs


def task_costs(config: ExperimentConfig, cuts: tuple[EncoderPieces, ...]) -> TaskCosts:
    """Predicted FLOPs of every task on one device, for full rows."""
    chosen, plan = config.schedule, config.parallel.decoder
    per_chunk = -(-config.model.decoder.layers // (plan.stage * chosen.chunks))
    parts, rows = work_parts(config.model, "decoder"), _rows(config, "decoder")
    forward = per_chunk * parts.layer.flops(rows)
    head = parts.end.flops(rows) / plan.stage
    return TaskCosts(
        forward,
        _backward(config.model, forward),
        3 * head,
        {cut.name: _encoder_costs(config, cut) for cut in cuts},
    )


def cut_encoder(config: ExperimentConfig, name: str) -> EncoderPieces:
    """How an encoder is cut: as configured, else so that a piece fits the decoder's bubbles.

    Raises:
        ScheduleError: its layers cannot be cut like this.
    """
    chosen, stages = config.schedule, config.parallel.encoders[name].stage
    layers = config.model.encoders[name].layers
    valid = [n for n in divisors(layers) if n % stages == 0]
    if name in chosen.pieces or chosen.encoder_placement != "bubbles":
        pieces = chosen.pieces.get(name, stages)
        if pieces not in valid:
            raise ScheduleError(
                f"schedule.pieces.{name}: {pieces} does not cut the {layers} layers of "
                f"model.encoders.{name} over its {stages} stages evenly; valid: "
                f"{', '.join(map(str, valid)) or 'none: choose a stage that divides the layers'}"
            )
        return _pieces(config, name, pieces)
    if not valid:
        raise ScheduleError(
            f"model.encoders.{name}.layers: {layers} layers cannot be cut over {stages} stages; "
            f"choose a parallel.encoders.{name}.stage that divides them"
        )
    cuts = [_pieces(config, name, pieces) for pieces in valid]
    # What fills the bubbles of a few rounds fills those of many.
    microbatches = min(config.train.accumulate, 2 * config.parallel.decoder.stage)
    return choose_pieces(
        _decoder(config, microbatches),
        {cut: _placing_costs(config, [cut]).encoders[name] for cut in cuts},
        _placing_costs(config, ()),
        chosen.fill,
        chosen.live,
    )


def _pieces(config: ExperimentConfig, name: str, pieces: int) -> EncoderPieces:
    """The encoder in `pieces` pieces."""
    frozen, stages = FrozenParts(config.train.freeze), config.parallel.encoders[name].stage
    backward = 0 if frozen.connector(name) else 1
    return EncoderPieces(name, pieces, stages, backward if frozen.trunk(name) else pieces)


def _encoder_costs(config: ExperimentConfig, cut: EncoderPieces) -> EncoderCosts:
    model = config.model
    parts, rows = work_parts(model, cut.name), _rows(config, cut.name)
    layers = model.encoders[cut.name].layers // cut.pieces * parts.layer.flops(rows)
    forward = [layers] * cut.pieces
    forward[0] += parts.start.flops(rows)
    forward[-1] += parts.end.flops(rows)
    backward = [
        _backward(model, cost) if piece in cut.backward_pieces else 0.0
        for piece, cost in enumerate(forward)
    ]
    if FrozenParts(config.train.freeze).trunk(cut.name) and cut.backward:
        again = 0.0 if model.remat == "none" else layers
        backward[-1] = again + 3 * parts.end.flops(rows)
    return EncoderCosts(tuple(forward), tuple(backward))


def _backward(model: ModelConfig, forward: float) -> float:
    """Two products for each one of the forward, and the forward again if nothing was kept."""
    return (2 if model.remat == "none" else 3) * forward


def _rows(config: ExperimentConfig, module: str) -> list[int]:
    """Lengths of a microbatch's rows, full to their budget, each of them one segment.

    Inside a stage every device takes the same share of them, whichever way its plan splits them.
    """
    return [config.data.budgets["tokens" if module == "decoder" else module]] * config.data.rows
