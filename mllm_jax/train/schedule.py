"""From a configuration to the checked plan of its pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mllm_jax.models.config import ModelConfig
from mllm_jax.models.work import work_parts
from mllm_jax.train.freeze import Frozen
from mllm_jax.train.pipeline import PipelinePlan, check_layers
from scheduling.bubbles import choose_pieces, place_encoders
from scheduling.check import check
from scheduling.cost import EncoderCosts, TaskCosts
from scheduling.schedule import EncoderPieces, Schedule, ScheduleError, gpipe, interleaved
from sharding.plan import divisors

if TYPE_CHECKING:
    from mllm_jax.config import ExperimentConfig


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
        co_issue="tensor" in chosen.fill,
        overlap_gather="data" in chosen.fill,
    )


def make_schedule(config: ExperimentConfig) -> Schedule:
    """Decoder tasks by `schedule.kind`, encoder tasks by `schedule.encoder_placement`."""
    chosen, stages = config.schedule, config.parallel.decoder.stage
    microbatches = config.train.accumulate
    if chosen.kind == "gpipe":
        decoder = gpipe(stages, microbatches, chosen.chunks)
    else:
        decoder = interleaved(stages, chosen.chunks, microbatches)
    cuts = encoder_pieces(config)
    costs = task_costs(config, cuts)
    return place_encoders(decoder, cuts, costs, chosen.encoder_placement, chosen.fill, chosen.live)


def encoder_pieces(config: ExperimentConfig) -> tuple[EncoderPieces, ...]:
    """How every encoder is cut: as configured, else so that a piece fits the decoder's bubbles."""
    return tuple(_cut(config, name) for name in config.model.encoders)


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
        # The head's logits are made again in its backward.
        4 * head,
        {cut.name: _encoder_costs(config, cut) for cut in cuts},
    )


def _cut(config: ExperimentConfig, name: str) -> EncoderPieces:
    encoder, stages = config.model.encoders[name], config.parallel.encoders[name].stage
    frozen = Frozen(config.train.freeze)
    if name not in config.schedule.pieces and config.schedule.encoder_placement != "bubbles":
        pieces = stages
    elif name in config.schedule.pieces:
        pieces = config.schedule.pieces[name]
    else:
        whole = EncoderPieces(name, 1, 1, 1)
        own, decoder = _encoder_costs(config, whole), task_costs(config, ())
        pieces = choose_pieces(encoder.layers, stages, own.forward[0], own.backward[0], decoder)
    if encoder.layers % pieces or pieces % stages:
        valid = [n for n in divisors(encoder.layers) if n % stages == 0]
        raise ScheduleError(
            f"schedule.pieces.{name}: {pieces} does not cut the {encoder.layers} layers of "
            f"model.encoders.{name} over its {stages} stages evenly; valid: "
            f"{', '.join(map(str, valid)) or 'none: choose a stage that divides the layers'}"
        )
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
    if Frozen(config.train.freeze).trunk(cut.name) and cut.backward:
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
