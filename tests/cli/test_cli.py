"""The command line: help that is true, exit codes, JSON that is only JSON."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import launch
from benchmarks.registry import BENCHMARKS
from mllm_jax.cli import main as cli
from mllm_jax.cli.answer import CommandOutput
from mllm_jax.cli.benchmark import Benchmark, load_registry
from mllm_jax.config.load import ConfigError, load_config
from mllm_jax.runtime.devices import DeviceError, start_devices
from mllm_jax.runtime.exits import MEANINGS, ExitCode
from mllm_jax.runtime.run_peers import JoinError, ProcessPlace
from tests.configs import ROOT, VALUES, config, values
from tests.train.llava_folder import write_folder

COMMANDS = (
    *("train", "evaluate", "verify", "config", "preview", "budgets"),
    *("bench", "trace", "experts", "simulate", "calibrate", "plan", "compile", "submit"),
)
#: What a command needs besides a configuration.
NEEDS = {
    "bench": ["step"],
    "compile": ["--topology", "tpu:v5p:2x2x1"],
    "submit": ["--cluster", "slurm", "--nodes", "1"],
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A file with the small configuration."""
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`launch.py` in a process of its own, where it chooses the devices itself."""
    command = [sys.executable, "launch.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


def help_of(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        launch.main([*arguments, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys=capsys)
    assert all(re.search(rf"^ +{name}\s+\w", text, flags=re.MULTILINE) for name in COMMANDS)


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["train"], ["bench"]):
        shown = help_of(*words, capsys=capsys)
        with pytest.raises(SystemExit) as ended:
            launch.main(["help", *words])
        assert (ended.value.code, capsys.readouterr().out) == (0, shown)


def test_help_lists_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of("bench", capsys=capsys)
    for name, benchmark in load_registry().items():
        assert benchmark.purpose
        assert f"  {name:13s} {benchmark.purpose}\n" in text


def test_help_lists_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of("train", capsys=capsys)
    assert all(
        re.search(rf"^ +{code:d}  {re.escape(MEANINGS[code])}$", text, re.M) for code in ExitCode
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_in_the_help_is_accepted(
    name: str, small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def note(args: object, console: object) -> CommandOutput:
        seen.append(name)
        return CommandOutput(None)

    text = help_of(name, capsys=capsys)
    monkeypatch.setattr(cli, "run_command", note)
    options = re.findall(r"^ +(--[a-z-]+)(?: ([A-Z{:][\w,:{}]*))?", text, flags=re.MULTILINE)
    values = {"FILE": str(small), "HOST:PORT": "localhost:1234", "N": "1", "I": "0", "DIR": "out"}
    values |= {"NAME": "h100", "STAGE": "0=1.5", "SIGMA": "0.2", "TOPOLOGY": "gpu:h100:1x8"}
    values |= {"T": "1", "P": "0.5", "QUOTAS": "0.25,0.75"}
    values |= {"GIB": "60", "K": "2", "SHARE": "0.1", "SECONDS": "5", "MIXTURES": "1:9,9:1"}
    for option, value in options:
        given = [values.get(value, value.strip("{}").split(",")[0])] if value else []
        # Options of `evaluate` are those of questions, but for a configuration's file.
        asks = name == "evaluate" and option != "--config"
        what = "--questions" if asks else "--config"
        line = [name, *NEEDS.get(name, []), what, str(small), option, *given]
        assert launch.main(line) == ExitCode.OK
    assert len(seen) == len(options) >= 2


def test_the_example_in_the_help_loads(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"^ +launch.py train (.*)$", help_of(capsys=capsys), flags=re.MULTILINE)
    words = example.split()
    assert launch.main(["config", *words]) == ExitCode.OK
    assert yaml.safe_load(capsys.readouterr().out)["train"]["steps"] == 10


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["train"],
        ["train", "--config"],
        ["train", "--config", "small.yaml", "--confg"],
        ["train", "--config", "small.yaml", "steps"],
        ["bench", "luck", "--config", "small.yaml"],
        ["budgets", "--config", "small.yaml", "--samples", "0"],
        ["preview", "--config", "small.yaml", "--samples", "0"],
        ["simulate", "--config", "small.yaml", "--slow", "1:2"],
        ["simulate", "--config", "small.yaml", "--vary", "-0.1"],
        ["simulate", "--config", "small.yaml", "--vary", "inf"],
        ["simulate", "--config", "small.yaml", "--mixture", "1:9,nine"],
    ],
)
def test_a_wrong_command_line_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        launch.main(arguments)
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "usage: launch.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--config", "a.yaml", "--metrics", "nonsense"], "--metrics is an option of evaluate --q"),
        (["--config", "a.yaml", "--alone", "--temperature", "0"], "--alone and --temperature are"),
        (["--config", "a.yaml", "--output", "b", "--top-p", "1"], "--output and --top-p are optio"),
        (["--run", "a"], "--run is an option of evaluate --questions FILE, which is not given"),
        (["--config", "a.yaml", "--run", "a", "--questions", "b"], "--config and --questions: bot"),
    ],
)
def test_evaluate_refuses_options_that_would_have_no_effect(
    given: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        launch.main(["evaluate", *given])
    assert ended.value.code == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", [*COMMANDS, "import", "export", "generate"])
def test_an_option_that_names_a_file_takes_no_url(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "gs://bucket/runs"
    told = help_of(name, capsys=capsys)
    options = re.findall(r"^  (--[a-z-]+) \S*(?:FILE|DIR|FOLDER|NAME)\b", told, re.MULTILINE)
    assert options
    for option in options:
        value = f"vision={url}" if option == "--encoder" else url
        with pytest.raises(SystemExit) as ended:
            launch.main([name, *NEEDS.get(name, ()), option, value])
        assert ended.value.code == ExitCode.BAD_INPUT
        error = capsys.readouterr().err
        assert f"argument {option}: '{url}' is a URL" in error
        assert "valid: a path on this machine" in error


def test_experts_tells_and_draws_the_load_of_a_run(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense = ["experts", "--config", str(small), f"run.directory={tmp_path}", "--json"]
    for also in ([], ["--routes"]):
        assert launch.main([*dense, *also]) == ExitCode.BAD_INPUT
        assert "family: llama has no experts to draw" in capsys.readouterr().err
    experts = "{count: 2, top_k: 2, d_ff: 8}"
    words = [*dense, "model.decoder.family=mixtral", f"model.decoder.experts={experts}"]
    assert launch.main(words) == ExitCode.BAD_INPUT
    assert (
        "there is no such folder; valid: the folder of a run that has begun"
        in capsys.readouterr().err
    )
    own = {"layer": 2, "imbalance": 1.5, "entropy": 0.9, "shares": [0.5, 1.5]}
    broken = own | {"imbalance": None, "shares": [None, None]}
    (tmp_path / "test").mkdir()
    lines = [{"step": 10, "experts": [broken]}, {"step": 20, "experts": [own]}]
    (tmp_path / "test" / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert launch.main(words) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert (result["layers"], result["load"]) == ([2], [[[None, None]], [[0.5, 1.5]]])
    assert Path(result["file"]) == tmp_path / "test" / "experts.png"
    assert Path(result["file"]).stat().st_size > 1000


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_config_ends_in_code_2_without_a_traceback(
    name: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = launch.main([name, *NEEDS.get(name, []), "--config", str(small), "train.stepz=3"])
    captured = capsys.readouterr()
    assert code == ExitCode.BAD_INPUT
    assert captured.out == ""
    assert "train.stepz: unknown key; did you mean train.steps?" in captured.err
    assert "Traceback" not in captured.err


def test_an_interrupt_ends_in_code_130(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(args: object, console: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run_command", interrupt)
    assert launch.main(["train", "--config", str(small)]) == ExitCode.INTERRUPTED


def test_overrides_may_stand_anywhere(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "config",
        "train.seed=3",
        "--config",
        str(small),
        "train.steps=7",
        "--json",
        "run.name=x",
    ]
    assert launch.main(words) == ExitCode.OK
    resolved = json.loads(capsys.readouterr().out)
    assert (resolved["train"]["seed"], resolved["train"]["steps"]) == (3, 7)
    assert resolved["run"]["name"] == "x"


def test_the_printed_config_is_the_config(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch.main(["config", "--config", str(small)])
    printed = tmp_path / "printed.yaml"
    printed.write_text(capsys.readouterr().out)
    assert load_config(printed) == load_config(small)


def test_the_list_of_keys_needs_no_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main(["config", "--keys"]) == ExitCode.OK
    assert "`parallel.encoders.<name>.tensor`" in capsys.readouterr().out


def test_pages_of_keys_are_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "keys"
    shutil.copytree(ROOT / "docs" / "reference" / "keys", folder)
    (folder / "run.md").write_text("# Mine\n\n| key | type | default | meaning |\n")
    assert launch.main(["config", "--write-keys", str(folder)]) == ExitCode.OK
    assert capsys.readouterr().out.split() == [str(folder / "run.md")]
    assert (folder / "run.md").read_text().startswith("# Mine\n\n| key |")
    assert launch.main(["config", "--write-keys", str(folder)]) == ExitCode.OK
    assert "are up to date" in capsys.readouterr().out


def test_verify_prints_one_json_value_and_nothing_else(small: Path) -> None:
    text_only = [
        "model.encoders={}",
        "parallel={devices: 2, decoder: {data: 2}, encoders: {}}",
        "data.budgets={tokens: 64, segments: 8}",
    ]
    done = run("verify", "--config", small, "--json", *text_only)
    assert done.returncode == ExitCode.OK, done.stderr
    result = json.loads(done.stdout)
    assert result["ok"] is True
    assert set(result) == {"ok", "loss_error", "worst"}
    assert set(result["worst"]) == {"decoder"}


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A file with a small demo set whose samples all fit."""
    source = {"kind": "demo", "train": 64, "heldout": 8, "clips": 16, "variants": 2}
    changes = {
        "data__source": source,
        "data__cache": str(tmp_path / "cache"),
        "data__lookahead": 32,
        "data__budgets": {"tokens": 64, "segments": 8, "vision": 64, "audio": 320},
    }
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(values(**changes)))
    return path


def test_suggested_budgets_load_and_hold_about_the_samples_asked_for(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--samples", "40", "--json", "data.source.train=640"]  # many steps in an epoch
    assert launch.main(["budgets", "--config", str(demo), *more]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    present, suggested = result["present"], result["suggested"]
    assert present["budgets"] == load_config(demo).data.budgets
    assert load_config(demo, [f"data.budgets={suggested['budgets']}"])
    assert 25 < suggested["samples"] < 55
    assert suggested["skipped"] == 0
    assert sum(suggested["padding"].values()) < sum(present["padding"].values())


def test_suggested_budgets_are_printed_ready_to_paste(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Tensor degree 3 divides no multiple of 8: heads and widths are multiples of it.
    plan = "{devices: 3, decoder: {tensor: 3}, encoders: {vision: {data: 3}, audio: {tensor: 3}}}"
    thirds = "{layers: 1, d_model: 24, heads: 3, d_ff: 24, "
    more = [
        f"parallel={plan}",
        "data.rows=3",
        "data.budgets={tokens: 96, segments: 8, vision: 96, audio: 384}",
        f"model.decoder={thirds}family: llama, vocab: 192}}",
        f"model.encoders.audio={thirds}family: whisper, mels: 8, connector: {{stack: 4}}}}",
    ]
    assert launch.main(["budgets", "--config", str(demo), *more]) == ExitCode.OK
    *table, line = capsys.readouterr().out.splitlines()
    (override,) = shlex.split(line)
    budgets = load_config(demo, [*more, override]).data.budgets
    assert budgets["tokens"] % 3 == budgets["audio"] % 24 == 0
    assert all(any(str(n) in row for row in table) for n in budgets.values())


def test_budgets_count_each_unusable_sample_once_and_name_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path, bad=False)
    records = json.loads((folder / "train.json").read_text())
    gone = [records[0] | {"image": f"gone{i}.png"} for i in range(5)]
    (folder / "train.json").write_text(json.dumps([*gone, *records, {"id": 1}]))
    budgets = {"tokens": 128, "segments": 4, "vision": 32, "audio": 96}
    changes = {
        "data__source": {
            "kind": "llava",
            "path": str(folder / "train.json"),
            "media": str(folder / "media"),
        },
        "data__tokenizer": "bytes",
        "data__image": {"max_patches": 16},
        "data__budgets": budgets,
        "data__cache": str(folder / "cache"),
        "data__lookahead": 32,
    }
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(values(**changes)))
    assert launch.main(["budgets", "--config", str(path), "--json"]) == ExitCode.OK
    present = json.loads(capsys.readouterr().out)["present"]
    names = "train.json[0], train.json[1], train.json[2], ..."
    assert (present["skipped"], present["total"]) == (6, 16)
    assert present["reasons"] == {
        "missing file": {"samples": 5, "first": names},
        "malformed record": {"samples": 1, "first": "train.json[15]"},
    }
    assert launch.main(["budgets", "--config", str(path)]) == ExitCode.OK
    told = capsys.readouterr().out
    assert f"6 of 16 samples skipped\n  missing file: 5: {names}\n" in told
    assert told.count(names) == 1  # they are the same with the suggested budgets


def test_budgets_into_which_no_sample_fits_ask_for_a_number(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["budgets", "--config", str(demo), "data.budgets.tokens=2", "evaluate.enabled=false"]
    assert launch.main(words) == ExitCode.BAD_DATA
    assert "say with --samples" in capsys.readouterr().err
    assert launch.main([*words, "--samples", "40", "--json"]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert result["present"] is None
    assert result["suggested"]["budgets"]["tokens"] > 2


def test_suggesting_budgets_needs_no_device(demo: Path) -> None:
    absent = ["parallel.platform=tpu", "parallel.devices=4"]
    done = run("budgets", "--config", demo, "--json", *absent)
    assert done.returncode == ExitCode.OK, done.stderr
    assert set(json.loads(done.stdout)) == {"present", "suggested"}


def test_evaluating_a_run_without_checkpoint_is_bad_input(small: Path, tmp_path: Path) -> None:
    done = run("evaluate", "--config", small, f"run.directory={tmp_path}", "--json")
    assert done.returncode == ExitCode.BAD_INPUT, done.stderr
    assert done.stdout == ""
    assert "there is no such folder; valid: the folder of a run that has saved" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("count", "index", "coordinator", "reason"),
    [
        (2, 2, "localhost:1", "valid: 0 to 1"),
        (1, -1, None, "valid: 0 to 0"),
        (2, 0, None, "needs --coordinator"),
    ],
)
def test_impossible_processes_are_refused(
    count: int, index: int, coordinator: str | None, reason: str
) -> None:
    with pytest.raises(JoinError, match=reason):
        ProcessPlace(count, index, coordinator)


def test_devices_are_shared_evenly_by_processes() -> None:
    with pytest.raises(DeviceError, match=r"4 cannot be shared evenly by 3 .* 1, 2, 4"):
        start_devices(config().parallel, ProcessPlace(3, 0, "localhost:1"))


def test_devices_are_chosen_before_jax_starts() -> None:
    import jax

    assert jax.device_count() == 8
    with pytest.raises(DeviceError, match="started before"):
        start_devices(config().parallel)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told(small: Path, tmp_path: Path) -> None:
    gpus = ["parallel.platform=gpu", f"run.directory={tmp_path}"]
    done = run("train", "--config", small, *gpus)
    assert done.returncode == ExitCode.BAD_INPUT, done.stderr
    assert "parallel.platform gpu: JAX finds no such device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_calibration_that_could_not_be_read_again_is_refused(small: Path, tmp_path: Path) -> None:
    output = tmp_path / "hardware.txt"
    done = run("calibrate", "--config", small, "--output", output, "--json")
    assert done.returncode == ExitCode.BAD_INPUT, done.stderr
    assert done.stdout == ""
    assert (
        "hardware.txt: the name of a description of hardware ends in .yaml or .yml" in done.stderr
    )
    assert not output.exists()


def test_config_errors_are_value_errors() -> None:
    assert issubclass(ConfigError, ValueError)


def test_options_of_another_benchmark_are_refused(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["bench", "data", "--config", str(small), "--ranks", "4", "--distribution", "web"]
    assert launch.main(line) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert "--ranks is an option of bench balance" in told
    assert "--distribution is an option of bench balance" in told
    line = ["bench", "data", "--config", str(small), "--hardware", "h100"]
    assert launch.main(line) == ExitCode.BAD_INPUT
    assert "--hardware is an option of bench cost" in capsys.readouterr().err


def test_balance_is_printed_for_the_ranks_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        launch.main(["bench", "balance", "--ranks", "6", "--samples", "4", "--json"]) == ExitCode.OK
    )
    rows = json.loads(capsys.readouterr().out)
    assert [(row["phase"], row["ranks"], row["samples"]) for row in rows] == [
        ("decoder", 6, 4),
        ("vision", 6, 4),
        ("audio", 6, 4),
    ]
    assert launch.main(["bench", "balance", "--distribution", "nowhere"]) == ExitCode.BAD_DATA
    assert "distribution 'nowhere'" in capsys.readouterr().err


def simulated(
    capsys: pytest.CaptureFixture[str], folder: Path, *more: str, config: str = "demo_pipeline"
) -> dict[str, Any]:
    """The output of `simulate` for a configuration; its files go to `folder`."""
    given = ["--config", f"configs/{config}.yaml", "--json", "--output", str(folder)]
    assert launch.main(["simulate", *given, *more]) == ExitCode.OK
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_simulated_step_adds_up_and_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = simulated(capsys, tmp_path / "new")
    assert result["compute"] + sum(result["idle"].values()) == pytest.approx(result["seconds"])
    assert set(result["idle"]) == {"gather", "scatter", "warm-up", "cool-down", "other", "tensor"}
    assert 0 <= result["encoder_hidden"] <= 1
    trace, image = map(Path, result["files"])
    assert (trace.name, image.name) == ("simulation.json", "simulation.png")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["args"]["stage"] for event in events if event["ph"] == "X"} == {0, 1}
    assert image.read_bytes().startswith(b"\x89PNG")


def test_slow_stages_and_lengths_make_a_step_longer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = simulated(capsys, tmp_path)
    slow = simulated(capsys, tmp_path, "--slow", "0=2", "--slow", "1=2")
    # One of two replicas is slow: its compute takes twice as long, and the other waits for it.
    assert slow["compute"] == pytest.approx(1.5 * usual["compute"])
    assert usual["seconds"] < slow["seconds"] <= 2 * usual["seconds"]
    assert slow["idle"]["scatter"] > usual["idle"]["scatter"]
    varied = [simulated(capsys, tmp_path, "--vary", "0.4", "--seed", seed) for seed in "112"]
    assert varied[0]["seconds"] == varied[1]["seconds"] != varied[2]["seconds"]
    assert varied[0]["seconds"] > usual["seconds"]


def test_a_step_without_pipeline_is_simulated_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = simulated(capsys, tmp_path, config="demo")
    assert 0 < result["compute"] < result["seconds"]
    assert result["encoder_hidden"] == pytest.approx(0, abs=1e-9)


def test_faster_hardware_makes_the_simulated_step_shorter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "configs/hardware/h100.yaml").read_text()
    faster = tmp_path / "faster.yaml"
    faster.write_text(text.replace("989.5e+12", "1979.0e+12"))
    usual = simulated(capsys, tmp_path)
    twice = simulated(capsys, tmp_path, "--hardware", str(faster))
    assert twice["seconds"] < usual["seconds"]
    assert usual["compute"] / 2 < twice["compute"] < usual["compute"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--slow", "2=1.5"], "stage 2 does not exist; valid: 0 to 1"),
        (["--slow", "1=0"], "factor 0.0 of stage 1 is refused; valid: above 0"),
        (["--hardware", "abacus"], "hardware 'abacus' is unknown; valid: "),
    ],
)
def test_simulations_that_make_no_sense_are_refused(
    more: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["simulate", "--config", "configs/demo_pipeline.yaml", "--output", str(tmp_path)]
    assert launch.main([*line, *more]) == ExitCode.BAD_INPUT
    assert reason in capsys.readouterr().err


def test_what_is_simulated_is_printed_as_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["simulate", "--config", "configs/demo_pipeline.yaml", "--output", str(tmp_path)]
    assert launch.main(line) == ExitCode.OK
    text = capsys.readouterr().out
    assert re.search(r"^idle: cool-down +\S+ +\d+\.\d%$", text, flags=re.MULTILINE)
    assert re.search(r"^step +\S+ +100\.0%$", text, flags=re.MULTILINE)
    assert re.search(
        r"^encoder compute that does not lengthen the step: \d+\.\d%$", text, flags=re.MULTILINE
    )


@pytest.mark.parametrize("own", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_benchmark_has_a_function_that_takes_its_options(own: Benchmark) -> None:
    taken = list(inspect.signature(own.call.load_function()).parameters)
    assert {option.name for option in own.options} <= {*taken[1:]}
    assert own.config is None or (ROOT / own.config).is_file()
