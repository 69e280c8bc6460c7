"""A connector alone: a form of this framework, for models that have no released form as a whole."""

from __future__ import annotations

from typing import Any

from mllm_jax.models.config.model import ConnectorConfig
from mllm_jax.models.pretrained.family import Composition, Connector, Family, Values
from mllm_jax.models.pretrained.files import PretrainedError
from mllm_jax.models.pretrained.rules import Rule, connector_rules


def _read(values: Values) -> Composition:
    config = {key: values[key] for key in ConnectorConfig.model_fields}
    own = ConnectorConfig.model_validate(config)
    widths = values["inputs"], values["outputs"]
    if not all(isinstance(width, int) and width > 0 for width in widths):
        raise PretrainedError(f"inputs, outputs: {widths} are no widths; valid: numbers above 0")
    return Composition(connector=Connector(own, *widths))


def _rules(composition: Composition) -> dict[str, list[Rule]]:
    own = composition.connector
    assert own is not None
    names = ("fc1", "fc2") if own.config.kind == "mlp" else ("linear",)
    return {"connector": connector_rules(own.config, own.inputs, own.outputs, *names)}


def _write(composition: Composition) -> dict[str, Any]:
    own = composition.connector
    assert own is not None
    return {
        "model_type": CONNECTOR_ALONE.name,
        **own.config.model_dump(mode="json"),
        "inputs": own.inputs,
        "outputs": own.outputs,
    }


CONNECTOR_ALONE = Family("mllm_jax_connector", {"connector": Connector}, _read, _rules, _write)
