"""Which parts of a model have no gradients, known without its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

#: Name of parameters that come with released weights and never train.
FIXED = "fixed"
#: Name of parameters that follow the load of experts, and have it in the place of a gradient.
LOAD = "load_bias"
#: Names of the parameters of adapters.
ADAPTERS = ("lora_a", "lora_b")


@dataclass(frozen=True)
class FrozenParts:
    """Frozen parts of the model.

    Attributes:
        names: parts of the model, as `ModelConfig.parts` calls them, of which nothing trains; an
            encoder is without its connector, the decoder without its extra tokens.
        adapted: parts of which adapters alone train.
        dtype: data type in which parameters of these parts that do not train are stored.
    """

    names: tuple[str, ...] = ()
    adapted: tuple[str, ...] = ()
    dtype: str = "float32"

    @classmethod
    def from_config(
        cls, freeze: Sequence[str], adapted: Sequence[str] = (), dtype: str | None = None
    ) -> Self:
        """Of a configuration.

        Args:
            freeze: parts that are named; adapters in them train.
            adapted: parts with adapters.
            dtype: None: bfloat16 with adapters, else float32.
        """
        names = tuple(name for name in freeze if name not in adapted)
        return cls(names, tuple(adapted), dtype or ("bfloat16" if adapted else "float32"))

    def trains(self, part: str) -> bool:
        """Whether all of a part trains."""
        return part not in self.names and part not in self.adapted

    def fully_trained(self, parts: Sequence[str]) -> list[str]:
        """Parts that train in full and have no place in PEFT's format; connectors have one."""
        return [part for part in parts if self.trains(part) and not part.endswith(".connector")]

    def is_trunk_frozen(self, module: str) -> bool:
        """Whether the module is frozen, an encoder but for its connector."""
        return module in self.names

    def is_connector_frozen(self, encoder: str) -> bool:
        """Whether the encoder's connector is frozen."""
        return f"{encoder}.connector" in self.names
