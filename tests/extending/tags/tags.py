"""Several tags of a sample, each of which it has or has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from data.batch import SampleTargets
from data.sample import ConversationError, Sample
from mllm_jax.models.objectives.config import ObjectiveConfig, ObjectiveKind


class TagsConfig(ObjectiveConfig):
    """Keys of the objective: the number of tags."""

    kind: Literal["tags:KIND"]
    count: int = Field(ge=1)

    @property
    def width(self) -> int:
        """A logit for each tag."""
        return self.count

    @property
    def spec_options(self) -> Mapping[str, int]:
        """Arguments of `TagsSpec`."""
        return {"count": self.count}


@dataclass(frozen=True)
class TagsSpec:
    """The numbers of a sample's tags: `{"labels": {"<name>": [0, 3]}}`."""

    name: str
    count: int

    def check(self, sample: Sample) -> None:
        """Check that the sample lists tags, or none, and that there are such tags."""
        tags = sample.labels.get(self.name)
        if not isinstance(tags, list) or not all(tag in range(self.count) for tag in tags):
            raise ConversationError(
                f"labels.{self.name}: {tags} is refused; valid: a list of 0 to {self.count - 1}"
            )

    def make(self, sample: Sample) -> NDArray[np.float32]:
        """One for each tag of the sample, zero for the others, `[count]`."""
        return np.isin(np.arange(self.count), sample.labels[self.name]).astype(np.float32)

    def sketch(self, rng: np.random.Generator) -> Any:
        """A random value, for `launch.py verify`."""
        return rng.integers(2, size=self.count)

    def empty(self, rows: int, tokens: int, segments: int) -> SampleTargets:
        """Targets of rows without samples."""
        weights = np.zeros((rows, segments), np.float32)
        return SampleTargets(weights, np.zeros((rows, segments, self.count), np.float32))


KIND = ObjectiveKind(TagsConfig, loss="tags_loss:TagsLoss", targets="tags:TagsSpec")
