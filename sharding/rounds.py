"""How copies of tokens go to expert ranks on each platform, known without jax (`dispatch`)."""

from __future__ import annotations


def is_ragged(platform: str) -> bool:
    """Whether exchanges send copies alone, and no empty slots."""
    return platform != "cpu"


#: Columns that hold a float32 number, by bytes of an element: bfloat16 has a third of its digits.
NUMBER_COLUMNS = {4: 1, 2: 3}


def number_columns(size: int, ragged: bool) -> int:
    """Columns, of elements of `size` bytes, that move a float32 number beside a row.

    Accelerators have whole tiles of 128 columns.
    """
    columns = NUMBER_COLUMNS[size]
    return columns + -columns % 128 if ragged else columns


def parts_of_a_round(platform: str) -> int:
    """Parts of a round: accelerators run the exchange of one beside the products of the other."""
    return 2 if is_ragged(platform) else 1
