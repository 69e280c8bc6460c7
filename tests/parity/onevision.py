"""LLaVA-OneVision: SigLIP over tiles of any resolution, two linear layers, Qwen2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessorPil,
    LlavaOnevisionProcessor,
    PreTrainedTokenizerFast,
)

from tests.parity.checkpoint import Checkpoint, Tensors, write_arrays, write_json
from tests.parity.generated import tokens_of
from tests.parity.language import last_logits
from tests.parity.media import image
from tests.parity.multimodal import Multimodal, answers, asks
from tests.parity.texts import ONEVISION_TEXT
from tests.parity.vision import CLIP_MEAN, CLIP_STD, SIGLIP_PROCESSOR

#: Height and width in pixels of what an image is resized into; released up to 6 x 6 tiles of 384.
PINPOINTS = [[18, 18], [18, 36], [18, 54], [36, 18], [36, 36], [54, 18]]
CONFIG = {
    "architectures": ["LlavaOnevisionForConditionalGeneration"],
    "ignore_index": -100,
    "image_grid_pinpoints": PINPOINTS,
    "image_token_index": 283,
    "model_type": "llava_onevision",
    "projector_hidden_act": "gelu",
    "text_config": {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 280,
        "eos_token_id": 282,
        "hidden_act": "silu",
        "hidden_size": 32,
        "initializer_range": 0.02,
        "intermediate_size": 64,
        "max_position_embeddings": 2048,
        "max_window_layers": 24,
        "model_type": "qwen2",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 2048,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 288,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.45.0.dev0",
    "use_image_newline_parameter": True,
    "video_token_index": 284,
    "vision_aspect_ratio": "anyres_max_2",
    "vision_config": {
        "hidden_size": 32,
        "image_size": 18,
        "intermediate_size": 64,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "patch_size": 4,
        "vision_use_head": False,
    },
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
}
PREPROCESSOR = {
    **SIGLIP_PROCESSOR,
    "do_convert_rgb": True,
    "do_pad": True,
    "image_grid_pinpoints": PINPOINTS,
    "image_processor_type": "LlavaOnevisionImageProcessor",
    "processor_class": "LlavaOnevisionProcessor",
}
PROCESSOR = {
    "image_token": "<image>",
    "num_image_tokens": 16,
    "processor_class": "LlavaOnevisionProcessor",
    "video_token": "<video>",
    "vision_aspect_ratio": "anyres_max_2",
    "vision_feature_select_strategy": "full",
}
_ASKED = {
    "wide": ("What is it?", "A cat."),
    "large": ("And this?", "The other one."),
    "tall": ("What else?", "Rain."),
    "tiny": ("So small?", "Yes."),
}
CHATS = {
    **{
        name: [asks({"type": "image", "image": name}, text=question), answers(answer)]
        for name, (question, answer) in _ASKED.items()
    },
    "two": [
        asks(
            {"type": "image", "image": "square"},
            {"type": "image", "image": "wide"},
            text="Which one shows rain?",
        ),
        answers("The first."),
        asks(text="And the dog?"),
        answers("Neither 1 nor 2."),
    ],
    "text": [asks(text="What are stars?"), answers("Other suns.")],
}
_DECODER = "language_model.model."
_VISION = "vision_tower.vision_model."


class _Processor(LlavaOnevisionProcessor):
    """Without a processor of videos, which would need torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> None:
        """Let the missing part pass."""
        if argument is not None:
            super().check_argument_for_proper_class(argument_name, argument)


def processor_of(folder: Path, tokenizer: Any) -> LlavaOnevisionProcessor:
    """The processor of a folder, for texts and images."""
    images = LlavaOnevisionImageProcessorPil.from_pretrained(folder)
    options = {key: value for key, value in PROCESSOR.items() if key != "processor_class"}
    template = tokenizer.chat_template
    return _Processor(images, tokenizer, None, chat_template=template, **options)


ONEVISION = Multimodal(
    checkpoint=Checkpoint(
        "llava_onevision",
        LlavaOnevisionForConditionalGeneration,
        CONFIG,
        torch.float16,
        renames=((r"^vision_tower\.", _VISION),),
    ),
    texts=ONEVISION_TEXT,
    files={"preprocessor_config.json": PREPROCESSOR, "processor_config.json": PROCESSOR},
    processor=processor_of,
    call=lambda media: {"images": [[image(name) for name in names] for names in media]},
    placeholder="<image>",
    chats=CHATS,
    gradients=(
        "image_newline",
        f"{_DECODER}embed_tokens.weight",
        f"{_DECODER}norm.weight",
        *(f"{_DECODER}layers.0.self_attn.{name}_proj.weight" for name in "qkv"),
        f"{_VISION}embeddings.position_embedding.weight",
        *(f"{_VISION}encoder.layers.0.self_attn.{name}_proj.weight" for name in "qk"),
        "multi_modal_projector.linear_1.weight",
        "multi_modal_projector.linear_2.bias",
    ),
)


# ---- videos --------------------------------------------------------------------------------------

#: Frames, and (height, width) in pixels, by the name of the conversation.
VIDEOS = {"video": (5, (20, 26)), "video and image": (2, (31, 18))}
QUESTIONS = {"video": "What moves?", "video and image": "Which is the same?"}
#: `video_preprocessor_config.json` of a release whose frames are not made as its images are.
FRAMES = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "do_sample_frames": True,
    "image_mean": CLIP_MEAN,
    "image_std": CLIP_STD,
    "num_frames": 5,
    "processor_class": "LlavaOnevisionProcessor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 18, "width": 18},
    "video_processor_type": "LlavaOnevisionVideoProcessor",
}
_IMAGE, _VIDEO, _TILE, _PATCH = "<image>", "<video>", 18, 4


def frames(name: str) -> NDArray[np.uint8]:
    """RGB pixels [frames, height, width, 3]: a wave that runs through the image of a box."""
    count, (height, width) = VIDEOS[name]
    time, rows, columns = np.mgrid[:count, :height, :width].astype(np.float64)
    turns = [(0.31, 0.07, 0.9), (0.05, 0.23, -1.7), (0.17, -0.19, 2.9)]
    waves = [np.sin(a * rows + b * columns + c * time) for a, b, c in turns]
    pixels = np.round(127.5 + 110 * np.stack(waves, axis=-1))
    for number in range(count):
        pixels[number, 2 + number : 9 + number, 3:9] = (250, 20, 130)
    return pixels.astype(np.uint8)


def make_videos() -> None:
    """Write `videos.npz` and `frames.json`, which is `FRAMES`, beside the checkpoint.

    Frames are resized and normalised by the processor of images; that of videos would do it by
    torchvision, whose pixels differ by at most one of 255 levels.
    """
    folder = ONEVISION.checkpoint.folder
    model = LlavaOnevisionForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    model.set_attn_implementation("eager")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    processor = processor_of(folder, tokenizer)
    arrays: dict[str, Any] = {}
    for name in VIDEOS:
        inputs = _inputs(processor, name)
        with torch.no_grad():
            logits = model.eval()(**inputs).logits
        arrays |= {
            f"{name}.frames": frames(name),
            f"{name}.prompt_ids": inputs["input_ids"],
            f"{name}.logits": last_logits({"logits": logits}, [logits.shape[1]], count=4),
            f"{name}.tokens": tokens_of(model, inputs),
        }
    arrays["video.pixels"] = _pixels(frames("video"))
    write_arrays(folder / "videos.npz", arrays)
    write_json(folder / "frames.json", FRAMES)


def _pixels(given: NDArray[np.uint8]) -> torch.Tensor:
    """Frames by `FRAMES`, [frames, 3, 18, 18]."""
    names = ("image_mean", "image_std", "resample", "size")
    images = LlavaOnevisionImageProcessorPil(**{name: FRAMES[name] for name in names})
    return torch.stack([_seen(images, frame) for frame in given])


def _inputs(processor: Any, name: str) -> Tensors:
    """The prompt: an image, if there is one, then the video, then the question."""
    seen = [_seen(processor.image_processor, frame) for frame in frames(name)]
    text = processor.tokenizer.apply_chat_template(
        [_asked(name)], tokenize=False, add_generation_prompt=True
    )
    side = -(-(_TILE // _PATCH) // 2)
    text = text.replace(_VIDEO, _VIDEO * (len(seen) * side**2 + 1))
    found = {"pixel_values_videos": torch.stack(seen)[None]}
    if "image" in name:
        # Not with the rest of the text: without a processor of videos that is refused.
        made = processor(text=[_IMAGE], images=[image("wide")], return_tensors="pt")
        text = text.replace(_IMAGE, _IMAGE * made["input_ids"].shape[1])
        found |= {key: made[key] for key in ("pixel_values", "image_sizes")}
    return {**found, **processor.tokenizer([text], return_tensors="pt")}


def _asked(name: str) -> dict[str, Any]:
    """A question, whose template writes images first, and videos as they are in the text."""
    picture = [{"type": "image"}] if "image" in name else []
    texts = [{"type": "text", "text": own} for own in (_VIDEO, QUESTIONS[name])]
    return {"role": "user", "content": [*picture, *texts]}


def _seen(images: Any, frame: NDArray[np.uint8]) -> torch.Tensor:
    """A frame as the encoder gets it, [3, height, width]: the view of a whole image."""
    whole: torch.Tensor = images([frame], return_tensors="pt")["pixel_values"][0, 0]
    return whole
