"""Loading: every mistake is refused with its path, its value, the reason and what is valid."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.config import ConfigError, ExperimentConfig, load, read, resolve, to_yaml
from mllm_jax.config_keys import Key, keys, table
from sharding.plan import divisors
from tests.configs import ROOT, VALUES, config, values

#: Of experiments: descriptions of hardware have tests of their own.
CONFIGS = sorted(
    path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name != "hardware"
)
# Without the keys that choose a family: a section whose family is not known has no keys.
LEAVES = [
    key
    for key in keys(ExperimentConfig)
    if "<name>" not in key.path and key.path[-1] not in ("family", "kind")
]
INF, NAN = float("inf"), float("nan")
# Rows of 128 positions in every transformer, which all kernels take.
ROWS_OF_128 = {"data__budgets": {"tokens": 128, "segments": 8, "vision": 128, "audio": 256}}


def refused(**changes: Any) -> str:
    """The message with which a changed configuration is refused."""
    with pytest.raises(ConfigError) as error:
        config(**changes)
    return str(error.value)


def holds_all(message: str, parts: Iterable[str]) -> bool:
    return all(part in message for part in parts)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_loads_and_states_its_recipe(path: Path) -> None:
    load(path)
    head = path.read_text().split("\n\n")[0].lower()
    assert holds_all(head, ["command", "hardware", "time", "result"])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_resolved_config_loads_to_itself(path: Path, tmp_path: Path) -> None:
    first = load(path, planned=False)
    copy = tmp_path / "copy.yaml"
    copy.write_text(to_yaml(first))
    assert load(copy, planned=False) == first


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("train.setps", "train.steps"),
        ("trian", "train"),
        ("model.decoder.n_layers", "model.decoder.layers"),
        ("model.encoders.vision.pach", "model.encoders.vision.patch"),
        ("parallel.decoder.dta", "parallel.decoder.data"),
        ("parallel.encoders.audio.tensr", "parallel.encoders.audio.tensor"),
        ("checkpoint.keeps", "checkpoint.keep"),
        ("data.image.hight", "data.image.height"),
        ("train.d_model", "model.decoder.d_model"),
        ("learning_rate", "train.learning_rate"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest(path: str, meant: str) -> None:
    message = refused(**{path.replace(".", "__"): 1})
    assert f"{path}: unknown key; did you mean {meant}?" in message


@given(st.sampled_from(LEAVES), st.integers(0, 30), st.sampled_from("qxz"))
def test_a_key_with_a_typing_error_is_never_accepted(key: Key, where: int, letter: str) -> None:
    *parents, last = key.path
    at = where % (len(last) + 1)
    wrong = last[:at] + letter + last[at:]
    with pytest.raises(ConfigError, match="unknown key; did you mean"):
        resolve(values(**{"__".join([*parents, wrong]): 1}), source="test")


def test_a_key_of_another_family_is_unknown() -> None:
    message = refused(model__encoders__vision__mels=8)
    assert "model.encoders.vision.mels: unknown key" in message
    assert "patch" in message.split("valid here:")[1]


def test_all_mistakes_are_told_at_once() -> None:
    message = refused(train__steps="ten", train__seed=-1, model__decoder__layer=3, run__name="a/b")
    assert holds_all(message, ["4 problems", "train.steps", "train.seed", "decoder.layer:", "a/b"])


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"train__steps": "ten"}, ["train.steps", '"ten"', "valid integer"]),
        ({"train__steps": 0}, ["train.steps", "0", "greater than or equal to 1"]),
        ({"train__steps": 2.5}, ["train.steps", "2.5"]),
        ({"train__steps": "4"}, ["train.steps", '"4"', "not a number"]),
        ({"train__seed": True}, ["train.seed", "true", "truth value"]),
        ({"train__learning_rate": float("nan")}, ["train.learning_rate"]),
        ({"run__tensorboard": 1}, ["run.tensorboard", "1", "not a truth value"]),
        ({"run__name": "../up"}, ["run.name", "../up"]),
        ({"train": 3}, ["train: 3"]),
        ({"parallel__platform": "npu"}, ["parallel.platform", '"npu"', "cpu", "gpu", "tpu"]),
        ({"train__optimizer": {"kind": "sgd"}}, ["train.optimizer.kind", "sgd", "adamw, muon"]),
        ({"train__optimizer": {"beta1": 0.9}}, ["train.optimizer.kind", "required", "muon"]),
        ({"model__encoders__vision__family": "clip"}, ["vision.family", "clip", "siglip, vit22b"]),
        ({"model__encoders__vision__patch": [1, 2, 3]}, ["vision.patch", "[1, 2, 3]"]),
        ({"model__decoder__heads": 3}, ["model.decoder", "d_model 16", "heads 3", "choose"]),
        ({"data__budgets": {"tokens": 8}}, ["data", "segments"]),
        ({"model__encoders__vision__channels": 2}, ["vision.channels", "2", "1 or 3"]),
        ({"data__source__seed": -1}, ["data.source.seed", "-1", "greater than or equal to 0"]),
        ({"model__decoder__rope_theta": INF}, ["decoder.rope_theta", "Infinity", "finite"]),
        ({"model__decoder__norm_eps": NAN}, ["model.decoder.norm_eps", "NaN", "finite"]),
        ({"model__decoder__rope_scaling": {"factor": INF}}, ["rope_scaling.factor", "finite"]),
        ({"model__encoders__audio__norm_eps": INF}, ["encoders.audio.norm_eps", "finite"]),
        ({"data__image__mean": [NAN]}, ["data.image.mean", "NaN", "finite"]),
        ({"data__image__std": [INF]}, ["data.image.std", "Infinity", "finite"]),
    ],
)
def test_a_wrong_value_is_told_with_path_and_reason(
    changes: dict[str, Any], parts: list[str]
) -> None:
    assert holds_all(refused(**changes), parts)


def test_a_required_key_is_named() -> None:
    without = values()
    del without["train"]["steps"], without["model"]["decoder"]["layers"]
    with pytest.raises(ConfigError) as error:
        resolve(without, source="test")
    assert holds_all(str(error.value), ["train.steps: required", "model.decoder.layers: required"])


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        # plans and devices
        (
            {"parallel__decoder": {"data": 3}},
            ["parallel.decoder", "data 3", "parallel.devices is 4", "data 2 x tensor 2"],
        ),
        (
            {"parallel__encoders__vision": {"data": 2}},
            ["parallel.encoders.vision", "covers 2 devices", "valid beside decoder", "data 4"],
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
            ["parallel: vision", "does not refine", "data 6 x tensor 2"],
        ),
        (
            {
                "parallel__decoder": {"stage": 4},
                "parallel__encoders__audio": {"data": 4},
                "model__decoder__layers": 6,
            },
            ["model.decoder.layers: 6 is not a multiple of 4", "schedule.pad_layers: true"],
        ),
        (
            {"parallel__decoder": {"stage": 4}, "model__decoder__layers": 4},
            ["parallel: audio: tensor 2 reaches across", "divisor of the decoder's tensor 1"],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "data": 2},
                "parallel__encoders__audio": {"data": 2, "stage": 2},
                "model__decoder__layers": 2,
                "schedule__pieces": {"audio": 3},
            },
            ["schedule.pieces.audio: 3", "over its 2 stages evenly; valid: none"],
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
            ["evaluate.enabled", "d_model 16 of decoder over fsdp x stage, and 3 does not divide"],
        ),
        ({"schedule__chunks": 2}, ["schedule.chunks: 2 has no effect", "stage is 1; valid: 1"]),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "model__decoder__layers": 2,
                "schedule": {"encoder_placement": "prologue", "live": 4, "work_ahead": False},
            },
            [
                "schedule.live: 4 has no effect, as schedule.encoder_placement is prologue",
                "schedule.work_ahead: False has no effect",
            ],
        ),
        (
            {
                "parallel__decoder": {"stage": 2, "tensor": 2},
                "parallel__encoders": {"vision": {"data": 2, "tensor": 2}, "audio": {"data": 4}},
                "model__decoder__layers": 2,
                "schedule__live": 1,
            },
            ["schedule: live: 1 is refused", "valid: 2 or more"],
        ),
        (
            {"parallel__decoder": {"stage": 3}, "model__decoder__layers": 3},
            ["choose degrees that multiply to 4; valid stages: 1, 2, 4"],
        ),
        ({"run__trace_step": 2}, ["run.trace_step: 2 has no pipeline", "valid: null"]),
        (
            {"parallel__encoders__audio": {"data": 2, "stage": 2}},
            ["parallel.encoders.audio.stage: 2 needs stages of the decoder"],
        ),
        (
            {"train__freeze": ["visoin"]},
            ["train.freeze: visoin", "valid: vision, audio, vision.connector, audio.connector"],
        ),
        ({"parallel__decoder": {"expert": 4}}, ["parallel.decoder.expert: 4", "valid: 1"]),
        (
            {"parallel__encoders__vision": {"expert": 4}},
            ["parallel.encoders.vision.expert: 4", "valid: 1"],
        ),
        # names
        ({"parallel__encoders__video": {"data": 4}}, ["parallel.encoders.video", "vision, audio"]),
        ({"data__budgets__video": 8}, ["data.budgets.video", "tokens, segments, vision, audio"]),
        # sizes
        (
            {"parallel__decoder": {"tensor": 4}, "data__budgets__tokens": 64},
            ["parallel.decoder.tensor: 4", "heads 2", "valid: 1, 2"],
        ),
        (
            {"parallel__decoder": {"context": 4}},
            ["parallel.decoder.context: 4", "heads 2", "valid: 1, 2"],
        ),
        (
            {"parallel__decoder": {"context": 2, "tensor": 2}},
            ["parallel.decoder.context x tensor: 4", "heads 2", "valid: 1, 2"],
        ),
        (
            {"parallel__decoder": {"data": 2, "context": 2}, "data__budgets__tokens": 63},
            ["data.budgets.tokens: 63", "multiple of 2 (parallel.decoder.context 2)", "62, 64"],
        ),
        (
            {"model__decoder__kv_heads": 1},
            ["parallel.decoder.tensor: 2", "kv_heads 1", "valid: 1"],
        ),
        ({"model__decoder__d_ff": 33}, ["parallel.decoder.tensor: 2", "d_ff 33", "valid: 1"]),
        ({"model__decoder__vocab": 99}, ["parallel.decoder.tensor: 2", "vocab 99", "valid: 1"]),
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
            ["parallel.decoder.fsdp: 4", "d_model 18", "valid: 1, 2"],
        ),
        # rows and budgets
        ({"data__budgets__tokens": 63}, ["data.budgets.tokens: 63", "multiple of 2", "62, 64"]),
        (
            {"data__budgets__audio": 120},
            ["data.budgets.audio: 120", "multiple of 16", "reduction 8", "112, 128"],
        ),
        ({"data__rows": 6}, ["data.rows: 6", "multiple of 4", "encoders.vision", "valid: 8"]),
        # media
        (
            {
                "model__encoders__video": VALUES["model"]["encoders"]["vision"],
                "parallel__encoders__video": {"data": 4},
                "data__budgets__video": 64,
            },
            ["model.encoders.video: siglip takes image", "model.encoders.vision does", "valid"],
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
            {"data__balancing": {"video": {"cost": "padded"}}},
            ["data.balancing.video: no such tower", "decoder, vision, audio"],
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
            {"data__balance": "decoder", "data__balancing": {"audio": {"cost": "padded"}}},
            ["data.balancing.audio has no effect, as data.balance is decoder"],
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
        resolve(without, source="test")


@given(st.sampled_from(divisors(8)), st.sampled_from(divisors(8)), st.sampled_from(divisors(8)))
def test_a_plan_is_refused_exactly_if_it_does_not_fit(data: int, fsdp: int, tensor: int) -> None:
    plan = {"data": data, "fsdp": fsdp, "tensor": tensor}
    alone = {"vision": {"data": 8}, "audio": {"data": 8}}
    changes: dict[str, Any] = {"parallel__devices": 8, "parallel__encoders": alone, "data__rows": 8}
    fits = data * fsdp * tensor == 8 and tensor <= 2
    if fits:
        config(parallel__decoder=plan, **changes)
    else:
        assert "parallel.decoder" in refused(parallel__decoder=plan, **changes)


def test_an_unset_vocabulary_is_the_tokenizers() -> None:
    size = config().model.decoder.vocab_size
    assert size % 64 == 0
    assert config(data__tokenizer="bytes").model.decoder.vocab_size > size


def test_overrides_are_yaml_and_the_last_wins(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    overrides = ["train.learning_rate=1e-2", "train.steps=7", "train.steps=8", "run.name=other"]
    changed = load(path, [*overrides, "parallel.encoders.vision={fsdp: 4}", "evaluate.every=null"])
    assert changed.train.learning_rate == 0.01
    assert changed.train.steps == 8
    assert changed.run.path == Path("runs/other")
    assert changed.parallel.encoders["vision"].fsdp == 4
    assert changed.parallel.encoders["vision"].data == 1


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("train.steps", "section.key=value"),
        ("=3", "section.key=value"),
        ("train..steps=3", "section.key=value"),
        ("train.steps=[", "not YAML"),
        ("train.steps.more=3", "steps is the value 4"),
        ("train.stepz=3", "did you mean train.steps"),
        ("nowhere.at.all=3", "nowhere: unknown key"),
    ],
)
def test_a_wrong_override_is_refused(override: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    with pytest.raises(ConfigError, match=reason.replace(".", r"\.")):
        load(path, [override])


def test_a_base_is_refined_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(VALUES))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "middle.yaml").write_text("base: ../base.yaml\ntrain: {steps: 9}\n")
    top = tmp_path / "top.yaml"
    top.write_text("base: deeper/middle.yaml\ntrain: {seed: 5}\n")
    merged = load(top)
    assert (merged.train.steps, merged.train.seed) == (9, 5)
    assert merged.train.learning_rate == VALUES["train"]["learning_rate"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("base: self.yaml\n", "its own base"),
        ("base: missing.yaml\n", "missing.yaml"),
        ("base: 3\n", "not the name of a file"),
        ("train: {steps: 1, steps: 2}\n", "'steps' appears twice"),
        ("train: [\n", "is not YAML"),
        ("- train\n", "must hold sections"),
        ("", "must hold sections"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "self.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        load(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("number", ["1e-3", "1E5", "-2e+4", "1.5e3", ".5", "3"])
def test_numbers_are_numbers(number: str, tmp_path: Path) -> None:
    path = tmp_path / "number.yaml"
    path.write_text(f"a: {number}\n")
    assert read(path)["a"] == float(number)


def test_the_page_of_keys_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    stale = "refresh: replace the tables by the output of `launch.py config --keys`"
    assert table(ExperimentConfig) in page, stale


def test_every_key_is_described() -> None:
    described = {key.name for key in keys(ExperimentConfig) if key.description}
    assert {key.name for key in keys(ExperimentConfig)} == described
