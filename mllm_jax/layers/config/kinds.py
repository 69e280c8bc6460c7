"""What kinds of layers a module has: their mask, their rotary positions, their mixer and MLP.

A module lists one period of kinds, which repeats until its last layer. Gemma 3 has a period of six:
five layers with a window and one without, and another base of rotary positions for each of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mllm_jax.layers.config.parts import RopeScaling

#: The ids of every module, which bound attention unless a mask names others.
SEGMENT_IDS = "segment_ids"
#: The ids that masks with `spans` read.
SPAN_IDS = "span_ids"


@dataclass(frozen=True)
class MaskKind:
    """Which tokens a token sees. All conditions hold together.

    Tokens of one segment are numbered by their index, from 0. With `window` 2, `chunk` 4, or one
    span of the tokens 1 to 3, a causal segment of six tokens is seen so (a line for each token)::

        window     chunk      spans
        x          x          x
        x x        x x        x x x x
        . x x      x x x      x x x x
        . . x x    x x x x    x x x x
        . . . x x  . . . . x  x x x x x

    Attributes:
        causal: whether a token sees only itself and tokens before it.
        window: number of tokens that a token sees, itself and those before it; of tokens after it,
            which a span lets it see, one less. None: any number.
        chunk: number of tokens of a chunk; a token sees the tokens of its chunk alone. None: no
            chunks.
        spans: whether tokens of one span see each other, also those after them.
        bounds: name of the ids that bound attention: tokens see those of the same id alone.

    Raises:
        ValueError: a field that has no effect beside the others, or a size below 1.
    """

    causal: bool = True
    window: int | None = None
    chunk: int | None = None
    spans: bool = False
    bounds: str = SEGMENT_IDS

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        for name in ("window", "chunk"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ValueError(f"{name} {size} is not a number of tokens; valid: at least 1")
        if not self.causal and self.window is not None:
            raise ValueError(
                f"window {self.window} is refused, as attention is not causal; valid: None"
            )
        if not self.causal and self.spans:
            raise ValueError("spans have no effect, as attention is not causal; valid: False")
        if self.chunk is not None and self.bounds != SEGMENT_IDS:
            raise ValueError(
                f"chunk {self.chunk} is refused beside bounds {self.bounds!r}, as chunks are parts "
                f"of segments; valid: {SEGMENT_IDS!r}"
            )

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the ids that the mask reads beside those of segments."""
        bounds = () if self.bounds == SEGMENT_IDS else (self.bounds,)
        return (*bounds, *((SPAN_IDS,) if self.spans else ()))

    def key_range(self, begin: int, end: int, tokens: int) -> range:
        """Places of a row of `tokens` outside which the queries from `begin` to `end` see nothing.

        Ids, which are known on the device alone, hide more.
        """
        if not self.causal:
            return range(tokens)
        first = 0 if self.window is None else max(0, begin - self.window + 1)
        if not self.spans:
            return range(first, end)
        return range(first, tokens if self.window is None else min(tokens, end + self.window - 1))


@dataclass(frozen=True)
class RotarySpec:
    """Rotary positions of queries and keys (RoFormer, arXiv 2104.09864).

    A head of width 8 has four frequencies, fast ones first. With the sections (2, 1, 1) of the axes
    t, h, w they turn by `t t h w`, and interleaved by `t h w t`.

    Attributes:
        theta: base of the frequencies.
        scaling: how low frequencies are slowed; None: not at all.
        fraction: share of a head's elements that are turned, the first ones.
        sections: number of frequencies of each axis of the positions; (): all are of one axis.
        interleaved: whether frequencies take the axes in turns (Qwen3-VL), and not one axis after
            the other (Qwen2-VL, arXiv 2409.12191).

    Raises:
        ValueError: `fraction` is not a share, or a section is empty.
    """

    theta: float
    scaling: RopeScaling | None = None
    fraction: float = 1.0
    sections: tuple[int, ...] = ()
    interleaved: bool = False

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction {self.fraction} is no share of a head; valid: above 0 to 1")
        if self.sections and min(self.sections) < 1:
            raise ValueError(f"sections {list(self.sections)} must all be at least 1")
        if self.interleaved and not self.sections:
            raise ValueError("interleaved has no effect without sections; valid: False")

    @property
    def axes(self) -> int:
        """Number of axes of the positions."""
        return max(1, len(self.sections))

    def width(self, head_dim: int) -> int:
        """Number of a head's elements that are turned.

        Raises:
            ValueError: it is no even number, or not twice that of the sections.
        """
        width = round(head_dim * self.fraction)
        if width % 2 or width != head_dim * self.fraction:
            raise ValueError(
                f"head_dim {head_dim} must be even for rotary positions, and so must the share "
                f"{self.fraction} of it that is turned"
            )
        if self.sections and 2 * sum(self.sections) != width:
            raise ValueError(
                f"sections {list(self.sections)} are {sum(self.sections)} frequencies; valid: "
                f"{width // 2} together, half of the {width} elements of a head that are turned"
            )
        return width

    def frequency_axes(self, head_dim: int) -> tuple[int, ...]:
        """The axis of each frequency.

        Raises:
            ValueError: as of `width`; or interleaved sections of which the first is not as long as
                each other one.
        """
        count = self.width(head_dim) // 2
        if not self.sections:
            return (0,) * count
        if not self.interleaved:
            return tuple(axis for axis, size in enumerate(self.sections) for _ in range(size))
        turns = [number % self.axes for number in range(count)]
        axes = tuple(
            axis if number // self.axes < self.sections[axis] else 0
            for number, axis in enumerate(turns)
        )
        if any(axes.count(axis) != size for axis, size in enumerate(self.sections)):
            raise ValueError(
                f"sections {list(self.sections)} cannot be interleaved; valid: none longer than "
                "the first"
            )
        return axes


@dataclass(frozen=True)
class LayerKind:
    """A kind of layer.

    Attributes:
        mask: mask of its attention.
        rotary: rotary positions of its attention; None: none.
        mlp: `dense`, or `experts` in place of an MLP.
    """

    mask: MaskKind
    rotary: RotarySpec | None = None
    mlp: Literal["dense", "experts"] = "dense"


def rotary_specs(kinds: Sequence[LayerKind]) -> tuple[RotarySpec, ...]:
    """The rotary positions of a period of layers, each once, in the order of the layers."""
    return tuple(dict.fromkeys(kind.rotary for kind in kinds if kind.rotary is not None))


def rotary_number(kinds: Sequence[LayerKind], kind: LayerKind) -> int | None:
    """The number of a layer's rotary positions among `rotary_specs`; None if it has none."""
    return None if kind.rotary is None else rotary_specs(kinds).index(kind.rotary)


def has_spans(kinds: Sequence[LayerKind]) -> bool:
    """Whether a mask of a period of layers has spans."""
    return any(kind.mask.spans for kind in kinds)


def mask_ids(kinds: Sequence[LayerKind]) -> tuple[str, ...]:
    """Names of the ids that a period of layers reads beside those of segments, each once."""
    return tuple(dict.fromkeys(name for kind in kinds for name in kind.mask.ids))
