"""The arrays of a microbatch: rows of every module, and what is merged and learnt where.

A row holds samples (of the text) or media (of a bucket) one after the other::

    of the text       inputs       [R, T] int32, tokens
                      index        [R, T] int32, place of a token in its sample
                      targets      {NEXT_TOKEN: labels [R, T], weights [R, T]}, and of other
                                   objectives {name: values [R, S, ...], weights [R, S]}
                      merges       {bucket: [R, T]}, which output is merged at which token
    of a bucket       inputs       [R, Te, F] float32, patches or frames
                      arrays       {name: [R, ...]}, further arrays of the kind of media
    both              segment_ids  [R, T or Te] int32, 0 = padding
                      positions    [R, T or Te, axes] int32

The types know neither numpy's nor JAX's arrays: the loader fills them with numpy arrays, and
`mllm_jax.models.module_rows` makes pytrees of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: An array of numpy, or of JAX, or what stands for one: a shape, a layout.
Array = Any

#: The objective of a language model: the next token of the answer.
NEXT_TOKEN = "next_token"


@dataclass(frozen=True)
class NextTokenTargets:
    """What the model is to say at every token.

    Attributes:
        labels: int32 `[rows, tokens]`, the next token of the sample.
        weights: float32 `[rows, tokens]`, weight of the label's loss; 0 where nothing is learnt.
    """

    labels: Array
    weights: Array


@dataclass(frozen=True)
class SampleTargets:
    """What an objective is to say of every sample; slot `s` of a row is for the segment `s + 1`.

    Attributes:
        weights: float32 `[rows, segments]`, weight of the sample's loss; 0 where there is none.
        values: `[rows, segments, ...]`, as the objective's `TargetSpec` makes them: int32 numbers
            of classes `[rows, segments]`, or float32 values of a regression
            `[rows, segments, values]`; None if the objective reads nothing of a sample but its
            outputs, as one of pairs.
    """

    weights: Array
    values: Array = None


#: What an objective is to say.
Targets = NextTokenTargets | SampleTargets


@dataclass(frozen=True)
class ModuleRows:
    """Rows of one module; arrays of several microbatches have one more dimension in front.

    Attributes:
        inputs: tokens, int32 `[rows, positions]`, or features of media, float32
            `[rows, positions, features]`.
        segment_ids: int32 `[rows, positions]`: number of the sample or medium in its row, from 1;
            0 for padding; negative after a medium, where only convolutions read.
        positions: int32 `[rows, positions, axes]`: what rotary and learned positions read.
        index: int32 `[rows, positions]`: place of a token in its sample, which masks and caches
            compare; None for encoders, whose masks have no order.
        merges: by bucket, int32 `[rows, positions]`: the output that is merged at a position, as
            `row * outputs of a row + number`, or -1.
        targets: what is learnt, by objective; nothing of encoders.
        arrays: further arrays by name, which `array` returns: of media as their kind lists them
            (`RowSpec.arrays`), of the text the ids that masks read (`TokenSpec.ids`).
    """

    inputs: Array
    segment_ids: Array
    positions: Array
    index: Array | None = None
    merges: Mapping[str, Array] = field(default_factory=dict)
    targets: Mapping[str, Targets] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """One of `arrays`. Raises KeyError with the names that there are."""
        if name not in self.arrays:
            raise KeyError(f"rows have no array {name}; valid: {', '.join(self.arrays) or 'none'}")
        return self.arrays[name]

    @property
    def next_token(self) -> NextTokenTargets:
        """What is learnt of the next token, in rows of a model that writes."""
        targets = self.targets[NEXT_TOKEN]
        assert isinstance(targets, NextTokenTargets)
        return targets


@dataclass(frozen=True)
class PackedBatch:
    """A microbatch on the host: the rows of each module that are here.

    Attributes:
        rows: by module: one entry for that which takes the text, and one for each bucket of each
            encoder.
        runs: by bucket, int64 `[runs, 5]`, of all rows of the microbatch: row and first output of a
            run, row and token of the text where it is merged, and number of outputs
            (`sharding.routes`); None where media are in the rows of their samples.
        places: by bucket, int64 `[media, 5]`, of all rows of the microbatch: row, first position
            and number of positions of a medium, number of its first segment, and number of
            segments; None where media are in the rows of their samples.
    """

    rows: Mapping[str, ModuleRows]
    runs: Mapping[str, Array] | None = None
    places: Mapping[str, Array] | None = None

    @property
    def text_name(self) -> str:
        """Name of the module that takes the text: its rows alone have an index."""
        return next(name for name, rows in self.rows.items() if rows.index is not None)

    @property
    def text_rows(self) -> ModuleRows:
        """The rows of the module that takes the text; their `merges` name the other buckets."""
        return self.rows[self.text_name]
