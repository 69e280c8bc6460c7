"""Which parameters decay: every leaf of every family has a role, and the documentation says so."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from mllm_jax.families.choice import DECODERS
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.roles import ROLES
from mllm_jax.layers.trainable import ADAPTERS, FIXED, LOAD
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.train.state.optimizer import has_decay
from mllm_jax.train.state.regroup import leaf_name
from sharding.axes import is_matrix
from tests.configs import ROOT
from tests.models import towers

EXPERTS = {"count": 4, "top_k": 2, "d_ff": 16}
SHARED = EXPERTS | {"shared_d_ff": 16, "shared_gate": True, "every": 2, "bias_rate": 0.1}
SIGMOID = EXPERTS | {"router": "sigmoid"}


def forms() -> dict[str, ModelConfig]:
    """A model of every family of decoders and of encoders, and of their other parts."""
    made = {}
    for name, config in DECODERS.valid_classes().items():
        assert issubclass(config, DecoderConfig)
        own: dict[str, Any] = {"experts": EXPERTS} if config.parts.experts else {}
        made[name] = towers.model(name, decoder_changes=own)
    for name in dict.fromkeys([*towers.ENCODERS, *towers.VARIANTS]):
        made[name] = towers.model("llama", name)
    own = {"layers": 4, "extra_tokens": 1, "experts": SHARED}
    mixture = towers.model("qwen2_moe", "siglip", decoder_changes=own)
    values = mixture.model_dump()
    values["encoders"]["media"] |= {"layers": 2, "deepstack": (1,)}
    mixture = ModelConfig.model_validate(values)
    made["mixture"] = mixture
    made["adapters"] = mixture.with_adapters(("decoder.layers.*", "media.layers.*"), 4, 2.0)
    return made


def leaves(model: ModelConfig) -> dict[str, tuple[tuple[Any, ...], Any, int]]:
    """By name the path of every leaf, its axes, and the dimensions of its stack."""
    _, axes = multimodal.abstract_parameters(model)
    found = jax.tree_util.tree_leaves_with_path(axes, is_leaf=lambda x: isinstance(x, tuple))
    return {
        leaf_name(path): (path, own, sum(name in ("chunks", "layers", "experts") for name in own))
        for path, own in found
    }


@pytest.mark.parametrize("form", forms())
def test_matrices_decay_and_vectors_do_not(form):
    """By what a leaf is at the start, of one layer and one expert: random, or all the same."""
    model = forms()[form]
    params = multimodal.init_parameters(model, jax.random.key(0))
    values = {leaf_name(p): x for p, x in jax.tree_util.tree_leaves_with_path(params)}
    for leaf, (path, axes, stack) in leaves(model).items():
        own, last = np.asarray(values[leaf]), path[-1].key
        matrix = own.ndim - stack > 1 and (own.std() > 0 or last == ADAPTERS[1])
        assert has_decay(path) == (matrix and last not in (FIXED, LOAD)), leaf
        assert has_decay(path) or not is_matrix(axes), leaf


def test_the_documentation_has_every_role():
    """A row for every name, with what updates it under each optimizer."""
    text = (ROOT / "docs/concepts/step.md").read_text()
    used: dict[str, set[bool]] = {}
    for model in forms().values():
        for path, axes, _ in leaves(model).values():
            used.setdefault(path[-1].key, set()).add(is_matrix(axes))
    assert used.keys() == ROLES.keys()
    for name, role in ROLES.items():
        trains = name not in (FIXED, LOAD)
        decay = "yes" if role.decays else "no"
        lamb = "-" if not trains else "LAMB" if role.decays else "AdamW"
        muon = {False: "AdamW", True: "Muon, or AdamW"}[True in used[name]] if trains else "-"
        assert f"| `{name}` | {role.meaning} | {decay} | {lamb} | {muon} |" in text, name


def test_a_name_without_a_role_is_refused():
    path = jax.tree_util.tree_leaves_with_path({"layers": {"weight": 0}})[0][0]
    with pytest.raises(ValueError, match="'weight' has no role in its update; valid: kernel, "):
        has_decay(path)
