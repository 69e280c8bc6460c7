"""Roles of parameters in their update, by the last part of their names.

A role says what a parameter is, whatever the logical axes of its dimensions are called and however
many layers or experts are stacked in it: a bias of a stack of layers has two dimensions and is a
vector of every layer, and a convolution without an axis of the model width is a matrix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mllm_jax.layers.trainable import ADAPTERS, FIXED, LOAD


@dataclass(frozen=True)
class ParameterRole:
    """The role of parameters of one name.

    Attributes:
        meaning: what they are, for the documentation.
        decays: whether weight decay applies to them, and LAMB's trust ratio.
    """

    meaning: str
    decays: bool


#: Tables decay as matrices do, and class tokens as vectors do not: the rule by dimensions of
#: nanoGPT and OpenCLIP, for one layer.
ROLES: Mapping[str, ParameterRole] = MappingProxyType(
    {
        "kernel": ParameterRole(
            "matrix or convolution of a linear layer, a router or experts", True
        ),
        **dict.fromkeys(ADAPTERS, ParameterRole("matrix of an adapter", True)),
        "embedding": ParameterRole("table of tokens, or of a decoder's learned positions", True),
        "position_embedding": ParameterRole("table of an encoder's learned positions", True),
        "class_embedding": ParameterRole("vector of a class token", False),
        "scale": ParameterRole("scale of a norm", False),
        "bias": ParameterRole("bias of a linear layer, a convolution or a norm", False),
        LOAD: ParameterRole("bias of a router, which follows the load of its experts", False),
        FIXED: ParameterRole("table of positions that never trains", False),
    }
)


def find_role(name: str) -> ParameterRole:
    """The role of parameters whose names end in `name`.

    Raises:
        ValueError: there is no such role; the message lists the valid names.
    """
    if name not in ROLES:
        raise ValueError(
            f"a parameter called {name!r} has no role in its update; valid: {', '.join(ROLES)}, or "
            "a further entry of ROLES in mllm_jax/layers/roles.py"
        )
    return ROLES[name]
