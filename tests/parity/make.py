"""Make the stored checkpoints, inputs and expected values anew: `python -m tests.parity.make`.

Needs the extra `parity` (peft, torch, transformers). What is stored, and what every array means, is
in README.md beside this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
import transformers
from rich.console import Console

from tests.parity import audio, decoders, vision
from tests.parity.checkpoint import ROOT, write_arrays
from tests.parity.llava import LLAVA, LORA_NAME, make_lora
from tests.parity.media import CLIPS, IMAGES, clip, image
from tests.parity.onevision import ONEVISION, make_videos
from tests.parity.qwen2_audio import QWEN2_AUDIO
from tests.release.by_peft import EXPORTED_NAME, make_exported


def families() -> dict[str, Callable[[], None]]:
    """The function that makes each folder, by the folder's name."""
    makers: dict[str, Callable[[], None]] = {
        checkpoint.name: partial(module.make, checkpoint)
        for module in (decoders, vision, audio)
        for checkpoint in module.CHECKPOINTS
    }
    makers |= {family.name: family.make for family in (LLAVA, ONEVISION, QWEN2_AUDIO)}
    makers[vision.PAIRS.name] = vision.make_pairs
    return makers | {LORA_NAME: make_lora, EXPORTED_NAME: make_exported}


def make_media() -> None:
    """Write the images and clips that processors are given."""
    images = {f"image.{name}": image(name) for name in IMAGES}
    write_arrays(ROOT / "media.npz", images | {f"clip.{name}": clip(name) for name in CLIPS})


def main() -> None:
    """Make all folders, or the one that is named."""
    makers = families()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(makers), help="make this family alone")
    only = parser.parse_args().only
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    make_media()
    for name in [only] if only else makers:
        makers[name]()
        if name == ONEVISION.name:
            make_videos()
        size = sum(path.stat().st_size for path in (ROOT / name).iterdir())
        Console().print(f"{name}: {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
