"""Keys of before: refused where people write them, translated where commands wrote them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.cli.main import main
from mllm_jax.config.load import ConfigError, load_config, read_values, to_yaml
from mllm_jax.config.renamed_keys import RENAMED, RenameError, is_complete, translate_keys
from mllm_jax.config.strict_yaml import parse_yaml, write_yaml
from mllm_jax.config.upgrade import upgrade_files

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "configs" / "demo_pipeline.yaml"
DEMO = ROOT / "configs" / "demo.yaml"
#: Of each key of before an override of the demo with stages, and the one of today.
OVERRIDES = {
    "schedule.chunks": ("schedule.chunks=2", "schedule.chunks.decoder=2"),
    "schedule.pieces": ("schedule.pieces={audio: 2}", "schedule.chunks={audio: 1}"),
    "schedule.encoder_microbatches": (
        "schedule.encoder_microbatches=own",
        "schedule.independent_microbatches=true",
    ),
    "schedule.encoder_placement": (
        "schedule.encoder_placement=prologue",
        "schedule.placement=prologue",
    ),
    "schedule.encoder_budgets": (
        "schedule.encoder_budgets={vision: 64}",
        "schedule.independent_budgets={vision: 64}",
    ),
    "schedule.encoder_rows": (
        "schedule.encoder_rows={vision: 2}",
        "schedule.independent_rows={vision: 2}",
    ),
    "schedule.budgets": (
        "schedule.budgets={vision: 64}",
        "schedule.independent_budgets={vision: 64}",
    ),
    "schedule.rows": ("schedule.rows={vision: 2}", "schedule.independent_rows={vision: 2}"),
    "schedule.live": ("schedule.live=3", "schedule.max_waiting=3"),
    "schedule.work_ahead": ("schedule.work_ahead=false", "schedule.prefetch=false"),
    "parallel.sums": ("parallel.sums=bfloat16", "parallel.reduce_dtype=bfloat16"),
    "model.encoders.*.lanes": (
        "model.encoders.vision.lanes={short: 16, long: null}",
        "model.encoders.vision.buckets={short: 16, long: null}",
    ),
    "model.attention": ("model.attention=windowed", "model.attention=blockwise"),
    "data.balance": ("data.balance=decoder", "data.balance=backbone"),
    "data.image.encoders": (
        "data.image.encoders={vision: {height: 16}}",
        "data.image.modules={vision: {height: 16}}",
    ),
}


@pytest.mark.parametrize("key", RENAMED, ids=lambda key: key.old)
def test_a_key_of_before_is_refused_with_the_new_one(key: Any) -> None:
    old, new = OVERRIDES[key.old]
    with pytest.raises(ConfigError) as caught:
        load_config(PIPELINE, [old], planned=False)
    told = [p for p in caught.value.problems if p.startswith(old.partition("=")[0])]
    assert len(told) == 1
    assert "launch.py config upgrade FILE" in told[0]
    named = key.new.replace("*", "vision")
    assert named in told[0]
    assert new.startswith(named)


@pytest.mark.parametrize("key", RENAMED, ids=lambda key: key.old)
def test_a_value_under_a_key_of_before_is_translated(key: Any) -> None:
    around = {"parallel": {"encoders": {"audio": {"stage": 2}}}}
    old, new = (_nested(override) for override in OVERRIDES[key.old])
    assert translate_keys(old, around) == new
    assert translate_keys(new, around) == new


def test_what_a_command_wrote_is_read_as_it_was_meant(tmp_path: Path) -> None:
    """A complete configuration is translated, and one with a key less is refused."""
    config = load_config(PIPELINE, ["schedule.chunks={audio: 1}"])
    values = parse_yaml(to_yaml(config))
    assert is_complete(values)
    schedule = values["schedule"]
    schedule |= {"chunks": 1, "pieces": {"audio": config.parallel.encoders["audio"].stage}}
    schedule["encoder_microbatches"] = {False: "decoder", True: "own"}[
        schedule.pop("independent_microbatches")
    ]
    for old, new in {"placement": "encoder_placement", "prefetch": "work_ahead"}.items():
        schedule[new] = schedule.pop(old)
    for name in ("budgets", "rows"):
        schedule[f"encoder_{name}"] = schedule.pop(f"independent_{name}")
    schedule["live"] = schedule.pop("max_waiting")
    values["parallel"]["sums"] = values["parallel"].pop("reduce_dtype")
    image = values["data"]["image"]
    image["encoders"] = image.pop("modules")
    for encoder in values["model"]["encoders"].values():
        encoder["lanes"] = encoder.pop("buckets")
    file = tmp_path / "resolved.yaml"
    file.write_text(write_yaml(values))
    assert load_config(file) == config
    less = copy.deepcopy(values)
    del less["schedule"]["hardware"]
    file.write_text(write_yaml(less))
    with pytest.raises(ConfigError, match=r"schedule\.pieces: the key is schedule\.chunks now"):
        load_config(file)


def test_one_chunk_is_what_every_module_has(tmp_path: Path) -> None:
    """A number that commands wrote for all is no choice, and people may write it without stages."""
    config = load_config(DEMO)
    values = parse_yaml(to_yaml(config))
    values["schedule"] |= {"chunks": 1}
    file = tmp_path / "resolved.yaml"
    file.write_text(write_yaml(values))
    assert load_config(file) == config
    load_config(DEMO, ["schedule.chunks={decoder: 1}"])
    with pytest.raises(ConfigError, match=r"schedule\.chunks: .*2.* has no effect"):
        load_config(DEMO, ["schedule.chunks={decoder: 2}"])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"schedule": {"encoder_microbatches": "all"}}, "'all' is refused; valid: decoder, own"),
        (
            {
                "schedule": {"pieces": {"vision": 3}},
                "parallel": {"encoders": {"vision": {"stage": 2}}},
            },
            r"schedule\.pieces: vision: 3 pieces are no whole number on each of 2",
        ),
        (
            {
                "schedule": {"pieces": {"vision": 3}},
                "parallel": {"encoders": {"vision": {"stage": 0}}},
            },
            r"vision: 3 pieces are no whole number on each of 0",
        ),
        ({"schedule": {"pieces": 3}}, "3 is refused; valid: numbers of pieces by encoder"),
        (
            {"schedule": {"pieces": {"a": 2}, "chunks": {"a": 1}}},
            r"schedule\.pieces: schedule\.chunks is given, too; valid: schedule\.chunks alone",
        ),
        (
            {"schedule": {"work_ahead": True, "prefetch": False}},
            r"schedule\.work_ahead: schedule\.prefetch is given, too",
        ),
    ],
)
def test_a_value_without_counterpart_is_told(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(RenameError, match=reason):
        translate_keys(values)


BEFORE = """\
# What it is.
base: {base}
parallel: {{sums: bfloat16, encoders: {{audio: {{stage: 2}}}}}}   # half the bytes
schedule:
  # How layers are cut.
  chunks: 2   # of the decoder
  pieces:
    audio: 2  # one a stage
  encoder_microbatches: own # their own
  work_ahead: false

  hardware: null
"""
AFTER = """\
# What it is.
base: {base}
parallel: {{reduce_dtype: bfloat16, encoders: {{audio: {{stage: 2}}}}}}   # half the bytes
schedule:
  # How layers are cut.
  chunks: {{decoder: 2, audio: 1}}   # of the decoder
  independent_microbatches: true # their own
  prefetch: false

  hardware: null
"""


def test_a_file_is_rewritten_and_keeps_its_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(BEFORE.format(base=PIPELINE))
    assert main(["config", "upgrade", str(file)]) == 0
    assert file.read_text() == AFTER.format(base=PIPELINE)
    told = capsys.readouterr().out
    assert "- schedule.pieces: {audio: 2}" in told
    assert "+ schedule.chunks: {decoder: 2, audio: 1}" in told
    assert main(["config", "upgrade", str(file)]) == 0
    assert "has the keys of today" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [file]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "schedule: {chunks: 2, pieces: {vision: 2}, live: 3}",
            "{chunks: {decoder: 2, vision: 2}, max_waiting: 3}",
        ),
        ("schedule: {chunks: 2, pieces: {vision: 2}}", "{chunks: {decoder: 2, vision: 2}}"),
        ("schedule: {pieces: {vision: 2}, chunks: 2}", "{chunks: {decoder: 2, vision: 2}}"),
        ("schedule:\n  chunks: 2\n  pieces: {vision: 2}", "\n  chunks: {decoder: 2, vision: 2}\n"),
        ("schedule: {pieces: {}}", "{chunks: {}}"),
        ("# é\r\nschedule:\r\n  work_ahead: no\r\n", "\r\n  prefetch: false\r\n"),
    ],
)
def test_entries_go_in_every_style(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(before.encode())
    upgrade_files([file])
    text = file.read_bytes().decode()
    assert parse_yaml(text) == parse_yaml(f"schedule: {after}")
    assert text == before.partition("schedule:")[0] + "schedule:" + " " * (after[0] == "{") + after


def test_a_link_and_the_mode_of_a_file_stay(tmp_path: Path) -> None:
    (tmp_path / "of").mkdir()
    file, link = tmp_path / "of" / "mine.yaml", tmp_path / "link.yaml"
    file.write_text("schedule: {work_ahead: true}\n")
    file.chmod(0o640)
    link.symlink_to(file)
    upgrade_files([link])
    assert link.is_symlink()
    assert file.read_text() == "schedule: {prefetch: true}\n"
    assert file.stat().st_mode & 0o777 == 0o640


def test_nothing_is_written_unless_all_can_be(tmp_path: Path) -> None:
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    files[0].write_text("schedule: {work_ahead: true}\n")
    # One text stands for the values of two keys.
    files[1].write_text("schedule: &s {work_ahead: true}\nparallel: *s\n")
    with pytest.raises(ConfigError, match=r"two\.yaml"):
        upgrade_files(files)
    assert files[0].read_text() == "schedule: {work_ahead: true}\n"


def test_no_file_of_the_project_has_a_key_of_before() -> None:
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        if path.parent.name not in ("hardware", "clusters"):
            values = read_values(path)
            assert translate_keys(values) == values, path


def _nested(override: str) -> dict[str, Any]:
    path, _, value = override.partition("=")
    values: Any = parse_yaml(value)
    for part in reversed(path.split(".")):
        values = {part: values}
    assert isinstance(values, dict)
    return values


def test_the_page_about_older_files_lists_every_key() -> None:
    page = (ROOT / "docs" / "how-to" / "older-files.md").read_text()
    page = page.partition("## Renamed keys")[2]
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    listed = {
        (old.strip("| `").partition(":")[0], new.strip("| `").partition(":")[0])
        for old, new in rows
    }
    assert listed == {
        (key.old.replace("*", "<name>"), key.new.replace("*", "<name>")) for key in RENAMED
    }
