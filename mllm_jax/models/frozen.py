"""Which parts of a model have no gradients, known without its parameters."""

from __future__ import annotations

from dataclasses import dataclass

#: Name of parameters that come with released weights and never train.
FIXED = "fixed"
#: Name of parameters that follow the load of experts, and have it in the place of a gradient.
LOAD = "load_bias"


@dataclass(frozen=True)
class FrozenParts:
    """Frozen parts of the model.

    Attributes:
        names: parts of the model, as `ModelConfig.parts` calls them; an encoder is without its
            connector, the decoder without its extra tokens.
    """

    names: tuple[str, ...] = ()

    def trunk(self, tower: str) -> bool:
        """Whether the tower is frozen, an encoder but for its connector."""
        return tower in self.names

    def connector(self, encoder: str) -> bool:
        """Whether the encoder's connector is frozen."""
        return f"{encoder}.connector" in self.names
