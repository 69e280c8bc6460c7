"""Connectors: where their parameters come from, and a form of this framework of one alone.

That form is for models that have no released form as a whole.
"""

from __future__ import annotations

from typing import Any

from mllm_jax.hf_format.family import Composition, Connector, Family, Values
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.rules import Rule, linear
from mllm_jax.layers.config.encoder import ConnectorConfig


def connector_rules(
    own: ConnectorConfig, inputs: int, d_decoder: int, *released: str
) -> list[Rule]:
    """Rules of a connector.

    Args:
        inputs: input width of its first layer.
        d_decoder: width of the decoder.
        released: names of its linear layers, one or two of them.
    """
    layers, widths = ["linear"], [inputs, d_decoder]
    if own.kind == "mlp":
        layers, widths = ["fc1", "fc2"], [inputs, own.hidden or d_decoder, d_decoder]
    rules: list[Rule] = []
    for layer, name, wide, out in zip(layers, released, widths[:-1], widths[1:], strict=True):
        rules += linear(f"connector.{layer}", name, (wide,), (out,), bias=own.bias)
    return rules


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
