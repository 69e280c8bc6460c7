"""The demo set: read handwritten digit strips, write down spoken digit strings.

Even samples show one strip (or two), odd samples play one clip; the text asks in one of several
ways, the answer is the digits: "<image> which digits do you see ?" -> "3 1 4". Sample i is a
function of (data.source.seed, split, i) alone. Held-out: scans that training never shows, and
combinations of voice and speed that training never plays.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from data.config import DataConfig, DemoSource
from data.sample import DataError, Sample, Turn
from data.sources.cache import home_of
from data.sources.digits import DigitShapes, make_strip
from data.sources.source import SampleKey, Split
from data.sources.speech import ClipCache, SpokenClip, make_utterances

LOOK = (
    "{} which digits do you see ?",
    "{} read the number",
    "what is written here ? {}",
    "which number is in the image ? {}",
)
LOOK_TWICE = ("{} read both images", "{} which digits do you see in both ?")
HEAR = (
    "{} which digits do you hear ?",
    "{} transcribe the clip",
    "listen and write down {}",
    "what does the speaker say ? {}",
)
PAIR_SEPARATOR = " , "
_VERSION = 1  # version of the samples


class DemoSet:
    """A split of the demo set; see the module.

    Raises:
        DataError: scikit-learn or eSpeak NG is missing, or an unknown split.
    """

    def __init__(self, config: DataConfig, split: Split) -> None:
        if not isinstance(config.source, DemoSource) or split not in ("train", "heldout"):
            raise DataError(f"no split {split!r} of {config.source}; valid: train, heldout")
        options = config.source
        self._arguments = (config, split)
        self._options, self._split, self._home = options, split, config.cache
        self._heldout = split == "heldout"
        self._marks = (config.image.placeholder, config.audio.placeholder)
        self._length = options.heldout if self._heldout else options.train
        self._shapes = DigitShapes(self._heldout, options.variants, options.seed, config.cache)
        count = max(1, self._length // 2) if self._heldout else options.clips
        utterances = make_utterances(self._heldout, count, options.digits, options.seed)
        self._clips = ClipCache(utterances, config.audio.sample_rate, config.cache)
        # A sample is requested twice within a few steps: for measuring and for reading.
        self._recent = lru_cache(maxsize=4096)(self._make_sample)

    def __reduce__(self) -> tuple[type[DemoSet], tuple[DataConfig, Split]]:
        # A worker process maps the cached drawings and clips: nothing large is pickled.
        return DemoSet, self._arguments

    def __len__(self) -> int:
        return self._length

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the options and of the spoken strings."""
        options = self._options.model_dump_json()
        return f"{_VERSION} {self._split} {options} {self._clips.fingerprint} {self._marks}"

    @property
    def home(self) -> Path:
        """See `Source.home`."""
        return home_of(self._home, ["demo", self._split])

    def name(self, index: int) -> str:
        """`demo/train/17`."""
        return f"demo/{self._split}/{index}"

    def __getitem__(self, key: SampleKey) -> Sample:
        index, _ = key
        if not 0 <= index < self._length:
            raise IndexError(f"sample {index} of {self._length}")
        return self._recent(index)

    def _make_sample(self, index: int) -> Sample:
        rng = np.random.default_rng((self._options.seed, int(self._heldout), index))
        return self._clip_sample(index, rng) if index % 2 else self._strip_sample(index, rng)

    def _strip_sample(self, index: int, rng: np.random.Generator) -> Sample:
        longest = self._options.digits
        pair = longest > 1 and rng.random() < self._options.pairs
        counts = rng.integers(1, longest // 2 + 1, 2) if pair else rng.integers(1, longest + 1, 1)
        strings = [rng.integers(0, 10, count) for count in counts]
        images = tuple(make_strip(self._shapes, digits, rng) for digits in strings)
        ask = LOOK_TWICE if pair else LOOK
        question = ask[int(rng.integers(len(ask)))].format(" ".join([self._marks[0]] * len(images)))
        answer = PAIR_SEPARATOR.join(" ".join(map(str, digits)) for digits in strings)
        return Sample(self.name(index), _make_turns(question, answer), {"image": images})

    def _clip_sample(self, index: int, rng: np.random.Generator) -> Sample:
        clip = (index // 2) % len(self._clips)
        question = HEAR[int(rng.integers(len(HEAR)))].format(self._marks[1])
        turns = _make_turns(question, " ".join(self._clips.utterances[clip].digits))
        return Sample(self.name(index), turns, {"audio": (SpokenClip(self._clips, clip),)})


def _make_turns(question: str, answer: str) -> tuple[Turn, Turn]:
    return Turn("user", question), Turn("assistant", answer)
