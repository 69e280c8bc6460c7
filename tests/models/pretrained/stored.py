"""Released checkpoints of `tests/parity` as models here, and what is expected of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mllm_jax.check.verify import relative_error
from mllm_jax.families.clip.config import ClipConfig
from mllm_jax.families.llama.config import LlamaConfig
from mllm_jax.families.releases import format_named
from mllm_jax.hf_format.configs import read_config
from mllm_jax.hf_format.files import StoredTensor, open_tensors
from mllm_jax.hf_format.release_format import ReleasedModel
from mllm_jax.hf_format.tensor_rules import TensorRule, check_tensors
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.pretrained.load import load_tensors
from mllm_jax.train.state.regroup import leaf_name
from sharding.grid import JointGrid, MeshView
from sharding.mesh import make_mesh, named_shardings
from sharding.plan import ParallelPlan
from sharding.rules import parameter_shardings

ROOT = Path(__file__).parents[2] / "parity"
LIMIT = 2e-5
#: Stands for a decoder that is not looked at.
NO_DECODER = LlamaConfig.model_validate(
    {"layers": 1, "d_model": 8, "heads": 1, "d_ff": 8, "vocab": 8}
)


def arrays(folder: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The stored inputs and outputs."""
    inputs, expected = (np.load(ROOT / folder / f"{name}.npz") for name in ("inputs", "expected"))
    return dict(inputs), dict(expected)


def composition(folder: str) -> ReleasedModel:
    """The composition that the configuration of a folder describes."""
    values = read_config(ROOT / folder)
    return format_named(values["model_type"]).read(values)


def tensors_of(folder: Path) -> tuple[dict[str, StoredTensor], dict[str, list[TensorRule]]]:
    """Checked tensors of a folder, and the rules of every module."""
    values = read_config(folder)
    family = format_named(values["model_type"])
    rules = dict(family.rules(family.read(values)))
    tensors = family.rename_tensors(open_tensors(folder))
    every = [rule for own in rules.values() for rule in own]
    check_tensors(tensors, every, family.unused_tensors(values, tensors))
    return tensors, rules


@cache
def imported(folder: str) -> tuple[ModelConfig, Any, dict[str, list[TensorRule]]]:
    """A folder's model, its parameters as numpy arrays, and the rules of every module."""
    return imported_from(ROOT / folder)


def imported_from(folder: Path) -> tuple[ModelConfig, Any, dict[str, list[TensorRule]]]:
    """The result of `imported` for any folder."""
    values = read_config(folder)
    found = format_named(values["model_type"]).read(values)
    config = ModelConfig(
        decoder=found.decoder or NO_DECODER,
        encoders=dict(found.encoders),
        edges=edges_of(found),
        dtype="float32",
        attention="reference",
        loss_chunk=8,
    )
    tensors, rules = tensors_of(folder)
    fresh = multimodal.init_parameters(config, jax.random.key(0))
    modules = {
        name: _loaded(config, name, tensors, rules[name], tree) if name in rules else tree
        for name, tree in fresh.items()
    }
    return config, modules, rules


def edges_of(found: ReleasedModel) -> Any:
    """The edges into the decoder that have the connectors of a release."""
    return [
        {"source": name, "target": "decoder", "connector": connector.model_dump()}
        for name, connector in found.connectors.items()
    ]


def _loaded(
    config: ModelConfig,
    module: str,
    tensors: dict[str, StoredTensor],
    rules: list[TensorRule],
    fresh: Any,
) -> Any:
    """Parameters of one module on one device; what no rule gives is as in `fresh`."""
    grid = JointGrid.build(dict.fromkeys(("decoder", *config.encoders), ParallelPlan()))
    shapes, axes = multimodal.abstract_parameters(config)
    specs = jax.tree.map(
        lambda leaf: leaf.spec, parameter_shardings(axes[module], grid.views[module])
    )
    target = jax.tree.map(
        lambda leaf, own: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=own),
        shapes[module],
        named_shardings(make_mesh(grid, jax.devices()[:1]), specs),
    )
    found = load_tensors(tensors, rules, by_name(target))
    return jax.device_get(
        jax.tree_util.tree_map_with_path(lambda path, leaf: found.get(leaf_name(path), leaf), fresh)
    )


def by_name(tree: Any) -> dict[str, Any]:
    """Leaves by their dotted paths."""
    return {leaf_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def written(rules: list[TensorRule], leaves: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters by their dotted paths as released tensors."""
    return {
        name: np.ascontiguousarray(rule.transform.to_released(own))
        for rule in rules
        for name, own in zip(
            rule.names, leaves[rule.parameter].reshape(-1, *rule.transform.shape), strict=True
        )
    }


def close(got: Any, expected: np.ndarray, where: str) -> None:
    """States that are of order one."""
    assert np.asarray(got).shape == expected.shape, where
    assert np.abs(np.asarray(got) - expected).max() < LIMIT, where


def check_gradients(
    got: dict[str, Any], expected: dict[str, np.ndarray], rules: dict[str, list[TensorRule]]
) -> None:
    """All gradients that are stored, by their released names; `got` is by module."""
    released: dict[str, np.ndarray] = {}
    for module, own in rules.items():
        leaves = {name: np.asarray(leaf) for name, leaf in by_name(got[module]).items()}
        # What no model trains has no gradient.
        released |= written([rule for rule in own if rule.parameter in leaves], leaves)
    wanted = {k.removeprefix("gradient."): v for k, v in expected.items() if k.startswith("grad")}
    assert len(wanted) > 1
    for name, gradient in wanted.items():
        assert relative_error(released[name], gradient) < LIMIT, name


def states(config: ModelConfig, name: str, params: Any, rows: ModuleRows) -> tuple[Any, Any]:
    """The input of an encoder's layers, and the output of its last norm."""
    encoder = multimodal.ShardedModule(config, name, MeshView())
    x = encoder.embed(params, rows)
    out, _ = encoder.run_layers(params["layers"], x, encoder.context(rows), "none")
    return x, encoder.apply_norm(params, out)


def image_rows(patches: np.ndarray, grids: np.ndarray, encoder: EncoderConfig) -> ModuleRows:
    """Images, each in a row of its own.

    Args:
        patches: `[images, patches, features]`, 0 after an image.
        grids: `[images, 2]` rows and columns.
        encoder: whose class token comes first if it is kept, else last.
    """
    images, budget, _ = patches.shape
    positions = np.zeros((images, budget, 2), np.int32)
    sizes, ids = np.zeros_like(positions), np.zeros((images, budget), np.int32)
    for row, (high, wide) in enumerate(grids.tolist()):
        here = row, slice(high * wide)
        positions[here] = np.moveaxis(np.indices((high, wide)), 0, -1).reshape(-1, 2)
        sizes[here], ids[here] = (high, wide), 1
    if isinstance(encoder, ClipConfig):
        before, after = (1, 0) if encoder.class_token == "kept" else (0, 1)
        around = ((0, 0), (before, after))
        ids = np.pad(ids, around, constant_values=1)
        patches, sizes = (np.pad(a, (*around, (0, 0))) for a in (patches, sizes))
        positions = np.pad(positions, (*around, (0, 0)), constant_values=-1)
    return ModuleRows(patches, ids, positions, arrays={"sizes": sizes})


def cut(pixels: np.ndarray, patch: int) -> tuple[np.ndarray, np.ndarray]:
    """Patches and grids of images `[images, channels, height, width]`; leftovers are cut off."""
    side = pixels.shape[2] // patch
    whole = pixels[:, :, : side * patch, : side * patch]
    images, channels = whole.shape[:2]
    tiles = whole.reshape(images, channels, side, patch, side, patch).transpose(0, 2, 4, 3, 5, 1)
    return tiles.reshape(images, side * side, -1), np.full((images, 2), side)
