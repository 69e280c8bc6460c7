"""Strips of handwritten digits from scikit-learn's UCI scans (8 x 8 pixels, 1797 of them).

Every scan belongs to one split. A training scan has `variants` augmented copies (shifted, rotated,
scaled, sheared, warped, in other ink; copy 0 is the scan itself); held-out scans are shown as they
are. The drawings of a split are kept in a folder next to the clips: drawing them and importing
scikit-learn takes seconds, which a restart need not spend.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data.folders import drop_damaged, put_folder
from data.media.image.row_spec import LazyImage
from data.sample import DataError
from data.sources.cache import in_cache

SIDE = 16  # pixels; a scan is drawn at twice its size
_VERSION = 1  # version of the drawings
_HELDOUT_SHARE = 0.2
_SPLIT_SEED = 20240229  # of the fixed split by scan; independent of `data.source.seed`


def split_scans(heldout: bool) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Scans [n, 8, 8] in [0, 1] and their digits [n] of one split; the splits are disjoint.

    Raises:
        DataError: scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError("the demo set needs scikit-learn: pip install mllm_jax[demo]") from error
    digits = load_digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(digits.target))
    cut = round(len(order) * _HELDOUT_SHARE)
    chosen = order[:cut] if heldout else order[cut:]
    return (digits.images[chosen] / 16).astype(np.float32), digits.target[chosen]


def _random_matrices(count: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Random maps from pixels of a drawn digit to its scan: [count, 2, 2] and shifts [count, 2]."""
    angle = rng.uniform(-0.25, 0.25, count)
    scale = rng.uniform(0.85, 1.2, (count, 2))
    shear = rng.uniform(-0.25, 0.25, count)
    cos, sin = np.cos(angle), np.sin(angle)
    rows = [cos * scale[:, 0], -sin * scale[:, 0], (sin + shear) * scale[:, 1], cos * scale[:, 1]]
    return np.stack(rows, -1).reshape(-1, 2, 2), rng.uniform(-0.7, 0.7, (count, 2))


def _random_warps(count: int, rng: np.random.Generator) -> NDArray:
    """Smooth random displacements [count, 2, SIDE * SIDE], bilinear between 4 x 4 points."""
    nodes = rng.uniform(-0.6, 0.6, (count, 2, 4, 4))
    at = np.linspace(0, 3, SIDE)[:, None]
    weights = np.maximum(0, 1 - np.abs(at - np.arange(4)))  # [SIDE, 4]
    return (weights @ nodes @ weights.T).reshape(count, 2, -1)


def _sample_bilinear(scans: NDArray, at: NDArray) -> NDArray:
    """Values of scans [n, 8, 8] at points `at` [n, 2, p] (row, column); zero outside."""
    padded = np.pad(scans, ((0, 0), (1, 2), (1, 2)))
    at = np.clip(at + 1, 0, scans.shape[1] + 1)
    low = np.floor(at).astype(np.int32)
    row, col = low[:, 0], low[:, 1]
    down, right = (at - low)[:, 0], (at - low)[:, 1]
    n = np.arange(len(scans))[:, None]
    top = padded[n, row, col] * (1 - right) + padded[n, row, col + 1] * right
    bottom = padded[n, row + 1, col] * (1 - right) + padded[n, row + 1, col + 1] * right
    return top * (1 - down) + bottom * down


def draw_digits(scans: NDArray, rng: np.random.Generator | None) -> NDArray[np.uint8]:
    """Draw scans [n, 8, 8] as [n, SIDE, SIDE] grey pixels, augmented if `rng` is given."""
    axis = (np.arange(SIDE) - (SIDE - 1) / 2) / 2  # in scan pixels, from the centre
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    if rng is None:
        points = np.broadcast_to(grid, (len(scans), *grid.shape))
    else:
        matrices, shifts = _random_matrices(len(scans), rng)
        points = matrices @ grid + shifts[:, :, None] + _random_warps(len(scans), rng)
    values = _sample_bilinear(scans, points + 3.5)
    if rng is not None:
        values = np.minimum(values * rng.uniform(0.8, 1.25, (len(scans), 1)), 1)
    return np.round(255 * values).astype(np.uint8).reshape(-1, SIDE, SIDE)


def draw_split(heldout: bool, variants: int, seed: int) -> tuple[NDArray, NDArray]:
    """All drawings of one split, `[variants * scans, SIDE, SIDE]`, and their digits."""
    scans, labels = split_scans(heldout)
    rng = np.random.default_rng((seed, 1))
    copies = 1 if heldout else variants
    drawings = [draw_digits(scans, rng if copy else None) for copy in range(copies)]
    return np.concatenate(drawings), np.tile(labels, copies)


class DigitShapes:
    """All drawings of one split: `pixels` [variants * scans, SIDE, SIDE], mapped from `cache`.

    Raises:
        DataError: scikit-learn is missing, or the cache folder is unwritable.
    """

    def __init__(self, heldout: bool, variants: int, seed: int, cache: Path) -> None:
        settings = heldout, 1 if heldout else variants, 0 if heldout else seed
        digest = hashlib.sha256(repr((_VERSION, *settings)).encode()).hexdigest()[:16]
        folder = cache / f"digits-{digest}"
        with in_cache(folder):
            drop_damaged(folder, "drawings")
            if not folder.is_dir():
                put_folder(
                    folder, lambda draft: _write_drawings(draft, *draw_split(*settings)), seal=True
                )
        self.pixels = np.load(folder / "pixels.npy", mmap_mode="r")
        labels = np.load(folder / "digits.npy")
        self._order = np.argsort(labels, kind="stable")  # all of digit 0, then of digit 1, ...
        self._counts = np.bincount(labels, minlength=10)
        self._starts = np.cumsum(self._counts) - self._counts

    def choose_drawings(
        self, digits: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Random drawings of `digits`, as indices into `pixels`."""
        return self._order[self._starts[digits] + rng.integers(self._counts[digits])]


def _write_drawings(folder: Path, pixels: NDArray, digits: NDArray) -> None:
    np.save(folder / "pixels.npy", pixels)
    np.save(folder / "digits.npy", digits)


@dataclass(frozen=True)
class DigitStrip(LazyImage):
    """A row of drawings: white ink (255) on black, SIDE pixels high.

    Attributes:
        shapes: drawings of digits.
        drawings: indices into `shapes.pixels`.
        lefts: left edge of each drawing in pixels.
        width: width of the strip in pixels.
    """

    shapes: DigitShapes
    drawings: tuple[int, ...]
    lefts: tuple[int, ...]
    width: int

    def image_size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return SIDE, self.width

    def load(self, channels: int) -> NDArray[np.uint8]:
        """Draw the strip."""
        canvas = np.zeros((SIDE, self.width), np.uint8)
        for drawing, left in zip(self.drawings, self.lefts, strict=True):
            place = canvas[:, left : left + SIDE]
            np.maximum(place, self.shapes.pixels[drawing], out=place)
        return np.repeat(canvas[:, :, None], channels, axis=2)


def make_strip(
    shapes: DigitShapes, digits: NDArray[np.int64], rng: np.random.Generator
) -> DigitStrip:
    """A strip that shows `digits`, with random drawings, margins and gaps."""
    gaps = rng.integers(0, 5, len(digits))
    gaps[0] = rng.integers(0, 8)
    lefts = np.cumsum(gaps + SIDE) - SIDE
    width = int(lefts[-1]) + SIDE + int(rng.integers(0, 4))
    drawings = shapes.choose_drawings(digits, rng)
    return DigitStrip(shapes, tuple(drawings.tolist()), tuple(lefts.tolist()), width)
