"""How copies of tokens go to expert ranks on each platform, known without jax (`dispatch`)."""

from __future__ import annotations


def is_ragged(platform: str) -> bool:
    """Whether exchanges send copies alone, and no empty slots."""
    return platform != "cpu"


def parts_of_a_round(platform: str) -> int:
    """Parts of a round: accelerators run the exchange of one beside the products of the other."""
    return 2 if is_ragged(platform) else 1
