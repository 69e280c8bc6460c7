"""Configurations whose sections do not go together are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.media.audio.row_spec import AudioRowSpec
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ConfigError, resolve_config
from mllm_jax.families.media import make_row_spec
from sharding.plan import divisors_of
from tests.config.test_load import holds_all, refused
from tests.configs import VALUES, config, values

# Rows of 128 positions in every transformer, which all kernels take.
ROWS_OF_128 = {"data__budgets": {"tokens": 128, "segments": 8, "vision": 128, "audio": 256}}
#: An encoder, and its connector.
ENDS = ("", ".connector")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        # exchanges
        (
            {"parallel__exchange": "all_to_all", "data__balance": "backbone"},
            [
                "parallel.exchange: all_to_all needs routes, which are of media in rows of their "
                "own, and data.balance is backbone; valid: auto, gather, reduce_scatter, "
                "data.balance per_phase"
            ],
        ),
        ({"parallel__exchange": "broadcast"}, ["parallel.exchange", "auto", "reduce_scatter"]),
        # objectives
        (
            {
                "model__objectives": {"scene": {"kind": "classification", "classes": 2}},
                "model__edges": [{"source": "decoder", "target": "scene", "select": "last"}],
            },
            ["evaluate.exact_match: true needs answers, and a model that learns scene writes none"],
        ),
        (
            {
                "model__objectives": {
                    "pairs": {"kind": "contrastive", "dimensions": 4},
                    "scene": {"kind": "classification", "classes": 2},
                },
                "model__edges": [
                    {"source": "decoder", "target": "pairs", "select": "last"},
                    {"source": "vision", "target": "pairs", "select": "mean"},
                    {"source": "decoder", "target": "scene", "select": "last"},
                ],
                "evaluate__enabled": False,
                "parallel__decoder": {"stage": 4},
                "parallel__encoders__audio": {"data": 4},
                "model__decoder__layers": 4,
            },
            [
                "model.objectives.pairs: contrastive waits for the outputs of all microbatches, "
                "and in a schedule of parallel.decoder.stage 4 backwards run before the last "
                "forward; valid: an objective of a microbatch, or parallel.decoder.stage 1",
            ],
        ),
        # plans and devices
        (
            {"parallel__decoder": {"data": 3}},
            ["parallel.decoder", "data 3", "parallel.devices is 4", "data 2 x tensor 2"],
        ),
        (
            {"parallel__encoders__vision": {"data": 2}},
            ["parallel.encoders.vision", "covers 2 devices", "valid: data 2 x tensor 2; data 4"],
        ),
        (
            {
                "parallel__devices": 12,
                "parallel__decoder": {"data": 6, "tensor": 2},
                "parallel__encoders__vision": {"data": 4, "tensor": 3},
                "parallel__encoders__audio": {"data": 12},
                "data__rows": 12,
                "model__encoders__vision__heads": 3,
                "model__encoders__vision__d_model": 18,
                "model__encoders__vision__d_ff": 36,
                "model__encoders__vision__connector": {"hidden": 18},
                "data__budgets__vision": 96,
            },
            ["parallel.encoders.vision: data 4 x tensor 3 does not refine", "data 12"],
        ),
        (
            {
                "parallel__decoder": {"stage": 4},
                "parallel__encoders__audio": {"data": 4},
                "model__decoder__layers": 6,
            },
            ["model.decoder.layers: 6 is not a multiple of 4", "schedule.pad_layers true"],
        ),
        (
            {
                "parallel__decoder": {"stage": 4},
                "parallel__encoders__audio": {"data": 4},
                "model__decoder__layers": 4,
                "model__decoder__window": 8,
                "model__decoder__pattern": ["window", "full"],
            },
            [
                "model.decoder.layers: 4 is not a multiple of 8, stages 4 x chunks 1 x 2 layers of "
                "model.decoder.pattern",
                "schedule.pad_layers true",
            ],
        ),
        (
            {
                "parallel__decoder": {"stage": 4},
                "parallel__encoders__audio": {"data": 4},
                "model__decoder__layers": 4,
                "train__accumulate": 10**9,
            },
            ["train.accumulate: 1000000000 microbatches", "valid: at most 65536"],
        ),
        ({"model__encoders__audio__layers": 10**9}, ["audio.layers: 1000000000", "equal to 10000"]),
        (
            {"parallel__decoder": {"stage": 4}, "model__decoder__layers": 4},
            [
                "parallel.encoders.audio: tensor 2 reaches across the backbone's stages",
                "a stage has 1 device",
            ],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "data": 2},
                "parallel__encoders__audio": {"data": 2, "stage": 2},
                "model__decoder__layers": 2,
                "schedule__chunks": {"audio": 3},
            },
            ["model.encoders.audio.layers: 1 cannot be cut over the 2 stages", "valid: 6, 12"],
        ),
        (
            {
                "parallel__devices": 3,
                "parallel__decoder": {"stage": 3},
                "parallel__encoders": {"vision": {"data": 3}, "audio": {"data": 3}},
                "model__decoder__layers": 3,
                "model__decoder__vocab": 264,
                "data__rows": 1,
            },
            [
                "evaluate.enabled: true shards",
                "d_model 16 of decoder over 3",
                "evaluate.enabled false",
            ],
        ),
        (
            {"schedule__chunks": {"decoder": 2}},
            ["schedule.chunks: {'decoder': 2} has no effect", "stage is 1; valid: {}"],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "schedule": {"placement": "prologue", "max_waiting": 4, "prefetch": False},
            },
            [
                "schedule.max_waiting: 4 has no effect, as schedule.placement is prologue",
                "schedule.prefetch: False has no effect",
            ],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "data__balance": "backbone",
                "schedule": {"independent_microbatches": True},
            },
            [
                "schedule.independent_microbatches: true needs media in rows of their own",
                "data.balance is backbone; valid: data.balance per_phase, false",
            ],
        ),
        (
            {"data__balance_group": "auto", "data__balance": "per_phase"},
            ["schedule.hardware: required, as data.balance_group is auto and chosen by seconds; "],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "schedule": {"independent_budgets": {"vision": 32}},
            },
            ["schedule.independent_budgets.vision: it has no effect, as schedule.independent_"],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "schedule": {"independent_rows": {"vision": 2, "video": 2}},
            },
            [
                "schedule.independent_rows.video: the model has no such encoder; its encoders are",
                "schedule.independent_rows.vision: it has no effect, as schedule.independent_",
            ],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 4}},
                "model__decoder__layers": 2,
                "data__balance": "per_phase",
                "data__rows": 1,
                "schedule": {"independent_microbatches": True, "independent_rows": {"vision": 2}},
            },
            [
                "data.rows: 1, 2 times as many for vision, is not a multiple of 2, data x fsdp of "
                "parallel.encoders.audio inside a stage; nearest valid: 2",
            ],
        ),
        *(
            (
                {
                    "parallel__decoder": {"stage": 2, "tensor": 2},
                    "model__decoder__layers": 2,
                    "data__balance": "per_phase",
                    "data__image": {"max_patches": 24},
                    "schedule": {
                        "independent_microbatches": True,
                        "independent_budgets": {name: positions},
                    },
                },
                [f"schedule.independent_budgets.{name}: {reason}"],
            )
            for name, positions, reason in (
                ("vision", 16, "16 is less than 24, the longest medium"),
                (
                    "vision",
                    7,
                    "7 is less than 24, the longest medium; valid: 24, 25, 26, ",
                ),
                ("vision", 128, "128 is more than data.budgets.vision 64"),
                (
                    "audio",
                    120,
                    "120 is less than 128, the longest medium: data.budgets.audio, as "
                    "data.audio.max_seconds allows longer ones; valid: 128",
                ),
                ("video", 64, "the model has no such encoder; its encoders are vision, audio"),
            )
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "train__freeze": ["decoder"],
                "schedule": {"kind": "zero_bubble"},
            },
            [
                "schedule.kind: zero_bubble has no effect, as train.freeze has decoder, which has "
                "no weight gradients; valid: 1f1b"
            ],
        ),
        (
            {"train__check_schedules": True},
            ["train.check_schedules: true has no effect, as parallel.decoder.stage is 1"],
        ),
        (
            {"schedule__chunks": {"video": 1}},
            ["schedule.chunks: {'video': 1} has no effect, as parallel.decoder.stage is 1"],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "train__check_schedules": True,
            },
            ["train.check_schedules: true has no effect, as schedule.independent_microbatches is"],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "parallel__encoders": {"vision": {"data": 2, "tensor": 2}, "audio": {"data": 4}},
                "model__decoder__layers": 2,
                "schedule__max_waiting": 1,
            },
            ["schedule.max_waiting: 1 is refused", "valid: 2 or more"],
        ),
        (
            {"parallel__decoder": {"stage": 3}, "model__decoder__layers": 3},
            ["parallel.decoder: stage 3 covers 3 devices", "valid: data 2 x tensor 2; data 4"],
        ),
        (
            {"run__profile_steps": [3, 2]},
            ["run.profile_steps: the first step 3 is after the last, 2; valid: [2, 3]"],
        ),
        (
            {"run__profile_steps": [3, 9]},
            ["run.profile_steps: step 9 is after train.steps 4; valid: [3, 4]"],
        ),
        ({"run__trace_step": 2}, ["run.trace_step: 2 has no pipeline", "valid: null"]),
        (
            {"parallel__encoders__audio": {"data": 2, "stage": 2}},
            ["parallel.encoders.audio.stage: 2 needs a decoder with stages"],
        ),
        (
            {"train__freeze": ["visoin"]},
            ["train.freeze: visoin", "valid: decoder, vision, audio, vision.connector, audio.conn"],
        ),
        (
            {"train__groups": {"visoin": {"learning_rate": 0.1}}},
            ["train.groups: visoin is no part of the model", "valid: decoder, vision, audio"],
        ),
        (
            {"train__groups": {"vision": {"learning_rate": 0.1}}, "train__freeze": ["vision"]},
            ["train.groups: vision has no effect, as train.freeze has it, too; valid: left out"],
        ),
        (
            {
                "train__freeze": [
                    "decoder",
                    "vision",
                    "audio",
                    "vision.connector",
                    "audio.connector",
                ]
            },
            ["leave nothing to train"],
        ),
        (
            {"parallel__decoder": {"expert": 4}},
            ["parallel.decoder.expert: 4", "has no experts", "valid: data 2 x tensor 2"],
        ),
        (
            {
                "parallel__decoder": {"expert": 4},
                "model__decoder__family": "mixtral",
                "model__decoder__experts": {"count": 6, "top_k": 2, "d_ff": 16},
            },
            [
                "parallel.decoder.expert: 4 does not divide experts.count 6 of model.decoder",
                "divisors are [1, 2, 3, 6]; valid: data 2 x expert 2",
                "model.decoder.experts.count 8",
            ],
        ),
        (
            {
                "parallel__decoder": {"data": 2, "expert": 2},
                "model__decoder__family": "mixtral",
                "model__decoder__experts": {"count": 4, "top_k": 2, "d_ff": 16},
                "data__rows": 6,
            },
            ["data.rows: 6", "4, data x fsdp x expert of parallel.decoder", "4, 8"],
        ),
        (
            {"parallel__encoders__vision": {"expert": 4}},
            ["parallel.encoders.vision.expert: 4", "vision has no experts", "data 4"],
        ),
        # names
        ({"parallel__encoders__video": {"data": 4}}, ["parallel.encoders.video", "vision, audio"]),
        ({"data__budgets__video": 8}, ["data.budgets.video", "tokens, segments, vision, audio"]),
        # sizes
        (
            {"parallel__decoder": {"tensor": 4}, "data__budgets__tokens": 64},
            ["parallel.decoder.tensor: 4", "heads 2", "valid: data 2 x tensor 2; data 4"],
        ),
        (
            {"parallel__decoder": {"context": 4}},
            ["parallel.decoder.context: 4", "heads 2", "valid: data 2 x context 2"],
        ),
        (
            {"parallel__decoder": {"context": 2, "tensor": 2}},
            ["parallel.decoder.context x tensor: 4", "heads 2", "valid: data 2 x"],
        ),
        (
            {"parallel__decoder": {"data": 2, "context": 2}, "data__budgets__tokens": 63},
            ["data.budgets.tokens: 63", "multiple of 2 (parallel.decoder.context 2)", "62, 64"],
        ),
        (
            {"model__decoder__d_ff": 33},
            ["parallel.decoder.tensor: 2", "d_ff 33", "valid: data 4, ", "d_ff 32, ", "d_ff 34"],
        ),
        (
            {"model__encoders__audio__heads": 1},
            ["parallel.encoders.audio.tensor: 2", "heads 1", "model.encoders.audio"],
        ),
        (
            {
                "parallel__decoder": {"fsdp": 4},
                "model__decoder__heads": 3,
                "model__decoder__d_model": 18,
            },
            ["parallel.decoder.fsdp: 4", "d_model 18", "data 2 x fsdp 2"],
        ),
        # rows and budgets
        ({"data__budgets__tokens": 63}, ["data.budgets.tokens: 63", "multiple of 2", "62, 64"]),
        (
            {"data__budgets__audio": 120},
            ["data.budgets.audio: 120", "multiple of 16", "reduction 8", "112, 128"],
        ),
        (
            {"data__rows": 6},
            ["data.rows: 6", "multiple of 4", "encoders.vision", "nearest valid: 4, 8"],
        ),
        # media
        (
            {"data__image": {"modules": {"audio": {"height": 8}}}},
            ["data.image.modules: audio takes no image; valid: some of vision"],
        ),
        (
            {"data__image": {"modules": {"vision": {"mean": [0.5, 0.4, 0.3]}}}},
            ["data.image.modules.vision.mean: [0.5, 0.4, 0.3]", "valid lengths: 1"],
        ),
        (
            {"data__image": {"mean": [0.5, 0.4, 0.3]}},
            ["data.image.mean: [0.5, 0.4, 0.3]", "vision.channels 1", "valid lengths: 1"],
        ),
        (
            {"model__encoders__vision__channels": 3, "data__image": {"std": [0.5, 0.4]}},
            ["data.image.std: [0.5, 0.4]", "vision.channels 3", "valid lengths: 1, 3"],
        ),
        (
            {"data__image__placeholder": "<audio>"},
            ["data.audio.placeholder: <audio>", "data.image.placeholder", "valid: any other"],
        ),
        # evaluation
        (
            {"evaluate__max_new_tokens": 64},
            ["evaluate.max_new_tokens: 64", "data.budgets.tokens 64", "valid: less than 64"],
        ),
        (
            {"evaluate": {"enabled": False, "every": 2}},
            ["evaluate.every: 2", "evaluate.enabled is false", "valid: null"],
        ),
        (
            {"evaluate": {"loss": False, "exact_match": False}},
            [
                "evaluate.enabled: true measures nothing",
                "evaluate.loss",
                "false, evaluate.loss true, evaluate.exact",
            ],
        ),
        # attention
        ({"model__attention": "splash"}, ["model.attention: splash", "cpu", "auto, reference"]),
        (
            {"model__attention": "splash", "parallel__platform": "tpu"},
            ["splash cannot run model.decoder", "64 tokens", "multiple of 128", "auto, reference"],
        ),
        (
            {
                "model__attention": "splash",
                "parallel__platform": "tpu",
                "data__budgets": {"tokens": 128, "segments": 8, "vision": 128, "audio": 128},
            },
            ["splash cannot run model.encoders.audio: 64 tokens", "valid: auto, reference"],
        ),
        (
            {"model__attention": "pallas_gpu", "parallel__platform": "gpu", **ROWS_OF_128},
            ["pallas_gpu cannot run model.decoder, model.encoders.vision", "head_dim 8", "cudnn"],
        ),
        (
            {"model__attention": "cudnn", "parallel__platform": "gpu", "model__dtype": "float32"},
            ["cudnn cannot run model.decoder", "activations are float32", "auto, reference"],
        ),
        # the rest
        (
            {"model__decoder__family": "gpt", "model__decoder__max_positions": 32},
            ["model.decoder.max_positions: 32", "data.budgets.tokens 64", "64 or more"],
        ),
        ({"model__decoder__vocab": 4}, ["model.decoder.vocab: 4", "valid: null"]),
        (
            {"model__encoders__vision__deepstack": [2]},
            ["deepstack [2] must be numbers of layers in rising order, from 1 to 1"],
        ),
        (
            {
                "model__encoders__vision__layers": 4,
                "model__encoders__vision__deepstack": [1, 3],
            },
            ["encoders.vision.deepstack [1, 3] has more layers than the decoder", "at most 1"],
        ),
        (
            {
                "parallel__decoder": {"stage": 4},
                "parallel__encoders__audio": {"data": 4},
                "model__decoder__layers": 4,
                "model__encoders__vision__layers": 4,
                "model__encoders__vision__deepstack": [1, 3],
            },
            [
                "model.encoders.vision.deepstack: [1, 3] are more than the 1 layers of the first",
                "valid: [1]",
            ],
        ),
        (
            {"model__decoder__pattern": ["window"]},
            ["model.decoder: pattern ['window'] needs the length of a window"],
        ),
        (
            {"model__decoder__pattern": ["full"], "model__decoder__window": 8},
            ["window 8 has no effect, as pattern is ['full']", "window null"],
        ),
        (
            {"model__decoder__pattern": ["full"] * 2},
            ["layers 1 are not a multiple of the 2 layers of pattern", "choose layers 2"],
        ),
        (
            {"data__balancing": {"video": {"cost": "padded"}}},
            ["data.balancing.video: no such module", "decoder, vision, audio"],
        ),
        (
            {"data__balancing": {"audio": {"algorithm": "best"}}},
            ["data.balancing.audio.algorithm", "'best'", "contiguous", "module:function"],
        ),
        (
            {"data__batch": "samples"},
            ["data.batch: samples needs data.samples"],
        ),
        (
            {"data__balance": "backbone", "data__balancing": {"audio": {"cost": "padded"}}},
            ["data.balancing.audio: no effect, as data.balance is backbone"],
        ),
        (
            {"data__lengths": "on_read", "data__lengths_folder": "x"},
            ["data.lengths_folder: x has no effect, as data.lengths is on_read"],
        ),
        (
            {"data__ladder": [0.5, 1]},
            ["data.ladder: [0.5, 1.0] has no effect, as data.batch is tokens"],
        ),
        (
            {"data__samples": 8},
            ["data.samples: 8 has no effect, as data.batch is tokens"],
        ),
        (
            {"data__batch": "samples", "data__samples": 8, "data__ladder": [0.5, 0.25, 1]},
            ["data.ladder: [0.5, 0.25, 1.0] does not rise to 1"],
        ),
        (
            {"data__batch": "samples", "data__samples": 8, "data__ladder": [0.5]},
            ["data.ladder: [0.5] does not rise to 1"],
        ),
        (
            {
                "model__attention": "splash",
                "parallel__platform": "tpu",
                "parallel__decoder": {"data": 4},
                "parallel__encoders__vision": {"data": 4},
                "parallel__encoders__audio": {"data": 4},
                "data__batch": "samples",
                "data__samples": 8,
                "data__ladder": [0.5, 1.0],
                "data__budgets": {"tokens": 128, "segments": 8, "vision": 256, "audio": 512},
            },
            ["splash cannot run model.decoder: 64 tokens"],
        ),
        ({"data__tokenizer": "missing.json"}, ["data.tokenizer", "missing.json"]),
    ],
)
def test_sections_that_disagree_are_refused(changes: dict[str, Any], parts: list[str]) -> None:
    message = refused(**changes)
    assert holds_all(message, parts), message


@pytest.mark.parametrize(("platform", "backend"), [("gpu", "cudnn"), ("tpu", "splash")])
def test_a_backend_that_can_run_everything_is_taken(platform: str, backend: str) -> None:
    changes: dict[str, Any] = {"model__attention": backend, "parallel__platform": platform}
    assert config(**changes, **ROWS_OF_128).model.attention == backend


@pytest.mark.parametrize("section", ["parallel.encoders", "data.budgets"])
def test_every_encoder_needs_a_plan_and_a_budget(section: str) -> None:
    without = values()
    first, second = section.split(".")
    del without[first][second]["audio"]
    with pytest.raises(ConfigError, match=rf"{section}\.audio: required"):
        resolve_config(without, source="test")


@given(
    st.sampled_from(divisors_of(8)),
    st.sampled_from(divisors_of(8)),
    st.sampled_from(divisors_of(8)),
)
def test_a_plan_is_refused_exactly_if_it_does_not_fit(data: int, fsdp: int, tensor: int) -> None:
    plan = {"data": data, "fsdp": fsdp, "tensor": tensor}
    alone = {"vision": {"data": 8}, "audio": {"data": 8}}
    changes: dict[str, Any] = {"parallel__devices": 8, "parallel__encoders": alone, "data__rows": 8}
    fits = data * fsdp * tensor == 8 and tensor <= 2
    if fits:
        config(parallel__decoder=plan, **changes)
    else:
        assert "parallel.decoder" in refused(parallel__decoder=plan, **changes)


def test_an_own_row_of_a_clip_is_as_long_as_clips_may_be() -> None:
    """Clips of 0.64 seconds have 64 frames, and the plan splits rows into units of 16."""
    changes: dict[str, Any] = {
        "parallel__decoder": {"stage": 2, "tensor": 2},
        "model__decoder__layers": 2,
        "data__balance": "per_phase",
        "data__audio__max_seconds": 0.64,
    }

    def own(positions: int) -> dict[str, Any]:
        budgets = {"independent_microbatches": True, "independent_budgets": {"audio": positions}}
        return changes | {"schedule": budgets}

    assert config(**own(64)).schedule.independent_budgets == {"audio": 64}
    key = "schedule.independent_budgets.audio:"
    assert f"{key} 48 is less than 64, the longest medium; valid: 64" in refused(**own(48))
    uneven = refused(**own(72))
    assert f"{key} 72 is not a multiple of 16" in uneven
    assert "nearest valid: 64, 80" in uneven


def test_any_vocabulary_and_any_heads_of_keys_go_with_any_degree() -> None:
    own = config(model__decoder__vocab=99, model__decoder__kv_heads=1)
    assert own.parallel.decoder.tensor == 2


def test_an_unset_vocabulary_is_the_tokenizers() -> None:
    size = config().model.decoder.vocab_size
    assert size % 64 == 0
    assert config(data__tokenizer="bytes").model.decoder.vocab_size > size


def test_two_encoders_of_one_kind_of_media_are_accepted() -> None:
    both = {
        "model__encoders__video": VALUES["model"]["encoders"]["vision"],
        "parallel__encoders__video": {"data": 4},
        "data__budgets__video": 64,
    }
    assert [*config(**both).model.encoders] == ["vision", "audio", "video"]


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        # On CPUs rows have fewer outputs than tokens.
        ({}, "gather"),
        ({"parallel__exchange": "reduce_scatter"}, "reduce_scatter"),
        ({"schedule__hardware": "h100"}, "all_to_all"),
        ({"schedule__hardware": "h100", "data__balance": "none"}, "gather"),
        (
            {"data__budgets": {"tokens": 64, "segments": 8, "vision": 128, "audio": 1024}},
            "reduce_scatter",
        ),
    ],
)
def test_the_exchange_of_every_bucket_is_chosen(changes: dict[str, Any], chosen: str) -> None:
    assert configure_step(config(**changes)).exchanges == dict.fromkeys(("vision", "audio"), chosen)


@dataclass(frozen=True)
class _Molecules(AudioRowSpec):
    """Media with edges."""

    @property
    def budgets(self) -> Mapping[str, str]:
        return {**super().budgets, "edge": f"{self.name}_edges"}


def test_a_further_axis_has_a_budget_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "data__budgets__audio_edges"
    valid = "budgets are of tokens, segments, vision, audio"
    without = refused(**{key: 32})
    assert f"data.budgets.audio_edges: the model has no such encoder; {valid}" in without
    monkeypatch.setattr(
        "mllm_jax.config.inputs.make_row_spec",
        lambda name, *more: _Molecules(name) if name == "audio" else make_row_spec(name, *more),
    )
    assert config(**{key: 32}).data.budgets["audio_edges"] == 32
    assert "audio_edges: required, as media of model.encoders.audio have entries" in refused()
    assert f"{valid}, audio_edges" in refused(**{key: 32, "data__budgets__vision_edges": 8})
