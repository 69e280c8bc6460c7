"""What transformers makes of videos: `videos.npz` beside the checkpoint of LLaVA-OneVision.

Frames are resized and normalised by the processor of images; that of videos would do it by
torchvision, whose pixels differ by at most one of 255 levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlavaOnevisionForConditionalGeneration, PreTrainedTokenizerFast

from tests.parity.checkpoint import ROOT, Tensors, write_arrays
from tests.parity.generated import tokens_of
from tests.parity.language import last_logits
from tests.parity.media import image
from tests.parity.onevision import processor_of

NAME = "llava_onevision"
#: Frames, and (height, width) in pixels, by the name of the conversation.
SIZES = {"video": (5, (20, 26)), "video and image": (2, (31, 18))}
QUESTIONS = {"video": "What moves?", "video and image": "Which is the same?"}
_IMAGE, _VIDEO, _TILE, _PATCH = "<image>", "<video>", 18, 4


def frames(name: str) -> NDArray[np.uint8]:
    """RGB pixels [frames, height, width, 3]: a wave that runs through the image of a box."""
    count, (height, width) = SIZES[name]
    time, rows, columns = np.mgrid[:count, :height, :width].astype(np.float64)
    turns = [(0.31, 0.07, 0.9), (0.05, 0.23, -1.7), (0.17, -0.19, 2.9)]
    waves = [np.sin(a * rows + b * columns + c * time) for a, b, c in turns]
    pixels = np.round(127.5 + 110 * np.stack(waves, axis=-1))
    for number in range(count):
        pixels[number, 2 + number : 9 + number, 3:9] = (250, 20, 130)
    return pixels.astype(np.uint8)


def make() -> None:
    """Write the file."""
    folder = ROOT / NAME
    model = LlavaOnevisionForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    model.set_attn_implementation("eager")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    processor = processor_of(folder, tokenizer)
    arrays: dict[str, Any] = {}
    for name in SIZES:
        inputs = _inputs(processor, name)
        with torch.no_grad():
            logits = model.eval()(**inputs).logits
        arrays |= {
            f"{name}.frames": frames(name),
            f"{name}.prompt_ids": inputs["input_ids"],
            f"{name}.logits": last_logits({"logits": logits}, [logits.shape[1]], count=4),
            f"{name}.tokens": tokens_of(model, inputs),
        }
    write_arrays(folder / "videos.npz", arrays)


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
