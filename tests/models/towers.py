"""Small models of every family and packed batches for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mllm_jax.families import choice
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import AudioEncoderConfig, ImageEncoderConfig
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import NEXT_TOKEN, ModuleRows, NextTokenTargets
from sharding.grid import MeshView
from sharding.layerstack.spec import Aux

#: Families without experts, which have tests of their own.
DECODERS = tuple(
    name
    for name, config in choice.DECODERS.valid_classes().items()
    if issubclass(config, DecoderConfig) and not config.parts.experts
)
#: Configuration class of every encoder family that a configuration may name.
CONFIGS = choice.ENCODERS.valid_classes()
ENCODERS = tuple(CONFIGS)
#: Other forms of the same families.
VARIANTS = ("siglip linear", "clip kept", "whisper average")
VOCAB = 64

_WIDTHS: dict[str, Any] = {"layers": 1, "d_model": 32, "heads": 4, "d_ff": 48}
_IMAGE = {**_WIDTHS, "patch": (4, 4), "channels": 1, "grid": (3, 4), "connector": {"stack": (1, 2)}}
_AUDIO = {**_WIDTHS, "mels": 6, "connector": {"stack": 2, "hidden": 40}}
#: Values of an encoder by the media that its family reads, and of other forms of a family.
_KINDS = ((ImageEncoderConfig, _IMAGE), (AudioEncoderConfig, _AUDIO))
_VARIANTS: dict[str, dict[str, Any]] = {
    "siglip linear": {**_IMAGE, "antialias": True, "connector": {"kind": "linear"}},
    "clip kept": {
        **_IMAGE,
        "class_token": "kept",
        "activation": "gelu",
        "connector": {"activation": "gelu", "bias": False},
    },
    "whisper average": {
        **_AUDIO,
        "max_positions": 16,
        "lookahead": 2,
        "connector": {"kind": "average", "stack": 2},
    },
}


def model(decoder: str = "llama", encoder: str | None = None, **changes: Any) -> ModelConfig:
    """A model of about ten thousand parameters; the encoder is called `media`."""
    own = {"family": decoder, "kv_heads": 4 if decoder == "gpt" else 2, "vocab": VOCAB}
    encoders = {}
    if encoder is not None:
        encoders = {"media": {"family": encoder.split()[0], **_encoder(encoder)}}
    values = {"decoder": {**_WIDTHS, **own, "max_positions": 64}, "encoders": encoders}
    values["decoder"].update(changes.pop("decoder_changes", {}))
    return ModelConfig.model_validate({**values, "dtype": "float32", "loss_chunk": 24, **changes})


def _encoder(name: str) -> dict[str, Any]:
    """The values of a family, or of one of its `VARIANTS`."""
    if name in _VARIANTS:
        return _VARIANTS[name]
    return next(values for kind, values in _KINDS if issubclass(CONFIGS[name], kind))


def parameters(config: ModelConfig, seed: int = 0) -> Any:
    """Random parameters; biases and scales are off their trivial values, too."""
    rng = np.random.default_rng(seed)

    def leaf(path: Any, x: jax.ShapeDtypeStruct) -> np.ndarray:
        centre = 1.0 if path[-1].key == "scale" else 0.0
        return (centre + 0.2 * rng.normal(size=x.shape)).astype(x.dtype)

    return jax.tree_util.tree_map_with_path(leaf, multimodal.abstract_parameters(config)[0])


@dataclass(frozen=True)
class Rows:
    """Segments laid out in rows.

    Attributes:
        ids, index: `[rows, budget]` int32.
        spans: `(row, start, length)` of every segment, in the order given.
    """

    ids: np.ndarray
    index: np.ndarray
    spans: tuple[tuple[int, int, int], ...]


def lay(rows: Sequence[Sequence[int]], budget: int, unit: int = 1) -> Rows:
    """Put segments of the given lengths one after the other, each starting at a multiple of `unit`.

    `lay([[3, 2]], 8, unit=2)` has segment ids `1 1 1 0 2 2 0 0`.
    """
    ids = np.zeros((len(rows), budget), np.int32)
    index = np.zeros_like(ids)
    spans = []
    for row, lengths in enumerate(rows):
        start = 0
        for number, length in enumerate(lengths, 1):
            ids[row, start : start + length] = number
            index[row, start : start + length] = np.arange(length)
            spans.append((row, start, length))
            start += -(-length // unit) * unit
        assert start <= budget, "the test's segments do not fit its budget"
    return Rows(ids, index, tuple(spans))


def text_rows(rows: Rows, texts: Sequence[np.ndarray]) -> ModuleRows:
    """Decoder rows with tokens `texts`; each token's label is the next, the last has none."""
    tokens, labels = np.zeros_like(rows.ids), np.zeros_like(rows.ids)
    weights = np.zeros(rows.ids.shape, np.float32)
    for (row, start, length), text in zip(rows.spans, texts, strict=True):
        tokens[row, start : start + length] = text
        labels[row, start : start + length - 1] = text[1:]
        weights[row, start : start + length - 1] = 1.0
    targets = {NEXT_TOKEN: NextTokenTargets(labels, weights)}
    return ModuleRows(tokens, rows.ids, rows.index[..., None], rows.index, targets=targets)


def media_rows(
    config: ModelConfig, rows: Rows, media: Sequence[np.ndarray], columns: Sequence[int]
) -> ModuleRows:
    """Encoder rows; `media[i]` is `[length, features]`, `columns[i]` the width of image i.

    Of an encoder with class tokens, the first (kept) or last position of every image is that; of
    one that reads on after clips, the last positions of every clip are after it.
    """
    settings = config.encoders["media"]
    ids, tail = rows.ids.copy(), getattr(settings, "lookahead", 0)
    inputs = np.zeros((*rows.ids.shape, settings.features), np.float32)
    positions = np.zeros((*rows.ids.shape, 2), np.int32)
    sizes = np.zeros_like(positions)
    for (row, start, length), medium, width in zip(rows.spans, media, columns, strict=True):
        here = (row, slice(start, start + length))
        inputs[here] = medium
        ids[row, max(start + 1, start + length - tail) : start + length] *= -1
        kept, patches = _class_tokens(settings), length - (settings.family == "clip")
        grid = np.stack(np.divmod(np.arange(patches), width), axis=-1)
        positions[here] = np.pad(grid, (kept, (0, 0)), constant_values=-1)
        sizes[here] = (-(-patches // width), width)
    if settings.media_kind == "audio":
        return ModuleRows(inputs, ids, rows.index[..., None])
    return ModuleRows(inputs, ids, positions, arrays={"sizes": sizes})


def _class_tokens(settings: Any) -> tuple[int, int]:
    """Before the patches, and after them."""
    if settings.family != "clip":
        return 0, 0
    return (1, 0) if settings.class_token == "kept" else (0, 1)


def texts(lengths: Sequence[int], seed: int = 0) -> list[np.ndarray]:
    """Random token strings."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, VOCAB, n).astype(np.int32) for n in lengths]


def signals(lengths: Sequence[int], features: int, seed: int = 0) -> list[np.ndarray]:
    """Random patches or frames."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, features)).astype(np.float32) for n in lengths]


def quick(function: Any) -> Any:
    """`jax.jit` that compiles in half of the time, for tests that run a program once."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def worst_error(expected: Any, actual: Any) -> tuple[float, str]:
    """Largest deviation of a leaf, relative to its own largest entry.

    A leaf counts as at least a hundredth of the largest leaf: some gradients are zero in exact
    arithmetic, for example of a bias on k, which shifts all scores of a query alike.
    """
    floor = 1e-2 * max(float(np.abs(x).max()) for x in jax.tree.leaves(expected))

    def error(path: Any, a: Any, b: Any) -> tuple[float, str]:
        a, b = np.asarray(a), np.asarray(b)
        return float(np.abs(a - b).max() / max(np.abs(a).max(), floor)), jax.tree_util.keystr(path)

    errors = jax.tree_util.tree_map_with_path(error, expected, actual)
    return max(jax.tree.leaves(errors, is_leaf=lambda leaf: isinstance(leaf, tuple)))


def encode(
    params: Any, name: str, rows: ModuleRows, config: ModelConfig, view: MeshView
) -> jax.Array:
    """Outputs of an encoder, with its connector, for local rows."""
    return multimodal.ShardedModule(config, name, view).forward(params, rows)[0]


def decode_hidden(
    params: Any, rows: ModuleRows, media: jax.Array | None, config: ModelConfig, view: MeshView
) -> tuple[jax.Array, Aux]:
    """Outputs of the decoder's last norm for local rows, and shares of its auxiliary losses."""
    return multimodal.ShardedModule(config, config.backbone, view).forward(params, rows, media)


def loss(
    params: Any, hidden: jax.Array, rows: ModuleRows, config: ModelConfig, view: MeshView
) -> Any:
    """Sum of the losses of next tokens on this rank, of outputs of the decoder."""
    outputs = multimodal.token_outputs(params, hidden, config, view)
    objective = multimodal.load_objective(config, NEXT_TOKEN)
    return objective.loss({}, {config.backbone: outputs}, rows.targets[NEXT_TOKEN], view)
