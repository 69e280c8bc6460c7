"""Rules of connectors, and this framework's format of a connector alone.

That format is for models whose modules have no released format together.
"""

from __future__ import annotations

from typing import Any

from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.hf_format.release_format import (
    ReleasedConnector,
    ReleasedModel,
    ReleaseFormat,
    Values,
)
from mllm_jax.hf_format.tensor_rules import TensorRule, linear_rules
from mllm_jax.layers.config.connector import ConnectorConfig


def connector_rules(
    config: ConnectorConfig, width: int, d_decoder: int, *released: str
) -> list[TensorRule]:
    """Rules of a connector.

    Args:
        width: width of the encoder.
        d_decoder: width of the decoder.
        released: names of its linear layers, one or two of them.
    """
    return _layer_rules(config, config.input_width(width), d_decoder, *released)


def _layer_rules(
    config: ConnectorConfig, inputs: int, d_decoder: int, *released: str
) -> list[TensorRule]:
    """The same by the input width of the first layer."""
    layers, widths = ["linear"], [inputs, d_decoder]
    if config.kind == "mlp":
        layers, widths = ["fc1", "fc2"], [inputs, config.hidden or d_decoder, d_decoder]
    rules: list[TensorRule] = []
    for layer, name, width, outputs in zip(layers, released, widths[:-1], widths[1:], strict=True):
        rules += linear_rules(f"connector.{layer}", name, (width,), (outputs,), bias=config.bias)
    return rules


def _read_connector(values: Values) -> ReleasedModel:
    keys = {key: values[key] for key in ConnectorConfig.model_fields}
    config = ConnectorConfig.model_validate(keys)
    widths = values["inputs"], values["outputs"]
    if not all(isinstance(width, int) and width > 0 for width in widths):
        raise PretrainedError(f"inputs, outputs: {widths} are no widths; valid: numbers above 0")
    return ReleasedModel(connector=ReleasedConnector(config, *widths))


def _connector_tensors(model: ReleasedModel) -> dict[str, list[TensorRule]]:
    connector = model.connector
    assert connector is not None
    names = ("fc1", "fc2") if connector.config.kind == "mlp" else ("linear",)
    return {
        "connector": _layer_rules(connector.config, connector.inputs, connector.outputs, *names)
    }


def _write_connector(model: ReleasedModel) -> dict[str, Any]:
    connector = model.connector
    assert connector is not None
    return {
        "model_type": CONNECTOR_FORMAT.name,
        **connector.config.model_dump(mode="json"),
        "inputs": connector.inputs,
        "outputs": connector.outputs,
    }


CONNECTOR_FORMAT = ReleaseFormat(
    "mllm_jax_connector",
    {"connector": ReleasedConnector},
    _read_connector,
    _connector_tensors,
    _write_connector,
)
