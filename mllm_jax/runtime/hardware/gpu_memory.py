"""The share of a GPU's memory that JAX reserves, as plans assume, unless the user sets another.

JAX by itself takes three quarters, and a step that `plan` finds room for would not fit. JAX reads
the share when it looks for devices.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping

from mllm_jax.config.sections import ConfigError
from scheduling.costs.hardware import GPU_SHARE

logger = logging.getLogger(__name__)

#: Variables that tell JAX the share; it refuses both together.
VARIABLES = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"

#: Variable of the process of a slice, whose share is meant so: the number of its slice.
SLICE = "MLLM_JAX_SLICE"


def user_share(environment: Mapping[str, str]) -> tuple[str, float] | None:
    """The variable by which the user sets the share, and its value; None if the user does not.

    Raises:
        ConfigError: the value is no share, or both variables are set.
    """
    variables = {name: environment[name] for name in VARIABLES if environment.get(name)}
    if not variables:
        return None
    if len(variables) > 1:
        raise ConfigError("environment", [f"{' and '.join(variables)} are both set; valid: one"])
    ((name, text),) = variables.items()
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        message = f"{name}={text:.40} is no share of a GPU's memory; valid: above 0, up to 1"
        raise ConfigError("environment", [message])
    return name, share


def set_share(environment: MutableMapping[str, str], level: int = logging.INFO) -> None:
    """Have JAX take as much of each GPU as plans count with; a share that the user sets stays.

    Args:
        level: of the line that tells the share.

    Raises:
        ConfigError: as of `user_share`.
    """
    user_setting = user_share(environment)
    if user_setting is None:
        environment[VARIABLES[0]] = f"{GPU_SHARE:g}"
        logger.log(
            level,
            "JAX may take %g of each GPU's memory, as plans count; %s sets another share",
            *(GPU_SHARE, VARIABLES[0]),
        )
    elif user_setting[1] < GPU_SHARE and SLICE not in environment:
        logger.warning(
            "%s lets JAX take %g of each GPU's memory, and `plan` counts %g unless it is set there",
            *(*user_setting, GPU_SHARE),
        )
