"""Runs that begin with released weights, and what is exported of them."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import yaml
from rich.console import Console
from safetensors.numpy import load_file, save_file

import launch
from data.planning.stream import LoaderState
from data.sample import DataError, Sample, SampleError, Turn
from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.release import import_weights
from mllm_jax.release.origin import ReleaseOrigin
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.train.components.start import initial_state
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import check_sources
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.trainer import train
from tests.configs import ROOT
from tests.data.hf_format.stored import make_processor, read_folder
from tests.data.samples import TEXT
from tests.train.llava_folder import write_folder

PARITY = ROOT / "tests" / "parity"
TEXTS = ("tokenizer.json", "chat_template.jinja")
#: Stages whose layers are padded, and a plan of shards.
PIPELINE = {"devices": 4, "decoder": {"stage": 2, "fsdp": 2}}
#: Ranks that divide neither vocabularies nor layers, and more than there are heads of keys.
PADDED = {"devices": 5, "decoder": {"stage": 5}}
COPIED = {"devices": 8, "decoder": {"fsdp": 2, "tensor": 4}}
SHARDED = {"devices": 4, "decoder": {"fsdp": 2, "tensor": 2}}


def tensors(folder: Path) -> dict[str, np.ndarray]:
    """All tensors of a folder."""
    found: dict[str, np.ndarray] = {}
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
    return found


def imported(out: Path, source: Path, *options: str) -> dict[str, Any]:
    """The configuration that `import` writes, with data that need no files."""
    line = ["import", "--from", str(source), "--out", str(out), *options]
    assert launch.main(line) == ExitCode.OK
    values: dict[str, Any] = yaml.safe_load((out / "config.yaml").read_text())
    assert Path(values["data"]["processor"]).is_absolute()
    values["data"] |= {"source": {"kind": "synthetic"}}
    return values | {"evaluate": {"enabled": False}}


@pytest.mark.parametrize(("positions", "tokens"), [(128, 128), (4096, 4096), (131072, 4096)])
def test_a_row_to_begin_with_has_no_more_tokens_than_the_decoder_has_positions(
    positions: int, tokens: int, tmp_path: Path
) -> None:
    source = shutil.copytree(PARITY / "qwen2_5", tmp_path / "source")
    own = json.loads((source / "config.json").read_text())
    own["max_position_embeddings"] = positions
    (source / "config.json").write_text(json.dumps(own))
    values = imported(tmp_path / "run", source)
    assert values["model"]["decoder"]["max_positions"] == positions
    assert values["data"]["budgets"]["tokens"] == tokens


def planned(values: dict[str, Any], **parallel: Any) -> ExperimentConfig:
    """A configuration for the devices of tests."""
    plans = {name: {"data": 4} for name in values["model"]["encoders"]}
    values["data"]["rows"], values["train"]["accumulate"] = parallel.pop("rows", 4), 4
    values["parallel"] = {"platform": "cpu", "encoders": plans} | parallel
    values["schedule"] = {"pad_layers": True} if parallel["decoder"].get("stage") else {}
    return resolve_config(values, "test")


def begun(
    config: ExperimentConfig, change: Callable[[Any], Any] = lambda state: state
) -> tuple[Any, str]:
    """The state before the first step, changed and saved; and what was told."""
    experiment, told = Experiment.build(config), io.StringIO()
    state = change(initial_state(experiment, Console(file=told, width=1000)))
    folder = config.run.path / "checkpoints"
    checkpoints = CheckpointManager(folder, config.checkpoint, experiment.step.form.regrouping)
    progress = Progress(0, LoaderState(0)).to_json()
    checkpoints.save_state(0, state, progress, config.model_dump(mode="json"))
    checkpoints.close()
    return state, told.getvalue()


@pytest.mark.parametrize(
    ("family", "plan"),
    [
        ("qwen2_5", PADDED),
        ("llama3", COPIED),
        pytest.param("qwen2_audio", PIPELINE, marks=pytest.mark.slow),
        ("llava_onevision", PIPELINE),
    ],
)
def test_what_is_imported_is_exported(family: str, plan: dict[str, Any], tmp_path: Path) -> None:
    """Every tensor bit by bit, from any plan, with `config.json` and the processor's files."""
    source, run, out = PARITY / family, tmp_path / "run", tmp_path / "out"
    _, told = begun(planned(imported(run, source), **plan))
    assert f"from {source}" in told
    assert launch.main(["export", "--run", str(run), "--out", str(out)]) == ExitCode.OK
    given, found = tensors(source), tensors(out)
    assert given.keys() - found.keys() <= {"lm_head.weight"}
    assert found.keys() <= given.keys()
    for name, tensor in found.items():
        assert tensor.dtype == given[name].dtype
        np.testing.assert_array_equal(tensor, given[name], err_msg=name)
    configs = [json.loads((folder / "config.json").read_text()) for folder in (source, out)]
    assert configs[0] == configs[1]
    same = {name: (out / name).read_bytes() == (source / name).read_bytes() for name in TEXTS}
    # OneVision's template writes a blank before answers that its generation prompt lacks.
    assert same == {"tokenizer.json": True, "chat_template.jinja": family != "llava_onevision"}
    card = (out / "README.md").read_text()
    assert f"{source}" not in card  # a path on this machine tells its readers nothing
    assert "learning_rate: 1.0e-05" in card
    # The public processor of OneVision cannot be loaded without.
    assert ("torchvision" in card) == (family == "llava_onevision")
    assert ("AutoTokenizer" if family in ("llama3", "qwen2_5") else "AutoProcessor") in card


def test_any_encoder_goes_with_any_decoder(tmp_path: Path, capsys: Any) -> None:
    run, vision = tmp_path / "run", PARITY / "siglip"
    values = imported(run, PARITY / "llama3", "--encoder", f"vision={vision}", "--devices", "4")
    assert "vision.connector  random values" in capsys.readouterr().out
    files = {path.name: path.read_bytes() for path in (run / "processor").iterdir()}
    for name, folder in (("tokenizer.json", "llama3"), ("preprocessor_config.json", "siglip")):
        assert files[name] == (PARITY / folder / name).read_bytes()
    state, told = begun(planned(values, **SHARDED))
    assert "at random: vision.connector" in told
    patch = tensors(vision)["vision_model.embeddings.patch_embedding.bias"]
    kept = state["params"]["vision"]["embeddings"]["patch_embedding"]["bias"]
    np.testing.assert_array_equal(np.asarray(kept), patch)
    connector = jax.tree_util.tree_leaves_with_path(state["params"]["vision"]["connector"])
    assert all(np.std(leaf) > 0 for path, leaf in connector if path[-1].key == "kernel")
    for part, source in (("decoder", PARITY / "llama3"), ("vision", vision)):
        out = tmp_path / part
        line = ["export", "--run", str(run), "--out", str(out), "--part", part]
        assert launch.main(line) == ExitCode.OK
        given = tensors(source)
        for name, tensor in tensors(out).items():
            np.testing.assert_array_equal(tensor, given[name], err_msg=name)
    assert launch.main(["export", "--run", str(run), "--out", str(tmp_path / "all")]) == 2
    told = capsys.readouterr().err
    assert "the model has no released form" in told
    assert "each by itself: --part decoder or vision or vision.connector\n" in told
    words = ["export", "--run", str(run), "--out", str(tmp_path / "all"), "--part", "audio"]
    assert launch.main(words) == 2
    told = capsys.readouterr().err
    parts = "decoder, vision, vision.connector"
    assert told.count(f"--part audio is none of the model; valid: {parts}\n") == 1
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("name", "family"),
    [("vision", "llava"), ("vision", "llava_onevision"), ("audio", "qwen2_audio")],
)
def test_encoders_of_whole_models_go_with_any_decoder(
    name: str, family: str, tmp_path: Path
) -> None:
    """The encoder comes alone, as from a release of its own, and nothing else of its model."""
    run = tmp_path / "run"
    values = imported(run, PARITY / "llama3", "--encoder", f"{name}={PARITY / family}")
    tiled = family == "llava_onevision"
    assert values["model"]["decoder"]["extra_tokens"] == tiled
    state, told = begun(planned(values, **SHARDED))
    assert f"at random: {name}.connector{', decoder.extra' if tiled else ''}" in told
    assert {*state["params"]} == {"decoder", name}
    files = read_folder(run / "processor")
    assert (files.placeholders.get("image"), files.placeholders.get("audio")) == (None, None)
    assert (files.media.get("audio") is None) == (name == "vision")


#: Two ranks that share experts, and shards of all else.
SHARED = {"devices": 4, "decoder": {"fsdp": 2, "expert": 2}}


@pytest.mark.parametrize(
    ("family", "name", "encoder"),
    [
        pytest.param("mixtral", "vision", "siglip", marks=pytest.mark.slow),
        pytest.param("qwen2_moe", "audio", "whisper", marks=pytest.mark.slow),
        pytest.param("qwen3_moe", "vision", "clip", marks=pytest.mark.slow),
    ],
)
def test_any_encoder_goes_with_a_decoder_with_experts(
    family: str, name: str, encoder: str, tmp_path: Path
) -> None:
    """Both come in and, from ranks that share experts, go out bit by bit."""
    run, decoder = tmp_path / "run", with_texts(family, tmp_path / "decoder")
    values = imported(run, decoder, "--encoder", f"{name}={PARITY / encoder}", "--devices", "4")
    state, told = begun(planned(values, **SHARED))
    assert f"at random: {name}.connector" in told
    kernel = state["params"]["decoder"]["layers"]["experts"]["up_proj"]["kernel"]
    assert {shard.data.shape[1] for shard in kernel.addressable_shards} == {kernel.shape[1] // 2}
    for part, source in (("decoder", decoder), (name, PARITY / encoder)):
        out = tmp_path / f"{part} again"
        line = ["export", "--run", str(run), "--out", str(out), "--part", part]
        assert launch.main(line) == ExitCode.OK
        given, found = tensors(source), tensors(out)
        assert found.keys() == given.keys() or part != "decoder"
        for tensor, value in found.items():
            np.testing.assert_array_equal(value, given[tensor], err_msg=tensor)
    if encoder == "clip":  # of which whole models have a form with any decoder
        whole, again = tmp_path / "whole", tmp_path / "again"
        assert launch.main(["export", "--run", str(run), "--out", str(whole)]) == ExitCode.OK
        assert imported(again, whole)["model"]["decoder"] == values["model"]["decoder"]


def test_a_vocabulary_below_the_tokenizers_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decoder = with_texts("mixtral", tmp_path / "decoder", wider=False)
    line = ["import", "--from", str(decoder), "--encoder", f"vision={PARITY / 'siglip'}"]
    assert launch.main([*line, "--out", str(tmp_path / "run")]) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert "ids of texts are beyond the decoder's 128 embeddings" in told
    assert "valid: the tokenizer of the decoder's release" in told
    assert not (tmp_path / "run").exists()


def with_ids_after(folder: Path, more: int, **fields: bool) -> int:
    """A copy of a small Qwen2.5 whose tokenizer has `more` ids than embeddings; its vocabulary."""
    shutil.copytree(PARITY / "qwen2_5", folder)
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    own = json.loads((folder / "tokenizer.json").read_text())
    first = 1 + max(token["id"] for token in own["added_tokens"])
    names = [f"<free{number}>" for number in range(first, vocab + more)]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    own["added_tokens"] += [
        {"id": first + at, "content": name, **flags, "special": True, **fields}
        for at, name in enumerate(names)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(own))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["pad_token"] = names[-1]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return int(vocab)


@pytest.mark.parametrize("more", [1, 5])
def test_ids_after_the_embeddings_are_no_problem_until_a_text_has_one(
    more: int, tmp_path: Path
) -> None:
    """The export has the tokenizer as it was, and no `pad_token_id` that the weights lack."""
    source, run, out = (tmp_path / name for name in ("source", "run", "out"))
    vocab = with_ids_after(source, more, special=False)
    values = imported(run, source)
    values["model"]["decoder"]["rope_theta"] = 5.0  # so that `config.json` is made anew
    config = planned(values, **SHARDED)
    processor = make_processor(config.data, [TEXT])
    assert any(f"{vocab} embeddings" in own for own in processor.chat.check_training())
    for text, known in ((f"<free{vocab - 1}>", True), (f"<free{vocab}>", False)):
        sample = Sample("s", (Turn("user", f"What is {text}?"), Turn("assistant", "A cat.")))
        for read in (processor.measure, processor.measure_prompt):
            if known or more == 1:  # the last is `pad_token`, which no text spells
                assert read(sample).total("decoder")
                continue
            with pytest.raises(SampleError, match=rf"has the token '<free{vocab}>' \(id {vocab}, "):
                read(sample)
    begun(config)
    assert launch.main(["export", "--run", str(run), "--out", str(out)]) == ExitCode.OK
    assert (out / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    found = json.loads((out / "config.json").read_text())
    assert found["vocab_size"] == vocab
    assert found.get("pad_token_id") is None


def test_a_token_of_the_template_after_the_embeddings_is_refused_with_a_way_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, run = tmp_path / "source", tmp_path / "run"
    vocab = with_ids_after(source, 1)
    template = (source / "chat_template.jinja").read_text()
    (source / "chat_template.jinja").write_text(template.replace("<|im_end|>", f"<free{vocab}>"))
    line = ["import", "--from", str(source), "--out", str(run)]
    assert launch.main(line) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err
    assert f"write '<free{vocab}>' (id {vocab}, beyond the decoder's {vocab} embeddings)" in told
    assert f"model.resize_token_embeddings({vocab + 1})" in told
    # As transformers does it.
    given = tensors(source)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        given[name] = np.concatenate([given[name], given[name][:1]])
    for path in source.glob("*.safetensors*"):
        path.unlink()
    save_file(given, source / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"vocab_size": vocab + 1}))
    assert launch.main(line) == ExitCode.OK


def with_texts(family: str, folder: Path, *, wider: bool = True) -> Path:
    """A copy of a decoder with the tokenizer of another one, for which its vocabulary grows."""
    shutil.copytree(PARITY / family, folder)
    for path in (PARITY / "llama3").glob("*"):
        if path.name.startswith(("tokenizer", "chat_template")):
            shutil.copyfile(path, folder / path.name)
    if not wider:
        return folder
    values = json.loads((folder / "config.json").read_text())
    more = json.loads((PARITY / "llama3" / "config.json").read_text())["vocab_size"]
    given = tensors(folder)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        given[name] = np.resize(given[name], (more, given[name].shape[1]))
    save_file(given, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values | {"vocab_size": more}))
    return folder


def test_types_of_exported_tensors_can_be_chosen(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    begun(planned(imported(run, PARITY / "qwen2_5"), **SHARDED))
    line = ["export", "--run", str(run), "--out", str(out), "--dtype", "float32"]
    assert launch.main(line) == ExitCode.OK
    given, found = tensors(PARITY / "qwen2_5"), tensors(out)
    assert found
    for name, tensor in found.items():
        assert tensor.dtype == np.float32
        np.testing.assert_array_equal(tensor, given[name].astype(np.float32), err_msg=name)
    assert json.loads((out / "config.json").read_text())["dtype"] == "float32"


def test_a_section_may_leave_the_model_to_the_release(tmp_path: Path) -> None:
    values = imported(tmp_path / "run", PARITY / "llava")
    whole = resolve_config(values, "test")
    own = values["model"]
    values["model"] = {"pretrained": own["pretrained"], "encoders": {"vision": {"layers": 2}}}
    assert resolve_config(values, "test").model == whole.model
    values["model"] = {"pretrained": str(tmp_path / "nowhere")}
    with pytest.raises(ConfigError, match=r"model.pretrained: .*nowhere is no folder"):
        resolve_config(values, "test")


@pytest.mark.parametrize("modules", [{}, {"vision": {"layers": 2}}])
def test_an_edge_may_have_another_connector_than_the_release(
    modules: dict[str, Any], tmp_path: Path
) -> None:
    values = imported(tmp_path / "run", PARITY / "llava")
    folder = values["model"]["pretrained"]
    pretrained = {"decoder": folder, "vision": folder, "vision.connector": None}
    edge = {"source": "vision", "target": "decoder", "connector": {"hidden": 48}}
    values["model"] = {"pretrained": pretrained, "encoders": modules, "edges": [edge]}
    model = resolve_config(values, "test").model
    assert model.connector("vision").hidden == 48
    assert len(model.edges) == 1
    values["model"]["encoders"] = {"vision": {"connector": {"hidden": 32}}}
    with pytest.raises(ConfigError, match="model: edge vision -> decoder: connector of vision are"):
        resolve_config(values, "test")


# ---- what is refused -----------------------------------------------------------------------------


def changed(folder: Path, **changes: np.ndarray | None) -> Path:
    """A copy of Qwen2 with other tensors; None takes one away."""
    shutil.copytree(PARITY / "qwen2_5", folder)
    path = folder / "model.safetensors"
    values = {**load_file(path), **changes}
    kept = {name: value for name, value in values.items() if value is not None}
    save_file(kept, path, metadata={"format": "pt"})
    return folder


def fused(name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    """The experts of a layer in one tensor, as some newer families have them."""
    layer, _, rest = name.partition(".experts.")
    projection = rest.split(".")[1]
    return {f"{layer}.experts.{projection}": np.stack([value, value])}


def gptq(name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    """Four bits of eight weights in a number."""
    stem, rows = name.removesuffix("weight"), len(value)
    return {f"{stem}qweight": np.zeros((4, rows), np.int32), f"{stem}scales": np.ones((1, rows))}


def eights(name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    return {name: value.astype(ml_dtypes.float8_e4m3fn)}


def scaled(name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    return eights(name, value) | {f"{name}_scale_inv": np.ones((1, 1), np.float32)}


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (fused, r"\.experts\.down_proj holds all experts of a layer; valid: tensors of every"),
        (gptq, r"experts\.0\.down_proj\.qweight is of quantised weights; valid: a release that"),
        (scaled, r"experts\.0\.down_proj\.weight_scale_inv is of quantised weights; valid"),
        (eights, r"of another type than F64, .*: model.layers.0.*proj.weight F8_E4M3"),
    ],
)
def test_experts_in_forms_that_are_not_known_are_refused_by_name(
    form: Callable[[str, np.ndarray], dict[str, np.ndarray]], reason: str, tmp_path: Path
) -> None:
    source, found = tmp_path / "source", dict[str, np.ndarray]()
    shutil.copytree(PARITY / "qwen3_moe", source)
    for name, value in tensors(source).items():
        found |= form(name, value) if ".experts." in name else {name: value}
    save_file(found, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PretrainedError, match=reason):
        import_weights.import_release(str(source), tmp_path / "out", {}, "auto", 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model.norm.weight": None}, "1 missing: model.norm.weight"),
        ({"more": np.ones(3, np.float32)}, "1 of no parameter: more"),
        (
            {"model.norm.weight": np.ones(3, np.float32)},
            r"1 misshapen: model.norm.weight \[3\], not \[32\]",
        ),
        (
            {"model.norm.weight": np.full(32, np.nan, np.float32)},
            "1 tensors hold values that are infinite, no numbers or too large: "
            "model.norm.weight nan, which is no finite number",
        ),
        (
            {"model.norm.weight": np.full(32, -1e300)},
            r"model.norm.weight -1e\+300, which float32 \(at most 3.40282e\+38\) cannot hold",
        ),
    ],
)
def test_wrong_tensors_are_refused_and_nothing_is_left(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    source, out = changed(tmp_path / "source", **changes), tmp_path / "out"
    with pytest.raises(PretrainedError, match=reason):
        import_weights.import_release(str(source), out, {}, "auto", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_parts_without_weights_are_refused_before_the_first_step(tmp_path: Path) -> None:
    values = imported(
        tmp_path / "run", PARITY / "llama3", "--encoder", f"vision={PARITY / 'siglip'}"
    )
    values["model"]["pretrained"]["vision.connector"] = str(PARITY / "siglip")
    config = planned(values, **SHARDED)
    with pytest.raises(PretrainedError, match=r"has no weights of vision.connector: .*null makes"):
        initial_state(Experiment.build(config), Console(quiet=True))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"d_ff": 88}, r"misshapen: .*mlp.down_proj.kernel \[64, 32\], not \[88, 32\]"),
        ({"layers": 8}, r"has \d layers of decoder, and the model 8; valid: at most \d"),
    ],
)
def test_other_shapes_than_the_models_are_listed(
    changes: dict[str, int], reason: str, tmp_path: Path
) -> None:
    values = imported(tmp_path / "run", PARITY / "llama3")
    values["model"]["decoder"] |= changes
    with pytest.raises(PretrainedError, match=reason):
        begun(planned(values, **SHARDED))


def test_the_first_layers_of_a_release_are_taken(tmp_path: Path) -> None:
    values = imported(tmp_path / "run", PARITY / "llama3")
    layers = values["model"]["decoder"]["layers"]
    values["model"]["decoder"]["layers"] = 1
    state, told = begun(planned(values, **SHARDED))
    assert f"not as released: model.decoder.layers: 1, released with {layers}" in told
    given = tensors(PARITY / "llama3")["model.layers.0.mlp.up_proj.weight"].astype(np.float32)
    kernel = state["params"]["decoder"]["layers"]["mlp"]["up_proj"]["kernel"]
    np.testing.assert_array_equal(np.asarray(kernel), given.T[None])


def test_every_part_has_a_place_it_comes_from(tmp_path: Path) -> None:
    values = imported(tmp_path / "run", PARITY / "llava")
    values["model"]["pretrained"] = {"decoder": "somewhere"}
    with pytest.raises(ConfigError, match=r"for each of decoder, vision, vision.connector"):
        resolve_config(values, "test")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            ["import", "--from", "nowhere", "--out", "{out}"],
            "nowhere: there is no such folder; valid: organisation/name",
        ),
        (
            ["import", "--from", "{siglip}", "--out", "{out}"],
            "has no decoder; it has vision. V",
        ),
        (["import", "--from", "{siglip}", "--out", "{out}"], "--from DECODER --encoder vision=/"),
        (
            ["import", "--from", "{qwen3}", "--encoder", "vision={siglip}", "--out", "{out}"],
            "has no tokenizer.json, which an encoder is joined to; valid: a decoder's folder",
        ),
        (
            ["import", "--from", "{bare}", "--encoder", "vision={siglip}", "--out", "{out}"],
            "out/processor has no chat template",
        ),
        (["import", "--from", "{siglip}", "--out", "{tmp}"], "is there already"),
        (["import", "--from", "{bare}", "--out", "{out}=1"], 'run.name: "out=1" is refused'),
        (["import", "--from", "{tmp}", "--out", "{out}"], "there is no config.json in it; valid: "),
        (
            ["export", "--run", "{tmp}", "--out", "{out}"],
            "there is no checkpoint in it; valid: ",
        ),
        (["export", "--run", "{tmp}/run", "--out", "{out}"], "run: there is no such folder; "),
        (["export", "--run", "{tmp}/begun", "--out", "{tmp}"], "is there already"),
    ],
)
def test_bad_requests_are_told(
    line: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"out": tmp_path / "out", "tmp": tmp_path, "bare": tmp_path / "bare"}
    places |= {name: PARITY / name for name in ("siglip", "qwen3")}
    shutil.copytree(PARITY / "llama3", places["bare"])
    (places["bare"] / "chat_template.jinja").unlink()
    (tmp_path / "begun" / "checkpoints" / "1").mkdir(parents=True)
    assert launch.main([word.format(**places) for word in line]) == ExitCode.BAD_INPUT
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_release_of_a_hub_is_fetched_without_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        # As the hub's cache keeps them; a snapshot may have more files than were asked for.
        shutil.copytree(PARITY / "qwen2_5", tmp_path / "cache/blobs")
        (tmp_path / "cache/snapshot").mkdir()
        for path in (tmp_path / "cache/blobs").iterdir():
            (tmp_path / "cache/snapshot" / path.name).symlink_to(path)
        (tmp_path / "cache/snapshot/program.py").write_text("no")
        return str(tmp_path / "cache/snapshot")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    values = imported(tmp_path / "run", Path("Qwen/Qwen2-0.5B@main"))
    assert (asked["name"], asked["revision"]) == ("Qwen/Qwen2-0.5B", "main")
    assert not any(pattern.endswith((".py", ".bin", ".pt")) for pattern in asked["allow_patterns"])
    folder = Path(values["model"]["pretrained"])
    assert folder.is_relative_to(tmp_path / "run")
    assert (folder / "config.json").is_file()
    assert ReleaseOrigin.read_from(folder) == ReleaseOrigin("Qwen/Qwen2-0.5B", "snapshot")
    (folder / "origin.json").write_text("[]")
    with pytest.raises(PretrainedError, match=r"origin\.json does not say .*; valid: repository"):
        ReleaseOrigin.read_from(folder)
    shutil.rmtree(tmp_path / "cache")
    assert (folder / "model.safetensors").is_file()
    assert not (folder / "program.py").exists()
    assert planned(values, **SHARDED).model.decoder.family == "qwen2"


def test_a_hub_that_cannot_be_reached_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(name: str, **options: Any) -> None:
        raise OSError("no route\nto the host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    line = ["import", "--from", "org/name", "--out", str(tmp_path / "out")]
    assert launch.main(line) == ExitCode.BAD_INPUT
    assert "org/name is no folder, and cannot be fetched" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_training_begins_with_the_released_weights(tmp_path: Path) -> None:
    """The configuration of the release counts, and what differs is told."""
    values = imported(tmp_path / "run", PARITY / "llama3")
    values["model"]["decoder"]["rope_theta"] = 12345.0
    state, told = begun(planned(values, **SHARDED))
    assert "not as released: model.decoder.rope_theta: 12345.0, released with" in told
    given = tensors(PARITY / "llama3")["model.embed_tokens.weight"].astype(np.float32)
    embedding = state["params"]["decoder"]["embed_tokens"]["embedding"]
    np.testing.assert_array_equal(np.asarray(embedding), given)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(state["params"]))


def test_data_are_looked_at_before_weights_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = imported(tmp_path / "run", PARITY / "qwen2_5")
    values["data"]["source"] = {"kind": "llava", "path": str(tmp_path / "gone.json")}
    monkeypatch.setattr("mllm_jax.train.components.start.initial_state", None)
    with pytest.raises(DataError, match=r"gone\.json"):
        train(planned(values, **SHARDED), Console(quiet=True))


# ---- from one end to the other -------------------------------------------------------------------


@pytest.mark.slow
def test_a_release_is_trained_on_a_folder_of_images_and_exported(tmp_path: Path) -> None:
    """LLaVA-OneVision: tiles, the encoder in the pipeline's bubbles, every phase balanced."""
    run, out = tmp_path / "run", tmp_path / "out"
    folder = write_folder(tmp_path / "data", bad=False)
    records = json.loads((folder / "train.json").read_text())
    images = [record for record in records if "image" in record and "audio" not in record]
    (folder / "images.json").write_text(json.dumps(images))
    imported(run, PARITY / "llava_onevision")
    source = {"kind": "llava", "path": str(folder / "images.json"), "media": str(folder / "media")}
    line = [
        *("train", "--config", str(run / "config.yaml"), "parallel.platform=cpu"),
        *("parallel.devices=4", "parallel.decoder={stage: 2, data: 2}"),
        *("parallel.encoders={vision: {data: 4}}", f"data.source={json.dumps(source)}"),
        *("data.rows=2", "train.accumulate=4", "data.balance=per_phase"),
        *("data.budgets={tokens: 256, segments: 4, vision: 256}", "data.lookahead=8"),
        *("train.steps=2", "train.learning_rate=0.01", "evaluate.enabled=false"),
    ]
    command = [sys.executable, "launch.py", *line]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["steps"], summary["skipped"]["samples"]) == (2, 0)
    assert summary["pipeline"]["encoder_hidden"] > 0
    assert launch.main(["export", "--run", str(run), "--out", str(out)]) == ExitCode.OK
    given, found = tensors(PARITY / "llava_onevision"), tensors(out)
    assert found.keys() == given.keys()
    assert all(np.isfinite(tensor).all() for tensor in found.values())
    same = {name for name, tensor in found.items() if (tensor == given[name]).all()}
    # A bias of keys adds the same to all scores of a query: its gradient is zero or rounding.
    same = {name for name in same if not name.endswith("k_proj.bias")}
    assert same == {name for name in given if ".vision_model.post_layernorm." in name}
    assert (
        launch.main(["import", "--from", str(out), "--out", str(tmp_path / "next")]) == ExitCode.OK
    )


@pytest.mark.parametrize(("family", "told"), [("llava", True), ("llava_onevision", False)])
def test_a_template_that_ends_no_answer_is_told_of_before_training(
    family: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_sources(resolve_config(imported(tmp_path / "run", PARITY / family), "test"))
    found = capsys.readouterr().err
    assert ("no special token after an answer" in found) == told
    assert ("a template that writes </s> there teaches it" in found) == told
