"""Images and captions that the loader balances over 4 devices learn as transformers' CLIP does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from safetensors.numpy import load_file

from data.loading.loader import Microbatch
from data.sources.make import make_source
from mllm_jax.check.verify import relative_error
from mllm_jax.train.loading.loader import open_single_loader
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step
from mllm_jax.train.step.step import TrainStep
from tests.configs import ROOT
from tests.models.pretrained import pairs

FOLDER = ROOT / "tests" / "parity" / "pairs"
#: Names in the released model, by our names without modules.
LAYER = {
    "input_layernorm": "layer_norm1",
    "post_attention_layernorm": "layer_norm2",
    "self_attn.o_proj": "self_attn.out_proj",
}
TEXT = {
    "embed_tokens.embedding": "embeddings.token_embedding.weight",
    "embed_positions.embedding": "embeddings.position_embedding.weight",
    "norm": "final_layer_norm",
}
IMAGE = {
    "embeddings.position_embedding": "embeddings.position_embedding.weight",
    "embeddings.pre_layrnorm": "pre_layrnorm",
    "head_pairs.norm": "post_layernorm",
}
OTHERS = {
    "decoder.head_pairs.linear.kernel": "text_projection.weight",
    "image.head_pairs.linear.kernel": "visual_projection.weight",
    "decoder.objective_pairs.scale": "logit_scale",
}


def released_name(name: str) -> str:
    """The released name of a parameter, with `{}` for the number of a layer."""
    if name in OTHERS:
        return OTHERS[name]
    module, _, own = name.partition(".")
    tower, names = ("text_model", TEXT) if module == "decoder" else ("vision_model", IMAGE)
    for ours, theirs in names.items():
        own = own.replace(ours, theirs) if own.startswith(ours) else own
    if own.startswith("layers."):
        own = own.replace("layers.", "encoder.layers.{}.")
        for ours, theirs in LAYER.items():
            own = own.replace(ours, theirs)
    ends = {"kernel": "weight", "scale": "weight"}
    head, _, last = own.rpartition(".")
    return f"{tower}.{head}.{ends.get(last, last)}"


def of_shape(values: np.ndarray, shape: tuple[int, ...], is_kernel: bool) -> np.ndarray:
    """Released values of one layer as a parameter of this shape has them."""
    if values.ndim == 4:  # patches: outputs, channels, rows, columns
        values = values.transpose(2, 3, 1, 0)
    elif is_kernel:
        values = values.T
    return values.reshape(shape)


def own_form(released: dict[str, np.ndarray], shapes: Any) -> Any:
    """Released weights, or their gradients, as a tree like the parameters."""

    def leaf(path: tuple[Any, ...], own: Any) -> np.ndarray:
        name = leaf_name(path)
        where, is_kernel = released_name(name), name.endswith("kernel")
        if "{}" not in where:
            return of_shape(released[where], own.shape, is_kernel)
        layers = [released[where.format(n)] for n in range(own.shape[0])]
        return np.stack([of_shape(x, own.shape[1:], is_kernel) for x in layers])

    return jax.tree_util.tree_map_with_path(leaf, shapes)


def placed(values: Any, step: TrainStep) -> Any:
    """Parameters on the devices."""
    layout = jax.tree.map(lambda spec: NamedSharding(step.mesh, spec), step.form.specs)
    return jax.device_put(values, layout)


def test_a_step_learns_as_the_public_implementation(tmp_path: Path) -> None:
    config = pairs.experiment(tmp_path)
    step, make = build_gradient_step(config), pairs.processor(config)
    shapes = step.abstract_state["params"]
    weights = load_file(FOLDER / "model.safetensors")
    with np.load(FOLDER / "expected.npz") as stored:
        expected = {name: stored[name] for name in stored.files if name != "versions"}
    with open_single_loader(config, make_source(config.data, "train"), make) as loader:
        microbatches = [next(loader) for _ in range(config.train.accumulate)]
    assert [own.stats.samples for own in microbatches] == [pairs.SAMPLES // 2] * 2
    assert any(map(_is_moved, microbatches)), "every image lies in the row of its text"
    batch = place_microbatches([own.batch for own in microbatches], step)
    gradients, loss = step.gradients(placed(own_form(weights, shapes), step), batch)
    assert relative_error(np.asarray(loss), expected["loss"]) < 1e-6
    own = {name.removeprefix("gradient."): value for name, value in expected.items()}
    errors = jax.tree_util.tree_map_with_path(error_of, gradients, own_form(own, shapes))
    assert max(jax.tree.leaves(errors)) < 1e-5, errors


def error_of(path: tuple[Any, ...], ours: Any, theirs: np.ndarray) -> float:
    """The relative error of a gradient; that of biases of keys is zero but for rounding."""
    if leaf_name(path).endswith("k_proj.bias"):
        return float(np.abs(np.asarray(ours) - theirs).max())
    return relative_error(np.asarray(ours), theirs)


def _is_moved(microbatch: Microbatch) -> bool:
    """Whether an image lies in another row than its text."""
    merges = microbatch.batch.text_rows.merges["image"]
    outputs = microbatch.batch.rows["image"].segment_ids.shape[1]
    rows, _ = np.nonzero(merges >= 0)
    return bool(np.any(rows != merges[merges >= 0] // outputs))
