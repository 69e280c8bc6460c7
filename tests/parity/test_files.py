"""The stored checkpoints and values are whole, described and small; needs no torch."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

ROOT = Path(__file__).parent
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe")
DECODERS = ("llama3", "qwen2", "qwen2_5", "qwen3", *EXPERTS)
IMAGES = ("siglip", "siglip2", "siglip2_naflex", "clip")
CHATTING = ("llama3", "qwen2_5", "llava", "llava_onevision", "qwen2_audio")
PROCESSING = (*IMAGES, "whisper", "llava", "llava_onevision", "qwen2_audio")
FAMILIES = (*DECODERS, *IMAGES, "whisper", "llava", "llava_onevision", "qwen2_audio")
#: Of a whole conversation.
SPOKEN = ("features", "hidden", "nll", "loss", "logits")
EXPECTED = {
    **dict.fromkeys(DECODERS, ("single.layer_0", "single.hidden", "packed.hidden", "padded.loss")),
    **dict.fromkeys(IMAGES, ("embeddings", "layer_1", "hidden")),
    "whisper": ("embeddings", "layer_0", "hidden", "short.hidden", "loss"),
    "llava": (*(f"two.{name}" for name in SPOKEN), "one.encoder", "batch.loss"),
    "llava_onevision": (*(f"wide.{name}" for name in (*SPOKEN, "encoder")), "batch.logits"),
    "qwen2_audio": (*(f"two.{name}" for name in SPOKEN), "one.encoder", "batch.loss"),
}
WITH_GRADIENTS = {
    *EXPERTS,
    "llama3",
    "qwen3",
    "siglip",
    "whisper",
    "llava_onevision",
    "qwen2_audio",
}
ARRAYS = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("**/*.npz"))]


@cache
def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(ROOT / name) as stored:
        return {key: stored[key] for key in stored.files}


def read_json(*parts: str) -> Any:
    return json.loads(ROOT.joinpath(*parts).read_text())


def shapes(path: Path) -> dict[str, list[int]]:
    with safe_open(path, framework="numpy") as tensors:
        return {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118


def weights(family: str) -> dict[str, list[int]]:
    """Shapes of a checkpoint's tensors, by the index where there is one."""
    if (ROOT / family / "model.safetensors").exists():
        return shapes(ROOT / family / "model.safetensors")
    places = read_json(family, "model.safetensors.index.json")["weight_map"]
    stored = {shard: shapes(ROOT / family / shard) for shard in set(places.values())}
    assert places == {name: shard for shard, names in stored.items() for name in names}
    assert len(stored) > 1
    return {name: stored[shard][name] for name, shard in places.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_is_complete(family: str) -> None:
    names = {"config.json", "inputs.npz", "expected.npz"}
    names |= {"preprocessor_config.json"} if family in PROCESSING else set()
    if family in CHATTING:
        names |= {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chats.json"}
    assert names <= {path.name for path in (ROOT / family).iterdir()}
    assert len(weights(family)) > 20
    expected = arrays(f"{family}/expected.npz")
    assert set(EXPECTED[family]) <= set(expected)
    gradients = {key.removeprefix("gradient.") for key in expected if key.startswith("gradient.")}
    assert gradients or family not in WITH_GRADIENTS
    for name in gradients:
        assert list(expected[f"gradient.{name}"].shape) == weights(family)[name]


def test_there_are_no_other_folders() -> None:
    assert {path.parent.name for path in ROOT.glob("*/config.json")} == {*FAMILIES, "pairs"}


@pytest.mark.parametrize("name", ARRAYS)
def test_values_are_finite_and_described(name: str) -> None:
    text = (ROOT / "README.md").read_text()
    found = arrays(name)
    for key, values in found.items():
        if key == "versions":
            assert all(version in text for version in values.tolist())
            continue
        assert values.dtype in (np.float32, np.int32, np.bool_, np.uint8, np.int16), key
        assert np.isfinite(values).all(), key
        assert f"`{described(name, key)}`" in text, key
    assert "versions" in found


def described(name: str, key: str) -> str:
    """A key as the README writes it."""
    family = Path(name).parent.name
    key = re.sub(r"^gradient\..*", "gradient.<weight>", key)
    key = re.sub(r"^(image|clip)\..*", r"\1.<name>", key)
    key = re.sub(r"^text_\d+", "text_<n>", key)
    key = re.sub(r"^mels_\d+", "mels_<n>", key)
    key = re.sub(r"\.(blip|odd)\.", ".<clip>.", key)
    key = re.sub(r"^video( and image)?\.", "<prompt>.", key)
    talks = family.partition("_lora")[0]
    chats = read_json(talks, "chats.json") if talks in CHATTING else {}
    case, _, rest = key.partition(".")
    return f"<chat>.{rest}" if case in chats else key


@pytest.mark.parametrize("family", CHATTING)
def test_the_tokenizer_gives_the_stored_ids(family: str) -> None:
    tokenizer = Tokenizer.from_file(str(ROOT / family / "tokenizer.json"))
    stored = arrays(f"{family}/{'processed' if family in DECODERS else 'inputs'}.npz")
    media = [tokenizer.token_to_id(token) for token in ("<image>", "<|AUDIO|>")]
    for name, chat in read_json(family, "chats.json").items():
        for key, text in (("input_ids", chat["rendered"]), ("prompt_ids", chat["prompt"])):
            ids = tokenizer.encode(text, add_special_tokens=family == "llava").ids
            expected = stored[f"{name}.{key}"].reshape(-1)
            assert [i for i in ids if i not in media] == [i for i in expected if i not in media]


@pytest.mark.parametrize("family", ["llava", "llava_onevision", "qwen2_audio"])
def test_every_placeholder_has_its_feature(family: str) -> None:
    config = read_json(family, "config.json")
    token = config.get("image_token_index", config.get("audio_token_index"))
    inputs, expected = arrays(f"{family}/inputs.npz"), arrays(f"{family}/expected.npz")
    for name in read_json(family, "chats.json"):
        count = int((inputs[f"{name}.input_ids"] == token).sum())
        assert (count > 0) == (name != "text")
        assert len(expected.get(f"{name}.features", ())) == count


def test_files_are_small() -> None:
    sizes = [path.stat().st_size for path in ROOT.glob("**/*") if path.is_file()]
    assert max(sizes) < 150_000
    assert sum(sizes) < 2_400_000
