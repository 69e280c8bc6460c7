"""A folder as a user would bring it: conversations in JSON beside images and clips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import soundfile

#: The two unusable records, by their place in the file.
TRUNCATED, MISSING = 3, 6


def write_folder(root: Path, rate: int = 8000, bad: bool = True) -> Path:
    """`train.json`, `heldout.json` and `media/`; with `bad` two training records are unusable.

    Args:
        rate: sample rate of the clips in Hz.

    Returns:
        `root`, made if it is not there.
    """
    media = root / "media"
    media.mkdir(parents=True)
    for i, (width, height) in enumerate([(24, 40), (64, 48), (33, 17), (80, 20)]):
        _image(media / f"{i}.png", width, height)
        _clip(media / f"{i}.wav", samples=rate // 10 * (i + 1), rate=rate)
    good = [_look(i) for i in range(4)] + [_hear(i) for i in range(4)] + [_talk(i) for i in (0, 1)]
    (root / "heldout.json").write_text(json.dumps([_look(0), _hear(1), _talk(0)]))
    if bad:
        whole = (media / "1.png").read_bytes()
        (media / "cut.png").write_bytes(whole[: len(whole) // 2])
        good.insert(TRUNCATED, _look("cut"))
        good.insert(MISSING, _look("gone"))
    (root / "train.json").write_text(json.dumps(good))
    return root


def _image(path: Path, width: int, height: int) -> None:
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3)).astype(np.uint8)
    PIL.Image.fromarray(pixels).save(path)


def _clip(path: Path, samples: int, rate: int) -> None:
    wave = np.random.default_rng(samples).normal(0, 0.1, samples).astype(np.float32)
    soundfile.write(path, wave, rate)


def _record(question: str, answer: str, **media: Any) -> dict[str, Any]:
    turns = [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]
    return {"conversations": turns, **media}


def _look(name: object) -> dict[str, Any]:
    return _record("<image>\nWhat?", "Noise.", image=f"{name}.png")


def _hear(name: object) -> dict[str, Any]:
    return _record("<audio>\nWho?", "Wind.", audio=f"{name}.wav")


def _talk(number: int) -> dict[str, Any]:
    return _record(f"Hello {number}", "Hi.")
