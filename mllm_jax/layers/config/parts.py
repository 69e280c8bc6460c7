"""Typed configuration of the parts that modules share; see `mllm_jax.models.model_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from sharding.plan import divisors_of

#: Rows and columns, or height and width.
Size = tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]]


#: Metadata of a key whose sections have keys that stand in a table of keys already.
LISTED_ABOVE: dict[str, JsonValue] = {"listed": "above"}


class Section(BaseModel):
    """A part of a configuration: no other keys, and nothing that changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values of some fields, which are not checked.

        Raises:
            TypeError: there is no such field; pydantic by itself would add it.
        """
        if unknown := sorted({*(update or {})} - {*type(self).model_fields}):
            raise TypeError(
                f"{type(self).__name__} has no fields {', '.join(unknown)}; valid: "
                f"{', '.join(type(self).model_fields)}"
            )
        return super().model_copy(update=update, deep=deep)


@dataclass(frozen=True)
class ConfigChoice:
    """The choice of a section's class by one of its keys; it stands in the metadata of a type."""

    def valid_classes(self) -> Mapping[str, type[Section]]:
        """All classes that are valid, by the value of that key."""
        raise NotImplementedError

    def listed_classes(self) -> list[type[Section]]:
        """The classes whose keys the section may have."""
        return [*self.valid_classes().values()]


class RopeScaling(Section):
    """Llama 3.1's stretch of low rotary frequencies (Llama 3 report, section 3.4.1).

    Args:
        factor: factor by which low frequencies are slowed.
        low_freq_factor, high_freq_factor: wavelengths above `original_max_positions /
            low_freq_factor` are stretched, below `/ high_freq_factor` kept, between interpolated.
        original_max_positions: context length of pre-training.
    """

    factor: float = Field(8.0, ge=1)
    low_freq_factor: float = Field(1.0, gt=0)
    high_freq_factor: float = Field(4.0, gt=0)
    original_max_positions: int = Field(8192, gt=0)

    @model_validator(mode="after")
    def _check_order(self) -> RopeScaling:
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"high_freq_factor {self.high_freq_factor} must exceed low_freq_factor "
                f"{self.low_freq_factor}: the two bound the interpolated band"
            )
        return self


class TilesConfig(Section):
    """Images of any resolution, cut into tiles that are encoded separately.

    The encoder sees an image whole, and once more at the best of several resolutions, as in
    LLaVA-OneVision (arXiv 2408.03326, section 3.2). The decoder needs an extra token, which ends a
    row of outputs.

    Args:
        pixels: height and width of a tile.
        pinpoints: resolutions, heights and widths in pixels, whole multiples of a tile's.
        most: number of tiles whose outputs bound the outputs of an image, those of the whole image
            apart; a larger grid of outputs is scaled down.
    """

    pixels: Size
    pinpoints: Annotated[tuple[Size, ...], Field(min_length=1)]
    most: int = Field(9, gt=0)

    @model_validator(mode="after")
    def _check_sizes(self) -> TilesConfig:
        for pinpoint in self.pinpoints:
            if any(n % tile for n, tile in zip(pinpoint, self.pixels, strict=True)):
                raise ValueError(
                    f"tiles.pinpoints: {list(pinpoint)} is not a whole number of tiles of "
                    f"{list(self.pixels)} pixels"
                )
        return self


def default_head_dim(values: dict[str, Any]) -> dict[str, Any]:
    """Fill `head_dim` from `d_model / heads`.

    Raises:
        ValueError: the width does not divide into the heads.
    """
    width, heads = values.get("d_model"), values.get("heads")
    if values.get("head_dim") is not None:
        return values
    if not isinstance(width, int) or not isinstance(heads, int) or width < 1 or heads < 1:
        return values  # refused field by field
    if width % heads:
        raise ValueError(
            f"d_model {width} is not divisible by heads {heads}; choose heads from "
            f"{divisors_of(width)} or give head_dim"
        )
    return {**values, "head_dim": width // heads}
