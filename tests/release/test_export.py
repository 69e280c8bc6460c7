"""Exports of runs that do not end as the release that they began with."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer

import launch
from data.hf_format.chat import ReleasedChat
from data.processing.configured_chat import TODAY
from data.sample import Turn
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.release.export_processor import TrainedProcessor
from mllm_jax.release.run_export import RunExport
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.train.state.saved import SavedParameters
from tests.data.hf_format.stored import read_folder
from tests.data.hf_format.templates import TEMPLATES
from tests.release.test_import import PARITY, SHARDED, begun, imported, planned, tensors
from tests.train.models import small_model


def exported(run: Path, out: Path, *options: str) -> Path:
    """The output of `export`."""
    line = ["export", "--run", str(run), "--out", str(out), *options]
    assert launch.main(line) == ExitCode.OK
    return out


def read(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """A file of a folder."""
    values: dict[str, Any] = json.loads((folder / name).read_text())
    return values


def idle(folder: Path) -> set[str]:
    """Norms that nothing uses."""
    return {name for name in tensors(folder) if ".post_layernorm." in name}


def test_a_model_with_a_new_connector_keeps_its_form(tmp_path: Path) -> None:
    run, llava = tmp_path / "run", str(PARITY / "llava")
    values = imported(run, PARITY / "llava")
    sources = {"decoder": llava, "vision": llava, "vision.connector": None}
    values["model"]["pretrained"] = sources
    begun(planned(values, **SHARDED))
    out = exported(run, tmp_path / "out")
    assert read(out) == read(PARITY / "llava")
    assert read(out)["image_token_index"] == 315
    assert tensors(out).keys() == tensors(PARITY / "llava").keys()
    assert {tensor.dtype for tensor in tensors(out).values()} == {np.dtype(np.float16)}


def test_a_changed_model_keeps_the_ends_of_its_texts(tmp_path: Path) -> None:
    """Parts of it are models, too."""
    run = tmp_path / "run"
    values = imported(run, PARITY / "llava")
    values["model"]["decoder"]["rope_theta"] = 5.0
    begun(planned(values, **SHARDED))
    out = exported(run, tmp_path / "out")
    found, given = read(out), tensors(PARITY / "llava")
    assert found["text_config"]["rope_theta"] == 5.0
    assert found["image_token_index"] == 315
    for own in (found, found["text_config"]):
        assert (own["bos_token_id"], own["eos_token_id"], own["pad_token_id"]) == (1, 2, 316)
    assert idle(out) == idle(PARITY / "llava")
    for part, prefix in (("vision", "vision_tower."), ("decoder", "language_model.")):
        own = tensors(exported(run, tmp_path / part, "--part", part))
        assert own
        for name, tensor in own.items():
            np.testing.assert_array_equal(tensor, given[f"{prefix}{name}"], err_msg=name)
    assert read(tmp_path / "vision")["model_type"] == "clip_vision_model"
    assert not (tmp_path / "vision" / "tokenizer.json").exists()
    assert read(tmp_path / "decoder")["eos_token_id"] == 2


def base_model(folder: Path, *, generation: bool) -> int:
    """A model whose texts, not whose turns, end with its `eos_token`; that of the turns."""
    shutil.copytree(PARITY / "qwen2_5", folder)
    ids = {own["content"]: own["id"] for own in read(folder, "tokenizer.json")["added_tokens"]}
    end = ids["<|endoftext|>"]
    ends = {"eos_token_id": end, "bos_token_id": end}
    (folder / "config.json").write_text(json.dumps(read(folder) | ends))
    settings = read(folder, "tokenizer_config.json") | {"eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if generation:
        values = {"eos_token_id": end, "pad_token_id": end, "max_new_tokens": 2048}
        (folder / "generation_config.json").write_text(json.dumps(values))
    return int(ids["<|im_end|>"])


@pytest.mark.parametrize("generation", [True, False])
def test_others_stop_at_the_token_that_answers_were_taught_to_end_with(
    generation: bool, tmp_path: Path
) -> None:
    run, base = tmp_path / "run", tmp_path / "base"
    end = base_model(base, generation=generation)
    values = imported(run, base)
    values["train"]["lora"] = {"targets": ["decoder.layers.*"], "rank": 2}
    begun(planned(values, **SHARDED))
    last = read(base)["eos_token_id"]
    for out, options in (("merged", ()), ("adapters", ("--adapters",))):
        folder = exported(run, tmp_path / out, *options)
        found = read(folder, "generation_config.json")
        assert found["eos_token_id"] == [last, end]
        if generation:
            assert (found["pad_token_id"], found["max_new_tokens"]) == (last, 2048)
        assert read_folder(folder).template == read_folder(base).template
        assert read(folder, "tokenizer_config.json") == read(base, "tokenizer_config.json")
    assert read(tmp_path / "merged") == read(base) | {"eos_token_id": [last, end]}


def test_the_exported_chat_template_asks_as_training_did(tmp_path: Path) -> None:
    """It writes an empty thought before the last answer, and its generation prompt has none."""
    run, base, own = tmp_path / "run", tmp_path / "base", TEMPLATES["qwen3"]
    shutil.copytree(PARITY / "qwen2_5", base)
    (base / "chat_template.jinja").unlink()
    settings = read(base, "tokenizer_config.json")
    (base / "tokenizer_config.json").write_text(
        json.dumps(settings | {"chat_template": own.source})
    )
    begun(planned(imported(run, base), **SHARDED))
    for part in ((), ("--part", "decoder")):
        out = exported(run, tmp_path / f"out{len(part)}", *part)
        assert read(out, "tokenizer_config.json") == settings
        ours = ReleasedChat(read_folder(base), {}, TODAY)
        theirs = ReleasedChat(read_folder(out), {}, TODAY, "header")
        turns = [Turn("user", "What?"), Turn("assistant", "A cat."), Turn("user", "Where?")]
        for asked in (turns[:1], turns, [Turn("system", "Be brief."), *turns]):
            assert ours.tokenize_turns(asked, opened=True) == theirs.tokenize_turns(
                asked, opened=True
            )
        whole = [*turns, Turn("assistant", "There.")]
        assert ours.tokenize_turns(whole).ids == theirs.tokenize_turns(whole).ids


def test_a_joined_model_is_whole(tmp_path: Path) -> None:
    """The export has a placeholder, a processor and tokens that end texts."""
    run, decoder, vision = tmp_path / "run", tmp_path / "decoder", PARITY / "clip"
    shutil.copytree(PARITY / "qwen2_5", decoder)
    (decoder / "generation_config.json").write_text('{"eos_token_id": [282, 280]}')
    begun(planned(imported(run, decoder, "--encoder", f"vision={vision}"), **SHARDED))
    out = exported(run, tmp_path / "out")
    found = read(out)
    assert (found["model_type"], found["image_token_index"]) == ("llava", 283)
    assert found["eos_token_id"] == found["text_config"]["eos_token_id"] == [282, 280]
    assert read(out, "generation_config.json") == {"eos_token_id": [282, 280]}
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.encode("a<image>b", add_special_tokens=False).ids[1] == 283
    assert read(out, "processor_config.json") == {
        "processor_class": "LlavaProcessor",
        "num_additional_image_tokens": 1,
        "patch_size": 4,
        "vision_feature_select_strategy": "default",
        "image_token": "<image>",
    }
    assert read(out, "preprocessor_config.json")["processor_class"] == "LlavaProcessor"
    assert idle(out) == {
        f"vision_tower.vision_model.post_layernorm.{x}" for x in ("weight", "bias")
    }
    assert launch.main(["import", "--from", str(out), "--out", str(tmp_path / "again")]) == 0
    # Numbers of positions are no weights, but of the release.
    clip, given = tensors(exported(run, tmp_path / "clip", "--part", "vision")), tensors(vision)
    assert clip.keys() == given.keys()
    assert clip["vision_model.embeddings.position_ids"].dtype == np.int64
    for name, tensor in clip.items():
        np.testing.assert_array_equal(tensor, given[name], err_msg=name)


def test_a_connector_alone_is_exported_and_begun_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, again, vision = tmp_path / "run", tmp_path / "again", f"vision={PARITY / 'whisper'}"
    values = imported(run, PARITY / "llama3", "--encoder", vision.replace("vision", "audio"))
    values["model"]["encoders"]["audio"]["connector"] = {"activation": "gelu", "hidden": 12}
    state, _ = begun(planned(values, **SHARDED))
    assert launch.main(["export", "--run", str(run), "--out", str(tmp_path / "whole")]) == 2
    told = capsys.readouterr().err
    assert "--part decoder or audio or audio.connector" in told
    assert len(told) < 400
    line = "--part", "audio.connector", "--dtype", "float32"
    out = exported(run, tmp_path / "out", *line)
    assert {path.name for path in out.iterdir()} == {
        *("README.md", "config.json", "model.safetensors")
    }
    found = read(out)
    wanted = {"kind": "mlp", "hidden": 12, "activation": "gelu", "inputs": 16, "outputs": 32}
    assert {key: found[key] for key in wanted} == wanted
    own = state["params"]["audio"]["connector"]
    np.testing.assert_array_equal(tensors(out)["fc1.weight"].T, np.asarray(own["fc1"]["kernel"]))

    values = imported(again, PARITY / "llama3", "--encoder", vision.replace("vision", "audio"))
    sources = values["model"]["pretrained"] | {"audio.connector": str(out)}
    # What is left out is as the folders say, the connector's kind as well.
    values["model"] = {"pretrained": sources, "encoders": {"audio": {}}}
    values["train"]["seed"] = 7
    other, told = begun(planned(values, **SHARDED))
    assert f"audio.connector from {out}" in told
    assert "not as released" not in told
    same = other["params"]["audio"]["connector"]
    for layer, leaf in (("fc1", "kernel"), ("fc2", "kernel"), ("fc2", "bias")):
        np.testing.assert_array_equal(np.asarray(same[layer][leaf]), np.asarray(own[layer][leaf]))


def test_parts_of_a_tiled_model_are_exported(tmp_path: Path) -> None:
    run = tmp_path / "run"
    begun(planned(imported(run, PARITY / "llava_onevision"), **SHARDED))
    given = tensors(PARITY / "llava_onevision")
    for part, prefix, kind in (
        ("vision", "vision_tower.", "siglip_vision_model"),
        ("decoder", "language_model.", "qwen2"),
        ("vision.connector", "", "mllm_jax_connector"),
    ):
        out = exported(run, tmp_path / part, "--part", part)
        assert read(out)["model_type"] == kind
        for name, tensor in tensors(out).items():
            if kind != "mllm_jax_connector":
                np.testing.assert_array_equal(tensor, given[f"{prefix}{name}"], err_msg=name)
    assert idle(tmp_path / "vision")


def test_what_no_processor_makes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written."""
    run, out = tmp_path / "run", tmp_path / "out"
    vision = f"vision={PARITY / 'clip'}"
    values = imported(run, PARITY / "qwen2_5", "--encoder", vision)
    (run / "processor" / "preprocessor_config.json").unlink()
    begun(planned(values, **SHARDED))
    assert launch.main(["export", "--run", str(run), "--out", str(out)]) == ExitCode.BAD_INPUT
    assert "processor has no preprocessor_config.json for what the run" in capsys.readouterr().err
    assert not out.exists()


def test_a_placeholder_needs_room_in_the_vocabulary() -> None:
    data = {
        "processor": str(PARITY / "qwen2_5"),
        "image": {"placeholder": "<image>"},
        "audio": {"placeholder": "<audio>"},
    }
    processor = TrainedProcessor.from_config(data)
    assert processor is not None
    assert processor.id_of("image", 288) == 283
    with pytest.raises(
        PretrainedError, match=r"the model's vocab 283 has no room for a new token; write"
    ):
        processor.id_of("image", 283)
    assert TrainedProcessor.from_config({"processor": None}) is None


@dataclass
class Saved:
    """A checkpoint with the biases of experts alone."""

    config: dict[str, Any]
    biases: np.ndarray

    def __getitem__(self, name: str) -> np.ndarray:
        assert name == "decoder.layers.experts.router.load_bias"
        return self.biases


@pytest.mark.parametrize("part", [None, "decoder"])
def test_biases_that_training_has_moved_are_refused_though_they_move_no_longer(
    part: str | None,
) -> None:
    """Of three layers in two chunks of two stages, the last of which is padding."""
    experts = {"count": 4, "top_k": 2, "d_ff": 8}
    values = small_model("mixtral", experts=experts).model_dump(mode="json")
    values |= {"encoders": {}, "decoder": values["decoder"] | {"layers": 3}}
    config = {"model": values, "data": {"processor": None}, "train": {}}
    saved = Saved(config, np.zeros((2, 2, 1, 4), np.float32))
    saved.biases[1, 1, 0, 0] = 9.0
    assert RunExport(cast(SavedParameters, saved), part).release_format.name == "mixtral"
    saved.biases[1, 0, 0, 2] = 0.125
    with pytest.raises(PretrainedError, match=r"experts of layer 2 are from 0 to 0\.125, moved"):
        assert RunExport(cast(SavedParameters, saved), part).release_format


@dataclass
class Names(Saved):
    """A checkpoint of whose parameters the names are known."""

    names: tuple[str, ...] = ()


@pytest.mark.parametrize("part", [None, "decoder"])
def test_a_parameter_without_a_tensor_is_refused(part: str | None) -> None:
    values = small_model("llama").model_dump(mode="json") | {"encoders": {}}
    config = {"model": values, "data": {"processor": None}, "train": {}}
    left_out = ("decoder.layers.self_attn.q_proj.lora_a", "elsewhere.norm.bias")
    saved = Names(config, np.zeros(0), ("decoder.norm.scale", *left_out))
    rules = RunExport(cast(SavedParameters, saved), part).rules
    assert "decoder.norm.scale" in {name for name, _ in rules}
    saved.names = (*saved.names, "decoder.norm.bias")
    with pytest.raises(
        PretrainedError, match=r"llama has no tensor for decoder\.norm\.bias; valid"
    ):
        assert RunExport(cast(SavedParameters, saved), part).rules
