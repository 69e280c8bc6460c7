"""Samples of noise with the lengths of real ones, for throughput without data.

Lengths come from `data.sources.distributions`, times `scale`; the sample's number seeds its noise.
With `data.tokenizer: bytes` a sample has about as many tokens as its length says; other tokenizers
give fewer or more.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np

from data.config import DataConfig, SyntheticSource, counts
from data.media.registry import MEDIA_TYPES
from data.sample import DataError, Sample, Turn
from data.sources.cache import home_of
from data.sources.distributions import REDUCTION, draw_lengths
from data.sources.source import SampleKey, Split
from data.text.chat import marks_of

#: Kinds of the media of a distribution, by their names there.
_KINDS = {"vision" if kind == "image" else kind: kind for kind in MEDIA_TYPES if counts(kind, ())}
_LETTERS = np.frombuffer(b"etaoinshrdlu", np.uint8)


class SyntheticSet:
    """A split of synthetic samples; see the module.

    Raises:
        DataError: the distribution is unknown, or has media that are of no known kind.
    """

    def __init__(self, config: DataConfig, split: Split) -> None:
        if not isinstance(config.source, SyntheticSource):
            raise DataError(f"data.source is of kind {config.source.kind}, not synthetic")
        self._arguments, self._config = (config, split), config
        self._options, self._split = config.source, split
        seed = 2 * self._options.seed + (split == "heldout")
        self._lengths = draw_lengths(self._options.distribution, self._options.samples, seed)
        for name in sorted({name for n in self._lengths for name in n.media}):
            if name not in _KINDS:
                raise DataError(
                    f"data.source.distribution {self._options.distribution}: {name!r} are no media "
                    f"that can be made; valid: {', '.join(_KINDS)}"
                )

    def __reduce__(self) -> tuple[type[SyntheticSet], tuple[DataConfig, Split]]:
        # A worker process draws its own lengths: nothing large is pickled.
        return SyntheticSet, self._arguments

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the lengths."""
        drawn = repr((self._lengths, self._options.scale, self._options.patch))
        return hashlib.sha256(drawn.encode()).hexdigest()

    @property
    def home(self) -> Path:
        """See `Source.home`."""
        return home_of(self._config.cache, ["synthetic"])

    def name(self, index: int) -> str:
        """`synthetic/train/17`."""
        return f"synthetic/{self._split}/{index}"

    def __getitem__(self, key: SampleKey) -> Sample:
        index, _ = key
        lengths, scale = self._lengths[index], self._options.scale
        rng = np.random.default_rng((self._options.seed, index))
        media = {
            kind: tuple(MEDIA_TYPES[kind].make_noise(n * scale, self._config, rng) for n in counts)
            for name, kind in _KINDS.items()
            if (counts := lengths.media.get(name))
        }
        reduced = [
            math.ceil(n / REDUCTION.get(k, 1))
            for k, counts in lengths.media.items()
            for n in counts
        ]
        outputs = sum(reduced)
        half = (lengths.tokens - outputs) * scale / 2
        written = marks_of(self._config)
        marks = [written[kind] for kind, counts in media.items() for _ in counts]
        question = " ".join([*marks, _random_letters(half, rng)])
        turns = (Turn("user", question), Turn("assistant", _random_letters(half, rng)))
        return Sample(self.name(index), turns, media)


def _random_letters(length: float, rng: np.random.Generator) -> str:
    """A word of so many letters, at least one."""
    return rng.choice(_LETTERS, max(1, round(length))).tobytes().decode()
