"""The peer of `bench peers`: transformers and torch train the same model on the same samples.

A worker (`benchmarks.turns`) without jax. Takes the folder that the benchmark has written, and
a `TorchSetting` as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.turns import peak_bytes, serve_requests

#: Samples among which batches of similar lengths are made, in batches; as transformers does.
GROUP = 50
#: Label that the loss leaves out.
IGNORED = -100


@dataclass(frozen=True)
class TorchSetting:
    """Settings of torch's training.

    Attributes:
        batch: number of samples of a step.
        grouped: whether those of a step are about as long as each other.
        packed: whether they are one row without padding.
        attention: name of the implementation in transformers.
        compiled: whether torch compiles the model.
    """

    batch: int
    grouped: bool = False
    packed: bool = False
    attention: str = "sdpa"
    compiled: bool = False

    def __str__(self) -> str:
        kinds = ("grouped", "packed", "compiled")
        named = [kind for kind in kinds if getattr(self, kind)]
        return ", ".join([f"batches of {self.batch}", *named, self.attention])

    def to_json(self) -> str:
        """Arguments for the command line of a worker."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class PeerSamples:
    """The training samples.

    Attributes:
        ids: of every sample the tokens with the last target after them.
        labels: the same where they are learnt, else `IGNORED`.
        pixels: images [n, channels, height, width] of every sample.
    """

    ids: Sequence[NDArray[np.int64]]
    labels: Sequence[NDArray[np.int64]]
    pixels: Sequence[NDArray[np.float32]]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> list[int]:
        """Tokens of every sample. The last target takes no position in a decoder's row."""
        return [len(ids) - 1 for ids in self.ids]

    def save(self, path: Path) -> None:
        """Write the samples to a file."""
        ends = np.cumsum([[len(i), len(p)] for i, p in zip(self.ids, self.pixels, strict=True)], 0)
        joined = {name: np.concatenate(getattr(self, name)) for name in ("ids", "labels", "pixels")}
        np.savez(path, ends=ends, **joined)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> PeerSamples:
        """The inverse of `save`."""
        with np.load(path) as stored:
            texts, images = stored["ends"][:-1].T
            ids, labels = (np.split(stored[name], texts) for name in ("ids", "labels"))
            return cls(ids, labels, np.split(stored["pixels"], images))


def draw_batches(lengths: Sequence[int], setting: TorchSetting, seed: int) -> list[list[int]]:
    """Samples of every step of an epoch, shuffled.

    In a grouped epoch, `GROUP` batches are sorted by length before they are cut, and then come in
    any order: `group_by_length` of transformers' Trainer.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths)).tolist()
    if not setting.grouped:
        return _cut_batches(order, setting.batch)
    sorted_groups = [
        sorted(group, key=lambda i: -lengths[i])
        for group in _cut_batches(order, GROUP * setting.batch)
    ]
    cut = [batch for group in sorted_groups for batch in _cut_batches(group, setting.batch)]
    return [cut[i] for i in rng.permutation(len(cut)).tolist()]


def _cut_batches(values: list[int], size: int) -> list[list[int]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def collate_samples(
    samples: PeerSamples, batch: Sequence[int], packed: bool
) -> dict[str, NDArray[Any]]:
    """Inputs of the model: `input_ids`, `labels`, `pixel_values` and positions of tokens.

    Padded to the longest on the right with an `attention_mask`; or, packed, one row with
    `position_ids` that begin anew at every sample, the first token of which is no target.
    """
    ids, labels = ([arrays[i] for i in batch] for arrays in (samples.ids, samples.labels))
    inputs: dict[str, NDArray[Any]] = {}
    if packed:
        starts = [np.concatenate([[IGNORED], array[1:]]) for array in labels]
        rows = {
            "input_ids": ids,
            "labels": starts,
            "position_ids": [np.arange(len(i)) for i in ids],
        }
        inputs |= {name: np.concatenate(arrays)[None] for name, arrays in rows.items()}
    else:
        inputs |= {"input_ids": _pad_rows(ids, 0), "labels": _pad_rows(labels, IGNORED)}
        inputs["attention_mask"] = _pad_rows([np.ones_like(array) for array in ids], 0)
    pixels = np.concatenate([samples.pixels[i] for i in batch])
    return inputs | ({"pixel_values": pixels} if len(pixels) else {})


def _pad_rows(rows: Sequence[NDArray[np.int64]], value: int) -> NDArray[np.int64]:
    longest = max(map(len, rows))
    return np.stack([np.pad(row, (0, longest - len(row)), constant_values=value) for row in rows])


class TrainingPeer:
    """A model of transformers that trains.

    Args:
        folder: folder with `release`, `samples.npz` and `optimizer.json`.
        setting: how.
    """

    def __init__(self, folder: Path, setting: TorchSetting) -> None:
        import torch
        from transformers import LlavaForConditionalGeneration

        self._torch, self._setting = torch, setting
        self._samples = PeerSamples.load(folder / "samples.npz")
        model = LlavaForConditionalGeneration.from_pretrained(
            folder / "release", dtype=torch.float32, attn_implementation=setting.attention
        )
        model.train()
        options = json.loads((folder / "optimizer.json").read_text(encoding="utf-8"))
        self._optimizer = torch.optim.AdamW(model.parameters(), fused=True, **options)
        self._model = torch.compile(model, dynamic=True) if setting.compiled else model
        epochs = (draw_batches(self._samples.lengths, setting, seed) for seed in count())
        self._batches = chain.from_iterable(epochs)
        self._tokens, self._positions = 0, 0

    def loss(self, samples: Sequence[int]) -> float:
        """Mean loss of the learnt tokens of `samples`, one batch; nothing is learnt."""
        with self._torch.no_grad():
            return float(self._compute_loss(self._make_inputs(samples)))

    def turn(self, samples: int) -> dict[str, float]:
        """Train on at least so many samples, epoch after epoch; seconds, and how many tokens."""
        begin, done = time.perf_counter(), list[int]()
        while len(done) < samples:
            batch = next(self._batches)
            self._take_step(batch)
            done += batch
        tokens = sum(self._samples.lengths[i] for i in done)
        return {"seconds": time.perf_counter() - begin, "tokens": tokens}

    def _take_step(self, batch: Sequence[int]) -> None:
        inputs = self._make_inputs(batch)
        self._compute_loss(inputs).backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._tokens += sum(self._samples.lengths[i] for i in batch)
        self._positions += inputs["input_ids"].numel()

    def _make_inputs(self, batch: Sequence[int]) -> dict[str, Any]:
        arrays = collate_samples(self._samples, batch, self._setting.packed)
        return {name: self._torch.from_numpy(array) for name, array in arrays.items()}

    def _compute_loss(self, inputs: dict[str, Any]) -> Any:
        # With a cache for generation transformers would not see where packed samples begin.
        return self._model(**inputs, use_cache=False).loss

    def figures(self) -> dict[str, float]:
        """`peak_bytes` of this process, and `padding` of all steps so far."""
        return {"peak_bytes": peak_bytes(), "padding": 1 - self._tokens / self._positions}


def main() -> None:
    """Answer the benchmark's requests until there are no more."""
    folder, setting = sys.argv[1:]
    peer = TrainingPeer(Path(folder), TorchSetting(**json.loads(setting)))
    serve_requests({"loss": peer.loss, "turn": peer.turn, "figures": peer.figures})


if __name__ == "__main__":
    main()
