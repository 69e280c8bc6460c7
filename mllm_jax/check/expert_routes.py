"""The way of a few tokens through a layer with experts, as a picture.

::

    tokens -> copies by expert -> on the ranks of the experts -> results -> weighted sums
           router            exchange          grouped products     exchange
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.layers.experts.router import choose_experts
from mllm_jax.runtime.folder import RunError, prepare_folder
from mllm_jax.train.records.expert_history import find_experts

if TYPE_CHECKING:  # which routes need not
    from matplotlib.axes import Axes

#: Tokens of each rank in the picture.
TOKENS = 4
#: Copies of a picture at most: it is about 60 inches high then.
COPIES = 256
#: Heights of a square and of the gap between ranks, in rows of squares; inches of a row.
GAP, INCH = 1.6, 0.24
#: Places of the columns from left to right, and their titles.
COLUMNS = (0.0, 2.0, 5.0, 8.0, 10.0)
TITLES = ("tokens", "copies, sorted\nby expert", "on the experts' ranks", "results", "sums")
#: What happens between two columns.
STEPS = ("router", "exchange", "exchange", "weights")


class TokenCopy(NamedTuple):
    """A copy of a token: its expert, the rank and the number of the token there, and its weight."""

    expert: int
    rank: int
    token: int
    weight: float


@dataclass(frozen=True)
class ExpertRoutes:
    """The choices of the tokens of some ranks that share experts.

    Attributes:
        experts: experts of all ranks.
        choice: `[ranks, tokens, top_k]`, numbers of experts.
        weights: `[ranks, tokens, top_k]`, factors of their results.
    """

    experts: int
    choice: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def draw_random(cls, config: ExpertsConfig, ranks: int, seed: int) -> ExpertRoutes:
        """Choices of the configured router with random logits."""
        logits = np.random.default_rng(seed).normal(size=(ranks, TOKENS, config.count))
        choice, weights = choose_experts(jnp.asarray(logits, jnp.float32), config)
        return cls(config.count, np.asarray(choice), np.asarray(weights))

    @property
    def ranks(self) -> int:
        """Ranks that share the experts."""
        return len(self.choice)

    def rank_of(self, expert: int) -> int:
        """The rank that has an expert."""
        return expert * self.ranks // self.experts

    def copies_sent(self, rank: int) -> list[TokenCopy]:
        """Copies of the tokens of a rank, sorted by expert, then by token."""
        places = np.ndindex(self.choice[rank].shape)
        copies = [
            TokenCopy(int(self.choice[rank][at]), rank, at[0], float(self.weights[rank][at]))
            for at in places
        ]
        return sorted(copies)

    def arrived_copies(self, rank: int) -> list[TokenCopy]:
        """Copies that a rank computes, sorted by expert, then by the rank they come from."""
        sent = (copy for source in range(self.ranks) for copy in self.copies_sent(source))
        return sorted(copy for copy in sent if self.rank_of(copy.expert) == rank)


def draw_routes(config: ExperimentConfig) -> ExpertRoutes:
    """Those of the configured layers and ranks.

    Raises:
        RunError: the decoder has no experts, or its ranks make more copies than a picture has.
    """
    experts, plan = find_experts(config.model), config.plan_key(config.model.backbone)
    ranks = config.parallel.backbone_plan.expert
    most = max(COPIES // (TOKENS * experts.top_k), 1)
    if ranks > most:
        raise RunError(
            f"{plan}.expert: {ranks} ranks, each with {experts.top_k} copies of "
            f"{TOKENS} tokens, are too many for a picture of {COPIES} copies; valid: at most {most}"
        )
    return ExpertRoutes.draw_random(experts, ranks, config.train.seed)


def draw_picture(routes: ExpertRoutes, folder: Path) -> Path:
    """Write `routes.png`: the ranks below one another, the steps of a layer from left to right.

    Raises:
        RunError: `folder` cannot be written.
    """
    # The drawing library is loaded only where something is drawn.
    from matplotlib.figure import Figure

    prepare_folder(folder)
    tops = [0.0]
    for rank in range(routes.ranks):
        rows = max(len(routes.copies_sent(rank)), len(routes.arrived_copies(rank)))
        tops.append(tops[-1] + rows + GAP)
    figure = Figure(figsize=(10.0, INCH * (tops[-1] + 4)), dpi=120, layout="constrained")
    axes = figure.subplots()
    _RoutesDrawing(routes, tops, axes).draw()
    path = folder / "routes.png"
    figure.savefig(path)
    return path


@dataclass(frozen=True)
class _RoutesDrawing:
    """The squares of all columns and the lines between them; `tops` are those of the ranks."""

    routes: ExpertRoutes
    tops: Sequence[float]
    axes: Axes

    def draw(self) -> None:
        for rank in range(self.routes.ranks):
            self._draw_rank(rank)
        for copy, here, there in self._list_ways():
            color = f"C{copy.rank}"
            token = self._middle_height(copy.rank, copy.token, TOKENS)
            self._draw_line(0, token, here, color, 1.0)
            self._draw_line(1, here, there, color, 1.0)
            self._draw_line(2, there, here, color, 1.0)
            self._draw_line(3, here, token, color, 4.0 * copy.weight)
        self._draw_titles()

    def _list_ways(self) -> Iterator[tuple[TokenCopy, float, float]]:
        """Every copy with its height where it is sent from, and where it is computed."""
        for rank in range(self.routes.ranks):
            arrived = self.routes.arrived_copies(rank)
            for number, copy in enumerate(arrived):
                sent = self.routes.copies_sent(copy.rank)
                here = self._middle_height(copy.rank, sent.index(copy), len(sent))
                yield copy, here, self._middle_height(rank, number, len(arrived))

    def _draw_rank(self, rank: int) -> None:
        """Frame, name and squares of a rank."""
        top, bottom = self.tops[rank], self.tops[rank + 1] - GAP
        self.axes.axhspan(top - 0.4, bottom + 0.4, color="0.95", zorder=0)
        rank_experts = [n for n in range(self.routes.experts) if self.routes.rank_of(n) == rank]
        name = (
            f"rank {rank}\nexperts\n{rank_experts[0]} to {rank_experts[-1]}"
            if rank_experts[1:]
            else f"rank {rank}"
        )
        self.axes.text(-0.7, (top + bottom) / 2, name, ha="right", va="center", fontsize=8)
        for column in (0, 4):
            for token in range(TOKENS):
                self._draw_square(column, self._middle_height(rank, token, TOKENS), rank, "")
        sent = self.routes.copies_sent(rank)
        for number, copy in enumerate(sent):
            for column in (1, 3):
                self._draw_square(
                    column, self._middle_height(rank, number, len(sent)), rank, str(copy.expert)
                )
        self._draw_products(rank)

    def _draw_products(self, rank: int) -> None:
        """Copies on the rank of their experts, with a frame around those of each expert."""
        from matplotlib.patches import Rectangle

        arrived = self.routes.arrived_copies(rank)
        heights = [
            self._middle_height(rank, number, len(arrived)) for number in range(len(arrived))
        ]
        for copy, height in zip(arrived, heights, strict=True):
            self._draw_square(2, height, copy.rank, str(copy.expert))
        for expert in {copy.expert for copy in arrived}:
            expert_heights = [
                y for copy, y in zip(arrived, heights, strict=True) if copy.expert == expert
            ]
            corner = COLUMNS[2] - 0.5, expert_heights[0] - 0.5
            frame = Rectangle(
                corner,
                1.0,
                expert_heights[-1] - expert_heights[0] + 1,
                fill=False,
                color="0.2",
                zorder=3,
            )
            self.axes.add_patch(frame)

    def _middle_height(self, rank: int, number: int, count: int) -> float:
        """Height of the square `number` of `count` in the middle of a rank."""
        top, bottom = self.tops[rank], self.tops[rank + 1] - GAP
        return (top + bottom - count) / 2 + number + 0.5

    def _draw_square(self, column: int, height: float, rank: int, text: str) -> None:
        from matplotlib.patches import Rectangle

        corner, color = (COLUMNS[column] - 0.3, height - 0.38), f"C{rank}"
        self.axes.add_patch(Rectangle(corner, 0.6, 0.76, color=color, zorder=2))
        place = COLUMNS[column], height, text
        self.axes.text(*place, color="white", fontsize=7, ha="center", va="center", zorder=4)

    def _draw_line(self, column: int, begin: float, end: float, color: str, width: float) -> None:
        x = COLUMNS[column] + 0.5, COLUMNS[column + 1] - 0.5
        self.axes.plot(x, (begin, end), color=color, linewidth=width, alpha=0.6, zorder=1)

    def _draw_titles(self) -> None:
        for x, title in zip(COLUMNS, TITLES, strict=True):
            self.axes.text(x, -1.0, title, ha="center", va="bottom", fontsize=8)
        middles = np.add(COLUMNS[1:], COLUMNS[:-1]) / 2
        for x, step in zip(middles, STEPS, strict=True):
            self.axes.text(x, -0.7, step, ha="center", va="bottom", fontsize=8, style="italic")
        below = self.tops[-1] - 0.4
        product = "a frame: rows of one expert\nin the grouped product"
        self.axes.text(COLUMNS[2], below, product, ha="center", va="top", fontsize=8)
        legend = "colors: ranks of the tokens\nnumbers: experts of the copies"
        self.axes.text(COLUMNS[0], below, legend, ha="center", va="top", fontsize=8)
        self.axes.set(xlim=(-2.2, COLUMNS[-1] + 0.7), ylim=(below + 2, -3))
        self.axes.axis("off")
