"""The parts of a model that are exported by themselves, by name."""

from __future__ import annotations

from collections.abc import Iterable

#: Ending of the name of a connector.
CONNECTOR = ".connector"
#: Why there are no adapters.
NO_ADAPTERS = (
    "train.lora: null, so the run has no adapters; export all of its weights, without --adapters"
)


def list_parts(backbone: str, others: Iterable[str]) -> list[str]:
    """The parts of a model with such modules."""
    names = [*others]
    return [backbone, *names, *(f"{name}{CONNECTOR}" for name in names)]
