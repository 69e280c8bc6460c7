"""Drawn lengths have the published statistics that they were fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.sample import DataError
from data.sources.distributions import REDUCTION, SampleShape, draw_lengths
from tests.data.samples import make_lengths

COUNT = 60_000


@pytest.fixture(scope="module")
def drawn() -> list[SampleShape]:
    return draw_lengths("web", COUNT, seed=0)


def text_of(lengths: SampleShape) -> int:
    """Tokens that are not of media."""
    media = sum(-(-n // REDUCTION[name]) for name, counts in lengths.media.items() for n in counts)
    return lengths.tokens - media


def test_conversations_are_as_long_as_published(drawn: list[SampleShape]) -> None:
    text = np.array([text_of(lengths) for lengths in drawn])
    assert text.min() >= 1
    assert text.mean() == pytest.approx(330_239 / 94_145 * (161.31 + 337.99), rel=0.02)


def test_images_are_as_large_as_published(drawn: list[SampleShape]) -> None:
    """Shares of images with both sides of 256, 512 and 1024 pixels and more."""
    patches = np.array([n for lengths in drawn for n in lengths.media["vision"]])
    for side, share in ((256, 211 / 413), (512, 67 / 413), (1024, 9.6 / 413)):
        # Where the short side is `side`, the long one is longer by a third to a half.
        least, most = (1.2 * (side / 16) ** 2, 1.6 * (side / 16) ** 2)
        assert np.mean(patches >= most) < share < np.mean(patches >= least)
    counts = np.array([len(lengths.media["vision"]) for lengths in drawn])
    assert np.mean(counts > 0) == pytest.approx(2 / 3, abs=0.01)
    assert counts[counts > 0].mean() == pytest.approx(353 / 141, rel=0.02)


def test_clips_have_the_published_quantiles(drawn: list[SampleShape]) -> None:
    frames = np.array([n for lengths in drawn for n in lengths.media["audio"]])
    assert len(frames) == pytest.approx(COUNT / 3, rel=0.03)
    for share, seconds in ((0.05, 2.3), (0.5, 5.8), (0.9, 14.6), (0.99, 25.5)):
        assert np.quantile(frames, share) == pytest.approx(100 * seconds, rel=0.03)


def test_draws_depend_on_the_seed_alone() -> None:
    assert draw_lengths("web", 20, 1) == draw_lengths("web", 20, 1) != draw_lengths("web", 20, 2)


def test_a_file_is_drawn_from(tmp_path: Path) -> None:
    path = tmp_path / "lengths.jsonl"
    path.write_text('{"tokens": 3, "vision": [4, 5]}\n\n{"tokens": 7}\n')
    drawn = draw_lengths(str(path), 100, seed=0)
    assert {str(n.lengths("decoder")) for n in drawn} == {
        str(make_lengths(3, {"vision": (4, 5)})),
        str(make_lengths(7)),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"No such file or directory; valid: \['web'\] or a file"),
        ("", "has no samples"),
        ("{", ":1: '{' is no sample: JSONDecodeError"),
        ("[1]", r":1: '\[1\]' is no sample"),
        ('{"vision": [1]}', "is no sample: KeyError"),
        ('{"tokens": 1}\n{"tokens": 2.5}', ":2: .* lengths are whole numbers from 0 on"),
        ('{"tokens": 1, "vision": [-1]}', "lengths are whole numbers"),
    ],
)
def test_a_wrong_distribution_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lengths.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=message):
        draw_lengths(str(path), 3, seed=0)
