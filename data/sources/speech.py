"""Spoken digit strings, synthesised by eSpeak NG and cached as one array of samples.

eSpeak NG is a C library with global state: its output depends on earlier output. It therefore runs
in synchronous mode in a child process that synthesises one list from start to end, so that the same
list gives the same samples everywhere (hosts plan from their lengths). All other processes read the
cache: a folder whose name is a fingerprint of all that decides its contents, written under another
name and then renamed, so that a reader sees a whole cache or none.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from math import gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.folders import drop_damaged, put_folder
from data.media.audio.row_spec import LazyAudio
from data.sample import DataError
from data.sources.cache import in_cache

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
VOICES = (
    "en-us",
    "en-us+m3",
    "en-us+f2",
    "en-gb-x-rp",
    "en-gb-x-rp+f4",
    "en-gb-scotland",
    "en-gb-x-gbclan+m7",
    "en-029",
)
SPEEDS = (190, 220, 255, 300)  # words per minute
_SYNCHRONOUS, _CHARS_UTF8, _RATE, _PITCH = 2, 1, 1, 3  # constants of speak_lib.h
_SEED = 1
_VERSION = 1  # version of the contents of the cache
Waves = list[NDArray[np.int16]]
_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


def is_heldout(voice: int, speed: int) -> bool:
    """Whether this combination of voice and speed is held out of training (one in four).

    Every voice and every speed occurs in training, but not together in these combinations.
    """
    return (voice + speed) % len(SPEEDS) == 0


@dataclass(frozen=True)
class SpokenDigits:
    """A string of digits and how it is spoken: voice, words per minute, pitch 0..100."""

    digits: str
    voice: str
    speed: int
    pitch: int


def make_utterances(heldout: bool, count: int, longest: int, seed: int) -> list[SpokenDigits]:
    """`count` random digit strings of 1 to `longest` digits in the split's voices and speeds."""
    rng = np.random.default_rng((seed, 2, int(heldout)))
    styles = [
        (voice, speed)
        for v, voice in enumerate(VOICES)
        for s, speed in enumerate(SPEEDS)
        if is_heldout(v, s) == heldout
    ]
    utterances = []
    for i in range(count):
        voice, speed = styles[int(rng.integers(len(styles)))]
        length = 1 + i % longest
        digits = "".join(map(str, rng.integers(0, 10, length)))
        utterances.append(SpokenDigits(digits, voice, speed, int(rng.integers(30, 71))))
    return utterances


def _check_code(code: int, call: str, value: object) -> None:
    if code != 0:
        raise DataError(f"eSpeak NG: {call}({value!r}) failed with code {code}")


def _wheel_paths() -> tuple[str, str, str]:
    """Path of the eSpeak NG library, of its voices, and version of the wheel they come from."""
    try:
        import espeakng_loader
    except ImportError as error:
        message = "the demo set needs the espeakng-loader wheel: pip install mllm_jax[demo]"
        raise DataError(message) from error
    paths = espeakng_loader.get_library_path(), espeakng_loader.get_data_path()
    return *paths, metadata.version("espeakng-loader")


@contextmanager
def _start_espeak(path: str, voices: str) -> Iterator[tuple[ctypes.CDLL, int]]:
    """The initialised library and its sample rate in Hz."""
    library = ctypes.CDLL(path)
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, voices.encode(), 0)
    if rate <= 0:
        raise DataError(f"eSpeak NG cannot start with the voices in {voices}: code {rate}")
    # Breath is random, and Initialize seeds the generator from the clock.
    _check_code(library.espeak_ng_SetRandSeed(_SEED), "espeak_ng_SetRandSeed", _SEED)
    try:
        yield library, rate
    finally:
        library.espeak_Terminate()


def _make_speaker(library: ctypes.CDLL) -> Callable[[SpokenDigits], NDArray[np.int16]]:
    """A function from an utterance to its samples at eSpeak's rate."""
    pieces: list[NDArray[np.int16]] = []

    @_Callback
    def collect_wave(wave: object, count: int, _events: object) -> int:
        if wave and count > 0:
            pieces.append(np.ctypeslib.as_array(wave, (count,)).copy())
        return 0

    library.espeak_SetSynthCallback(collect_wave)

    def speak_utterance(
        utterance: SpokenDigits, _callback: object = collect_wave
    ) -> NDArray[np.int16]:
        pieces.clear()
        text = " ".join(WORDS[int(d)] for d in utterance.digits).encode() + b"\0"
        voice = library.espeak_SetVoiceByName(utterance.voice.encode())
        _check_code(voice, "espeak_SetVoiceByName", utterance.voice)
        _check_code(
            library.espeak_SetParameter(_RATE, utterance.speed, 0), "speed", utterance.speed
        )
        _check_code(
            library.espeak_SetParameter(_PITCH, utterance.pitch, 0), "pitch", utterance.pitch
        )
        size = ctypes.c_size_t(len(text))
        code = library.espeak_Synth(text, size, 0, 0, 0, _CHARS_UTF8, None, None)
        _check_code(code, "espeak_Synth", utterance.digits)
        if not pieces:
            raise DataError(f"eSpeak NG made no sound for {utterance}")
        return np.concatenate(pieces)

    return speak_utterance


def _synthesise_waves(
    utterances: Sequence[SpokenDigits], rate: int, library: str, voices: str
) -> Waves:
    """Waveforms of the utterances at `rate` Hz, polyphase-resampled from eSpeak's rate."""
    from scipy.signal import resample_poly

    waves = []
    with _start_espeak(library, voices) as (espeak, native):
        speak = _make_speaker(espeak)
        common = gcd(native, rate)
        for utterance in utterances:
            wave = speak(utterance).astype(np.float32)
            wave = resample_poly(wave, rate // common, native // common)
            waves.append(np.clip(np.round(wave), -32768, 32767).astype(np.int16))
    return waves


def run_child() -> None:
    """Main function of the child process: reads the job from stdin, writes the two arrays."""
    job = json.load(sys.stdin)
    utterances = [SpokenDigits(*values) for values in job["utterances"]]
    try:
        waves = _synthesise_waves(utterances, job["rate"], job["library"], job["voices"])
        np.save(Path(job["folder"]) / "waves.npy", np.concatenate(waves))
        np.save(Path(job["folder"]) / "ends.npy", np.cumsum([len(wave) for wave in waves]))
    except (DataError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _in_child(utterances: Sequence[SpokenDigits], rate: int, folder: Path) -> None:
    """Synthesise into `folder` in a fresh interpreter, without running the caller's main module."""
    library, voices, _ = _wheel_paths()
    job = {
        "utterances": [list(asdict(u).values()) for u in utterances],
        "rate": rate,
        "library": library,
        "voices": voices,
        "folder": str(folder.resolve()),
    }
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import run_child; run_child()"
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(job), text=True, capture_output=True
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise DataError(f"speech synthesis failed: {reason[0]}")


def _clips_fingerprint(utterances: Sequence[SpokenDigits], rate: int) -> str:
    contents = [_VERSION, _wheel_paths()[2], rate, [list(asdict(u).values()) for u in utterances]]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]


class ClipCache:
    """The clips of one split, synthesised once and then mapped from the cache.

    Raises:
        DataError: the eSpeak NG wheel is missing or fails, or the cache folder is unwritable.
    """

    def __init__(self, utterances: Sequence[SpokenDigits], rate: int, cache: Path) -> None:
        self.utterances = tuple(utterances)
        self.rate = rate
        self.fingerprint = _clips_fingerprint(utterances, rate)
        self._folder = cache / f"speech-{self.fingerprint}"
        with in_cache(self._folder):
            drop_damaged(self._folder, "clips")
            if not self._folder.is_dir():
                put_folder(
                    self._folder, lambda draft: _in_child(utterances, rate, draft), seal=True
                )
        self._waves = np.load(self._folder / "waves.npy", mmap_mode="r")
        self._ends = np.load(self._folder / "ends.npy")

    def __len__(self) -> int:
        return len(self.utterances)

    def clip_bounds(self, index: int) -> tuple[int, int]:
        """Start and end of clip `index` in samples."""
        return (int(self._ends[index - 1]) if index else 0), int(self._ends[index])

    def clip_wave(self, index: int) -> NDArray[np.float32]:
        """Waveform [samples] of clip `index` in [-1, 1]."""
        start, end = self.clip_bounds(index)
        wave: NDArray[np.float32] = np.asarray(self._waves[start:end], np.float32)
        return np.divide(wave, np.float32(32768), dtype=np.float32)


@dataclass(frozen=True)
class SpokenClip(LazyAudio):
    """A clip of `ClipCache`."""

    clips: ClipCache
    index: int

    def clip_info(self) -> tuple[int, int]:
        """(samples, rate in Hz)."""
        start, end = self.clips.clip_bounds(self.index)
        return end - start, self.clips.rate

    def load(self) -> NDArray[np.float32]:
        """Waveform [samples]."""
        return self.clips.clip_wave(self.index)
