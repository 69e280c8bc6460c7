"""Lengths of samples without the samples: distributions of real data, for benchmarks.

The shipped distribution, `web`, is a mixture of three public data sets, each fitted to published
statistics:

- text: ShareGPT. Conversations have 3.51 turns on average (330,239 turns in 94,145 conversations,
  arXiv 2512.17843, table 1) of 161.31 tokens in and 337.99 out (arXiv 2309.06180, section 6.1). The
  distributions of largest entropy with these means are a geometric number of turns of exponential
  length, which together have an exponential length.
- images: LAION-400M. Of 413M images 211M, 67M and 9.6M are at least 256, 512 and 1024 pixels on
  both sides, 268M, 112M and 26M on one (laion.ai/blog/laion-400-open-dataset): both sides are
  lognormal to within 3 %. Patches have 16 x 16 pixels. A sample with images has 2.5 of them on
  average, as in OBELICS (353M in 141M documents, arXiv 2306.16527), geometrically distributed.
- speech: LibriSpeech, the quantiles of test-clean (lhotse, as listed in k2-fsa/icefall,
  egs/librispeech/ASR/local/display_manifest_statistics.py), at 100 frames a second.

It is an assumption that two of three samples have images and one of three has a clip.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.sample import DataError, Lengths, MediumLengths

#: Numbers of patches and of frames that become one token of the decoder.
REDUCTION = {"vision": 4, "audio": 8}
#: Longest conversation in tokens, and largest image in patches; larger ones are cut.
LONGEST = {"text": 32768, "vision": 16384}

_TURNS, _TURN_TOKENS = 330_239 / 94_145, 161.31 + 337.99
_IMAGES = 353 / 141
# log2 of a side at z = 0, and its growth per unit of z, from the three quantiles of each side.
_SHORT_SIDE, _LONG_SIDE = (8.028, 0.990), (8.396, 1.045)
_PATCH = 16
# Probability, seconds.
_SPEECH = (
    (0.0, 1.3),
    (0.01, 2.0),
    (0.05, 2.3),
    (0.1, 2.7),
    (0.25, 3.7),
    (0.5, 5.8),
    (0.75, 9.6),
    (0.9, 14.6),
    (0.95, 17.8),
    (0.99, 25.5),
    (0.999, 32.8),
    (1.0, 35.0),
)
_FRAMES_PER_SECOND = 100


class SampleShape(NamedTuple):
    """Lengths of a sample whose media have the names of the distribution.

    Attributes:
        tokens: number of tokens, those of the media among them.
        media: by name, input positions of each medium.
    """

    tokens: int
    media: Mapping[str, tuple[int, ...]]

    def lengths(self, text: str) -> Lengths:
        """The same by module, for a module `text` that takes the text.

        Outputs may be merged anywhere.
        """
        media = {name: tuple(map(MediumLengths, counts)) for name, counts in self.media.items()}
        return Lengths({text: (MediumLengths(self.tokens),), **media}, self.media)


def web_lengths(rng: np.random.Generator, count: int) -> list[SampleShape]:
    """`count` samples of the shipped mixture."""
    text = np.minimum(rng.exponential(_TURNS * _TURN_TOKENS, count), LONGEST["text"])
    images = rng.geometric(1 / _IMAGES, count) * (rng.random(count) < 2 / 3)
    clips = rng.random(count) < 1 / 3
    patches = _draw_patches(rng, int(images.sum()))
    frames = _draw_frames(rng, count)
    samples, at = [], 0
    for tokens, number, has_clip, length in zip(text, images, clips, frames, strict=True):
        media = {
            "vision": tuple(patches[at : at + number].tolist()),
            "audio": (int(length),) if has_clip else (),
        }
        at += number
        outputs = sum(-(-n // REDUCTION[name]) for name, ns in media.items() for n in ns)
        samples.append(SampleShape(1 + int(tokens) + outputs, media))
    return samples


def _draw_patches(rng: np.random.Generator, count: int) -> np.ndarray:
    """Patches of images whose sides are at the same quantile, each of its own distribution."""
    z = rng.standard_normal(count)
    sides = [2.0 ** (middle + growth * z) for middle, growth in (_SHORT_SIDE, _LONG_SIDE)]
    patches = math.prod(np.ceil(side / _PATCH) for side in sides)
    return np.minimum(patches, LONGEST["vision"]).astype(np.int64)


def _draw_frames(rng: np.random.Generator, count: int) -> np.ndarray:
    """Frames of clips."""
    probability, seconds = zip(*_SPEECH, strict=True)
    drawn = np.interp(rng.random(count), probability, seconds)
    return (drawn * _FRAMES_PER_SECOND).astype(np.int64)


#: Shipped distributions by name.
DISTRIBUTIONS: Mapping[str, Callable[[np.random.Generator, int], list[SampleShape]]] = {
    "web": web_lengths
}


def draw_lengths(distribution: str, count: int, seed: int) -> list[SampleShape]:
    """Lengths of `count` samples.

    Args:
        distribution: a name, or a file with a JSON object on each line: `{"tokens": 310, "vision":
            [256], "audio": []}`, from which samples are drawn with replacement.
        count: number of samples.
        seed: seed of the draw.

    Raises:
        DataError: the name is unknown, the file cannot be read or a line is not such an object.
    """
    rng = np.random.default_rng(seed)
    if distribution in DISTRIBUTIONS:
        return DISTRIBUTIONS[distribution](rng, count)
    path = Path(distribution)
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"distribution {distribution!r}: no text: {error}") from error
    except OSError as error:
        raise DataError(
            f"distribution {distribution!r}: {error.strerror}; valid: {sorted(DISTRIBUTIONS)} or a "
            "file with a JSON object a line"
        ) from error
    samples = [
        _parse_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not samples:
        raise DataError(f"distribution {distribution!r} has no samples; valid: at least one")
    return [samples[i] for i in rng.integers(0, len(samples), count)]


def _parse_line(path: Path, number: int, line: str) -> SampleShape:
    try:
        value = json.loads(line)
        tokens, media = value.pop("tokens"), {k: tuple(v) for k, v in value.items()}
    except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{path}:{number}: {line[:80]!r} is no sample: {error!r}") from error
    lengths = (tokens, *(n for counts in media.values() for n in counts))
    if not all(type(n) is int and n >= 0 for n in lengths):
        raise DataError(f"{path}:{number}: {line[:80]!r}: lengths are whole numbers from 0 on")
    return SampleShape(tokens, media)
