from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data.hf_format.files import ReleasedFiles
from data.hf_format.images import ExactSize, ShortestEdge
from data.sample import DataError
from mllm_jax.families.siglip.processor import PatchBudget
from tests.data.hf_format.stored import ROOT, changed, composed, read_folder

PREPROCESSOR = "preprocessor_config.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return composed(tmp_path, "siglip")


# ---- templates -----------------------------------------------------------------------------------


def test_the_template_is_taken_from_where_it_is(folder: Path) -> None:
    assert read_folder(folder).template == (ROOT / "qwen2_5/chat_template.jinja").read_text()
    changed(folder, "tokenizer_config.json", chat_template="of the tokenizer")
    (folder / "chat_template.jinja").write_text("of its own file: é")
    assert read_folder(folder).template == "of its own file: é"
    changed(folder, "chat_template.json", chat_template="of json")
    assert read_folder(folder).template == "of json"
    changed(folder, "processor_config.json", chat_template="of the processor")
    assert read_folder(folder).template == "of the processor"
    for name in ("chat_template.jinja", "chat_template.json", "processor_config.json"):
        (folder / name).unlink()
    assert read_folder(folder).template == "of the tokenizer"


def test_of_several_templates_the_default_is_taken(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    named = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]
    changed(folder, "tokenizer_config.json", chat_template=named)
    assert read_folder(folder).template == "b"
    changed(folder, "tokenizer_config.json", chat_template=named[:1])
    with pytest.raises(
        DataError, match=r"has no chat template; .* none named default, but tool_use"
    ):
        read_folder(folder)
    changed(folder, "tokenizer_config.json", chat_template=None)
    with pytest.raises(DataError, match=r"chat_template in tokenizer_config\.json; there is none"):
        read_folder(folder)


# ---- tokens --------------------------------------------------------------------------------------


def test_special_tokens_are_texts_or_objects(folder: Path) -> None:
    changed(folder, "special_tokens_map.json", bos_token="<a>", eos_token="<other>")
    eos = {"__type": "AddedToken", "content": "<e>", "lstrip": True}
    changed(
        folder,
        "tokenizer_config.json",
        eos_token=eos,
        add_bos_token=True,
        extra_special_tokens={"image_token": "<img>"},
        additional_special_tokens=["<x>"],
        added_tokens_decoder={"7": {"content": "<y>", "special": False}},
    )
    files = read_folder(folder)
    tokens = {name: token.content for name, token in files.settings.tokens.items()}
    assert tokens == {
        "bos_token": "<a>",
        "eos_token": "<e>",
        "pad_token": "<|endoftext|>",
        "image_token": "<img>",
    }
    assert files.settings.tokens["eos_token"].flags["lstrip"]
    assert [token.content for token in files.settings.extra] == ["<x>"]
    assert not files.settings.added_tokens_decoder[7].special
    assert files.settings.add_bos_token is True
    assert files.settings.add_eos_token is None
    assert files.placeholders.get("image") == "<img>"


@pytest.mark.parametrize(
    ("kind", "image", "audio"),
    [
        ("LlavaProcessor", "<image>", None),
        ("LlavaOnevisionProcessor", "<image>", None),
        ("Qwen2AudioProcessor", None, "<|AUDIO|>"),
        ("SiglipProcessor", None, None),
    ],
)
def test_placeholders_have_the_defaults_of_the_class(
    kind: str, image: str | None, audio: str | None, folder: Path
) -> None:
    changed(folder, PREPROCESSOR, processor_class=kind)
    files = read_folder(folder)
    assert (files.placeholders.get("image"), files.placeholders.get("audio")) == (image, audio)
    changed(folder, "processor_config.json", image_token="<i>", audio_token="<a>")
    files = read_folder(folder)
    assert (files.placeholders.get("image"), files.placeholders.get("audio")) == ("<i>", "<a>")


# ---- media ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes", "resize"),
    [
        ("CLIPImageProcessor", {}, ShortestEdge(224)),
        ("CLIPImageProcessorFast", {"size": 90}, ShortestEdge(90)),
        ("CLIPFeatureExtractor", {"size": {"shortest_edge": 9, "height": None}}, ShortestEdge(9)),
        ("CLIPImageProcessor", {"size": [30, 40]}, ExactSize((30, 40))),
        ("SiglipImageProcessor", {}, ExactSize((224, 224))),
        ("CLIPImageProcessor", {"size": 90, "default_to_square": True}, ExactSize((90, 90))),
        ("SiglipImageProcessor", {"do_resize": None}, None),
        ("SiglipImageProcessor", {"size": None}, ExactSize((224, 224))),
        ("SiglipImageProcessorPil", {"do_resize": False}, None),
        ("Siglip2ImageProcessor", {}, PatchBudget(16, 256)),
        ("LlavaOnevisionImageProcessorFast", {}, ExactSize((384, 384))),
    ],
)
def test_what_is_left_out_has_the_defaults_of_the_class(
    kind: str, changes: dict[str, Any], resize: object, folder: Path
) -> None:
    (folder / PREPROCESSOR).write_text(json.dumps({"image_processor_type": kind} | changes))
    image = read_folder(folder).media["image"].recipe
    assert image.resize == resize
    assert image.resample == (2 if "Siglip2" in kind else 3)
    assert image.crop == ((224, 224) if "CLIP" in kind else None)
    assert (image.mean[0] == 0.5) == ("Siglip" in kind)
    assert (image.pinpoints is not None) == ("Onevision" in kind)
    assert image.pinpoints is None or len(image.pinpoints) == 36


def test_one_file_may_hold_all_settings(folder: Path) -> None:
    """Transformers 5 writes such files."""
    image = json.loads((folder / PREPROCESSOR).read_text())
    audio = json.loads((ROOT / "qwen2_audio" / PREPROCESSOR).read_text())
    before = read_folder(folder)
    assert before.media.get("audio") is None
    (folder / PREPROCESSOR).unlink()
    assert read_folder(folder).media.get("image") is None
    changed(folder, "processor_config.json", image_processor=image, feature_extractor=audio)
    files = read_folder(folder)
    assert files.media.get("image") == before.media.get("image")
    assert files.media.get("audio") == read_folder(ROOT / "qwen2_audio").media.get("audio")
    assert (files.multimodal, read_folder(ROOT / "llama3").multimodal) == (True, False)


def test_the_fingerprint_is_that_of_all_files(folder: Path) -> None:
    seen = {read_folder(folder).fingerprint}
    for name in sorted(path.name for path in folder.iterdir()):
        text = (folder / name).read_text()
        (folder / name).write_text(text + "\n")
        seen.add(read_folder(folder).fingerprint)
    changed(folder, "special_tokens_map.json", unk_token="<unk>")
    assert len(seen | {read_folder(folder).fingerprint}) == 6


# ---- bad input -----------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"size": {"longest_edge": 9}},
        r"size \{'longest_edge': 9\} of images; valid: \{shortest_edge\}",
    ),
    ({"size": -1}, "size.*greater than 0, got -1"),
    ({"size": "large"}, "size.*got 'large'"),
    ({"resample": 7}, "resample: Input should be 0, 1, 2, 3, 4 or 5, got 7"),
    ({"image_std": [1, 1]}, "image_std"),
    ({"image_std": [1, 1, 0]}, "image_std.2: Input should be greater than 0, got 0"),
    ({"image_mean": "grey"}, "image_mean"),
    ({"rescale_factor": float("nan")}, "rescale_factor"),
    ({"do_pad": True}, "do_pad True of images; valid: false, by "),
    ({"do_center_crop": True}, r"crop_size \{\} of images; valid: \{height, width\}"),
    (
        {"image_processor_type": "DonutImageProcessor"},
        "images by DonutImageProcessor; valid: CLIPIm",
    ),
    (
        {"image_processor_type": "LlavaOnevisionImageProcessor", "do_resize": False},
        "with do_resize",
    ),
]
AUDIO: list[tuple[dict[str, Any], str]] = [
    ({"sampling_rate": 8000}, "sampling_rate: Input should be 16000, got 8000"),
    ({"dither": 0.1}, "dither"),
    ({"padding_value": 1.0}, "padding_value"),
    ({"padding_side": "left"}, "padding_side: Input should be 'right', got 'left'"),
    ({"n_fft": 401}, "n_fft: Input should be a multiple of 2, got 401"),
    ({"hop_length": 0}, "hop_length: Input should be greater than 0, got 0"),
    ({"hop_length": 333}, "hop_length 333 does not divide the 16000 samples of chunk_length 1"),
]


@pytest.mark.parametrize(("changes", "reason"), BAD)
def test_bad_settings_of_images(changes: dict[str, Any], reason: str, folder: Path) -> None:
    changed(folder, PREPROCESSOR, **changes)
    with pytest.raises(DataError, match=f"data.processor: .*{reason}"):
        read_folder(folder)


@pytest.mark.parametrize(("changes", "reason"), AUDIO)
def test_bad_settings_of_clips(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    changed(composed(tmp_path, "qwen2_audio"), PREPROCESSOR, **changes)
    with pytest.raises(DataError, match=f"data.processor: .*{reason}"):
        read_folder(tmp_path)


def write(name: str, text: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(text)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
        (write("tokenizer_config.json", b"{"), "tokenizer_config.json is not JSON"),
        (write("tokenizer_config.json", b"[" * 100_000), "tokenizer_config.json is not JSON"),
        (write("tokenizer_config.json", b"[1]"), "_config.json holds a list, not an object"),
        (write("tokenizer_config.json", b'{"eos_token": 5}'), "tokens.eos_token: .*, got 5"),
        (write("tokenizer_config.json", b'{"extra_special_tokens": 5}'), "extra_.* 5 .* list"),
        (write("tokenizer_config.json", b'{"additional_special_tokens": 5}'), "5 .* list"),
        (write("tokenizer_config.json", b'{"add_bos_token": "yes, please"}'), "add_bos_token"),
        (write(PREPROCESSOR, b'{"size": 9}'), "has size, but no image_processor_type or feature_"),
        (write(PREPROCESSOR, b"\xff\xfe"), "preprocessor_config.json is not JSON"),
        (write("chat_template.jinja", b"\xff"), "chat_template.jinja is not UTF-8"),
        (write("chat_template.json", b"{}"), "chat_template.json: chat_template: Field required"),
    ],
)  # fmt: skip
def test_damaged_folders(damage: Callable[[Path], object], reason: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(DataError, match=f"data.processor: .*{reason}"):
        read_folder(folder)


def test_a_bad_number_of_tiles(tmp_path: Path) -> None:
    folder = composed(tmp_path, "llava_onevision")
    changed(folder, "processor_config.json", vision_aspect_ratio="pad")
    with pytest.raises(DataError, match=r"processor_config.json: vision_aspect_ratio: .*'pad'"):
        read_folder(folder)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data.processor: .*nothing is not a folder"):
        read_folder(tmp_path / "nothing")


def test_what_is_read_is_plain() -> None:
    files = read_folder(ROOT / "llava_onevision")
    assert isinstance(files, ReleasedFiles)
    assert files.media["image"].recipe.most_tiles == 2
