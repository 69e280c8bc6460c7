"""Checks that a saved state belongs to the present model."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import jax

from mllm_jax.layers.config.linear import VOCABULARY_HEAD
from mllm_jax.layers.trainable import ADAPTERS
from mllm_jax.models.graph import learns_to_write
from mllm_jax.models.short_form import backbone_of, module_values
from mllm_jax.train.state.regroup import LayerRegrouping, Shape, leaf_name
from mllm_jax.train.state.saved import CheckpointError

#: Leaves that a message lists.
_SHOWN = 8
#: In the names of all leaves of the head of the vocabulary.
_HEAD = f".{VOCABULARY_HEAD}."
#: Prefix of the names of the optimizer's leaves.
_OPTIMIZER = "optimizer."


def check_same_model(
    where: str,
    stored: Mapping[str, Shape],
    target: Any,
    regrouping: LayerRegrouping,
    config: Mapping[str, Any],
) -> None:
    """Compare the vocabulary, names and shapes of saved leaves with those of `target`.

    Args:
        where: what is compared, for messages.
        stored: shapes of the saved leaves by name.
        target: tree of `jax.ShapeDtypeStruct`.
        regrouping: grouping and padding under the running plan.
        config: JSON of the configuration that has saved.

    Raises:
        CheckpointError: they differ; the message lists the leaves.
    """
    expected = {
        leaf_name(path): tuple(leaf.shape)
        for path, leaf in jax.tree_util.tree_leaves_with_path(target)
    }
    _check_head(where, stored.keys() - expected.keys(), config)
    lines = [f"{n}: missing in the checkpoint" for n in sorted(expected.keys() - stored.keys())]
    lines += [f"{n}: not in the model" for n in sorted(stored.keys() - expected.keys())]
    lines += [
        f"{n}: shape {stored[n]} in the checkpoint, {expected[n]} in the model"
        for n in sorted(stored.keys() & expected.keys())
        if not regrouping.can_become(n, stored[n], expected[n])
    ]
    vocab = _vocab_size(config)
    if vocab not in (None, regrouping.vocab):
        current_vocab = regrouping.vocab
        lines.append(f"vocabulary: {vocab} entries in the checkpoint, {current_vocab} in the model")
    ranks = {
        (stored[n][-1], expected[n][-1])
        for n in stored.keys() & expected.keys()
        if n.endswith(ADAPTERS[0]) and stored[n][-1:] != expected[n][-1:]
    }
    lines[:0] = [f"train.lora.rank: {a} in the checkpoint, {b} here" for a, b in sorted(ranks)]
    if lines:
        more = f"\n  and {len(lines) - _SHOWN} more" * (len(lines) > _SHOWN)
        shown = "\n  ".join(lines[:_SHOWN]) + more
        if all(line.startswith(_OPTIMIZER) for line in lines):
            raise CheckpointError(
                f"{where} has this model's parameters with the state of another optimizer, or of "
                f"one that another version has grouped otherwise:\n  {shown}\n"
                "use its own configuration and version, or begin another run.name with its weights "
                "(launch.py export, model.pretrained)"
            )
        raise CheckpointError(
            f"{where} belongs to another model:\n  {shown}\n"
            "use its own configuration, or another run.name"
        )


def _check_head(where: str, more: AbstractSet[str], config: Mapping[str, Any]) -> None:
    """Raise CheckpointError for the head of a model without next_token, which once had one."""
    objectives = config.get("model", {}).get("objectives", {})
    if any(_HEAD in name for name in more) and not learns_to_write(objectives):
        raise CheckpointError(
            f"{where} has a head of the vocabulary, which models without next_token had in older "
            "versions; begin another run.name with its weights (launch.py export, "
            "model.pretrained)"
        )


def _vocab_size(config: Mapping[str, Any]) -> int | None:
    """Size of the vocabulary, which shapes have padded; None in the configuration of no model."""
    model = config.get("model", {})
    backbone = backbone_of(model)
    vocab: int | None = module_values(model, backbone).get(backbone, {}).get("vocab")
    return vocab
