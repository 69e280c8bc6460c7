"""The ladder of budgets: lengths of rows that a step of a fixed number of samples may have.

Programs are compiled for shapes, so a step takes, for each module independently, the lowest rung
that holds its samples: there are few programs, and little padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from data.config import DataConfig


@dataclass(frozen=True)
class Ladder:
    """Budgets of a row in positions, by resource (`tokens` and the buckets), ascending.

    The last ones are `data.budgets`; with `data.batch: tokens` they are the only ones.
    """

    rungs: Mapping[str, tuple[int, ...]]

    @classmethod
    def build(cls, config: DataConfig, units: Mapping[str, int]) -> Ladder:
        """The ladder of the shares `data.ladder` of the budgets, rounded up.

        Args:
            config: configuration of the data.
            units: by resource, the number of which a budget must be a multiple.
        """
        shares = config.ladder if config.batch == "samples" else (1.0,)
        return cls(
            {
                name: tuple(sorted({unit * ceil(s * config.budgets[name] / unit) for s in shares}))
                for name, unit in units.items()
            }
        )

    def lowest(self, resource: str, used: int) -> int:
        """The lowest rung that holds `used` positions of a row, or the top one."""
        rungs = self.rungs[resource]
        return next((rung for rung in rungs if rung >= used), rungs[-1])
