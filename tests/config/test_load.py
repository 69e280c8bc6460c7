"""Loading: every mistake is refused with its path, its value, the reason and what is valid."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.config.keys import (
    EACH,
    ConfigKey,
    format_table,
    format_tables,
    iterate_keys,
    write_tables,
)
from mllm_jax.config.load import (
    ConfigError,
    ExperimentConfig,
    load_config,
    read_values,
    resolve_config,
    to_yaml,
)
from tests.configs import EXPERIMENTS, ROOT, VALUES, config, values

# Without the keys that choose a family: a section whose family is not known has no keys.
LEAVES = [
    key
    for key in iterate_keys(ExperimentConfig)
    if "<name>" not in key.path and key.path[-1] not in ("family", "kind")
]
INF, NAN = float("inf"), float("nan")


def refused(**changes: Any) -> str:
    """The message with which a changed configuration is refused."""
    with pytest.raises(ConfigError) as error:
        config(**changes)
    return str(error.value)


def holds_all(message: str, parts: Iterable[str]) -> bool:
    return all(part in message for part in parts)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_every_config_loads_and_states_its_recipe(path: Path) -> None:
    load_config(path)
    head = path.read_text().split("\n\n")[0].lower()
    assert holds_all(head, ["command", "hardware", "time", "result"])


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_the_resolved_config_loads_to_itself(path: Path, tmp_path: Path) -> None:
    first = load_config(path, planned=False)
    copy = tmp_path / "copy.yaml"
    copy.write_text(to_yaml(first))
    assert load_config(copy, planned=False) == first


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


@given(
    st.sampled_from([key for key in LEAVES if EACH not in key.path]),
    st.integers(0, 30),
    st.sampled_from("qxz"),
)
def test_a_key_with_a_typing_error_is_never_accepted(
    key: ConfigKey, where: int, letter: str
) -> None:
    *parents, last = key.path
    at = where % (len(last) + 1)
    wrong = last[:at] + letter + last[at:]
    with pytest.raises(ConfigError, match="unknown key; did you mean"):
        resolve_config(values(**{"__".join([*parents, wrong]): 1}), source="test")


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
        (
            {"train__optimizer": {"kind": "sgd"}},
            ["train.optimizer.kind", "sgd", "adamw, lamb, muon"],
        ),
        ({"train__optimizer": {"beta1": 0.9}}, ["train.optimizer.kind", "required", "muon"]),
        ({"model__encoders__vision__family": "dino"}, ["vision.family", "dino", "clip, siglip"]),
        ({"model__encoders__vision__patch": [1, 2, 3]}, ["vision.patch", "[1, 2, 3]"]),
        ({"model__decoder__heads": 3}, ["model.decoder", "d_model 16", "heads 3", "choose"]),
        ({"model__decoder__head_dim": 10**12}, ["decoder.head_dim", "less than or equal to 65536"]),
        ({"data__budgets": {"tokens": 8}}, ["data", "segments"]),
        (
            {"model__encoders__vision__channels": 2},
            ["vision.channels: 2 is refused", "valid: 1, 3"],
        ),
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


@pytest.mark.parametrize("group", [0, -1, 2.5, "two", True])
def test_what_is_no_number_of_hosts_is_told_once_with_all_that_is_valid(group: object) -> None:
    message = refused(data__balance_group=group)
    assert message.count("data.balance_group") == 1
    reason = "is no number of hosts that balance together; valid: a whole number above 0 that"
    parts = [f"data.balance_group: {json.dumps(group)} is refused: it {reason}", "auto", "null"]
    assert holds_all(message, parts)


def test_a_required_key_is_named() -> None:
    without = values()
    del without["train"]["steps"], without["model"]["decoder"]["layers"]
    with pytest.raises(ConfigError) as error:
        resolve_config(without, source="test")
    assert holds_all(str(error.value), ["train.steps: required", "model.decoder.layers: required"])


def test_overrides_are_yaml_and_the_last_wins(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    overrides = ["train.learning_rate=1e-2", "train.steps=7", "train.steps=8", "run.name=other"]
    changed = load_config(
        path, [*overrides, "parallel.encoders.vision={fsdp: 4}", "evaluate.every=null"]
    )
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
        load_config(path, [override])


def test_a_base_is_refined_key_by_key(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(VALUES))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "middle.yaml").write_text("base: ../base.yaml\ntrain: {steps: 9}\n")
    top = tmp_path / "top.yaml"
    top.write_text("base: deeper/middle.yaml\ntrain: {seed: 5}\n")
    merged = load_config(top)
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
        load_config(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("number", ["1e-3", "1E5", "-2e+4", "1.5e3", ".5", "3"])
def test_numbers_are_numbers(number: str, tmp_path: Path) -> None:
    path = tmp_path / "number.yaml"
    path.write_text(f"a: {number}\n")
    assert read_values(path)["a"] == float(number)


#: Texts that name a file or folder, beside the keys that are paths by their type.
NAMED = (
    *("run.directory", "run.compilation_cache", "schedule.hardware", "model.pretrained"),
    *("data.tokenizer", "data.source.distribution"),
)
LOCAL = [
    key.name for key in iterate_keys(ExperimentConfig) if "Path" in key.type or key.name in NAMED
]


@given(
    st.sampled_from(LOCAL),
    st.sampled_from(["gs://", "s3://", "hf://", "file:///", "memory://", "zip::s3://", "gs:/"]),
    st.from_regex(r"[a-z]{3}(/[a-z0-9]{1,5}){0,2}", fullmatch=True),
)
def test_a_url_is_no_place_on_this_machine(name: str, scheme: str, rest: str) -> None:
    changes: dict[str, Any] = {name.replace(".", "__"): scheme + rest}
    if name == "data.source.distribution":
        changes = {"data__source": {"kind": "synthetic", "distribution": scheme + rest}}
    message = refused(**changes)
    said = (
        "is a URL, and only data.source and checkpoint.copy_to take one",
        "valid: a path on this machine",
    )
    assert holds_all(message, [name, scheme + rest, *said])


def test_data_may_lie_at_a_url() -> None:
    places = {"path": "gs://bucket/*.json", "heldout": "s3://bucket/h.json", "media": "gs://bucket"}
    source = config(data__source={"kind": "llava", **places}).data.source
    assert source.model_dump(include={*places}) == places


@pytest.mark.parametrize("place", ["s4://bucket", "simplecache::s4://bucket", "zip://a::s4://b"])
def test_a_scheme_that_no_file_system_has_is_refused(place: str) -> None:
    said = ("s4:// is no file system that fsspec knows", "a URL such as s3://...")
    wrong: dict[str, dict[str, Any]] = {
        "checkpoint.copy_to": {"checkpoint__copy_to": place},
        "data.source.path": {"data__source": {"kind": "llava", "path": place}},
    }
    for key, changes in wrong.items():
        assert holds_all(refused(**changes), [key, *said])


def test_the_pages_of_keys_are_up_to_date() -> None:
    folder, whole = ROOT / "docs" / "reference" / "keys", format_table(ExperimentConfig)
    stale = "refresh: launch.py config --write-keys docs/reference/keys"
    for section, rows in format_tables(ExperimentConfig).items():
        assert (folder / f"{section}.md").read_text().endswith(f"\n\n{rows}"), stale
        assert f"## {section}\n\n{rows}" in whole
    assert len([*folder.iterdir()]) == len(format_tables(ExperimentConfig))


def test_stale_pages_of_keys_are_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    shutil.copytree(ROOT / "docs" / "reference" / "keys", folder)
    write_tables(ExperimentConfig, folder)
    page = folder / "train.md"
    fresh = page.read_text()
    lines = fresh.splitlines(keepends=True)
    page.write_text("".join([*lines[:-1], "| `train.gone` | int | `1` | a key of before |\n"]))
    assert write_tables(ExperimentConfig, folder) == [page]
    assert page.read_text() == fresh
    assert write_tables(ExperimentConfig, folder) == []


def test_a_page_without_a_table_is_refused_before_any_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    shutil.copytree(ROOT / "docs" / "reference" / "keys", folder)
    stale = (folder / "data.md").read_text() + "| `data.gone` | int | `1` | gone |\n"
    (folder / "data.md").write_text(stale)
    (folder / "train.md").write_text("# Keys of `train`\n")
    with pytest.raises(FileNotFoundError, match=r"train\.md has no table; valid: a line '\| key"):
        write_tables(ExperimentConfig, folder)
    assert (folder / "data.md").read_text() == stale


def test_every_key_is_described() -> None:
    described = {key.name for key in iterate_keys(ExperimentConfig) if key.description}
    assert {key.name for key in iterate_keys(ExperimentConfig)} == described


#: What no key expects, or a few do.
NASTY = (
    *("0", "-1", "3", "64", "1000000000000", "1e300", "1e-300", "-0.0", ".nan", ".inf", "null"),
    *("true", "[]", "{}", "[1, 2]", "{a: 1}", "''", '"\\0"', "x" * 3000, "/", "..", "[[1], [1]]"),
    *(
        "[null]",
        "[[]]",
        "{'': 1}",
        "{a: {b: {c: 1}}}",
        "\U0001f600",
        "1:30",
        "{data: 2}",
        "[vision]",
    ),
    *("{kind: mixture, members: {a: {source: {kind: demo}}}}", "{family: siglip}", "[0.5, 1.0]"),
    *(
        "&a [*a]",
        "[" * 20_000,
        "9" * 6000,
        "!!set {a}",
        "\ud800",
        "{a: 1, a: 2}",
        "{[a]: 1}",
        "h100",
    ),
)
OVERRIDES = st.tuples(st.sampled_from(list(iterate_keys(ExperimentConfig))), st.sampled_from(NASTY))


@given(overrides=st.lists(OVERRIDES, min_size=1, max_size=3), name=st.sampled_from(["vision", "a"]))
def test_any_value_of_any_key_is_taken_or_refused(
    overrides: list[tuple[ConfigKey, str]], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "small.yaml"
    path.write_text(to_yaml(config()))
    given = [f"{'.'.join(key.path).replace('<name>', name)}={value}" for key, value in overrides]
    try:
        taken = load_config(path, given)
    except ConfigError:
        return
    path.write_text(to_yaml(taken))
    assert load_config(path) == taken


def test_a_value_changes_what_it_names_alone(tmp_path: Path) -> None:
    path = tmp_path / "shared.yaml"
    plans = "{decoder: &plan {data: 2, tensor: 2}, encoders: {vision: *plan, audio: *plan}}"
    own = values()
    del own["parallel"]
    path.write_text(f"{yaml.safe_dump(own)}parallel: {plans}\n")
    vision = "parallel.encoders.vision"
    changed = load_config(path, ["parallel.devices=4", f"{vision}.tensor=1", f"{vision}.data=4"])
    assert changed.parallel.encoders["vision"].degrees != changed.parallel.decoder.degrees
    assert changed.parallel.encoders["audio"] == changed.parallel.decoder


@pytest.mark.parametrize("key", ["data.tokenizer", "data.processor", "model.pretrained"])
def test_a_name_that_no_file_can_have_is_refused(key: str, tmp_path: Path) -> None:
    own = values()
    if key == "model.pretrained":
        del own["model"]["decoder"]
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(own))
    with pytest.raises(ConfigError, match=f"{key}.*: File name too long: 'xxx") as error:
        load_config(path, [f"{key}={'x' * 3000}"])
    assert len(str(error.value)) < 600


def test_chains_of_bases_end(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.yaml").write_text(f"base: {number + 1}.yaml\n")
    with pytest.raises(ConfigError, match="more than 32 files refine one another"):
        load_config(tmp_path / "0.yaml")
    long = ".".join(["a"] * 20_000)
    with pytest.raises(ConfigError, match="the key has more than 64 parts"):
        load_config(ROOT / "configs" / "demo.yaml", [f"{long}=1"])
