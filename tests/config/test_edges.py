"""Edges into the backbone, written by themselves or as keys of their sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mllm_jax.config.load import ConfigError, load_config, resolve_config, to_yaml
from mllm_jax.families.choice import ENCODERS
from mllm_jax.layers.config.connector import ConnectorConfig, MergedOutputs
from mllm_jax.models.graph import Edge
from mllm_jax.models.written_form import SHORT_KEYS
from tests.configs import config, values

LINEAR = {"kind": "linear"}
SCENE = {"next_token": {"kind": "next_token"}, "scene": {"kind": "classification", "classes": 3}}
TO_SCENE = {"source": "decoder", "target": "scene", "select": "last"}


def into_decoder(source: str = "vision", **keys: Any) -> dict[str, Any]:
    return {"source": source, "target": "decoder", **keys}


def told(**changes: Any) -> str:
    with pytest.raises(ConfigError) as error:
        resolve_config(values(**changes), "test")
    return str(error.value)


def test_connectors_are_no_keys_of_encoders() -> None:
    for family in ENCODERS.valid_classes().values():
        assert not {*SHORT_KEYS} & {*family.model_fields}


def test_a_copy_of_a_section_has_its_fields_alone() -> None:
    """What was a field once would otherwise be carried along, and never read."""
    vision = config().model.encoders["vision"]
    assert vision.model_copy(update={"layers": 7}).layers == 7
    with pytest.raises(TypeError, match="SiglipConfig has no fields connector; valid: family, lay"):
        vision.model_copy(update={"connector": ConnectorConfig()})


def test_keys_of_the_short_form_are_those_of_an_edge() -> None:
    short = MergedOutputs.model_fields
    assert {*short} == {*SHORT_KEYS}
    assert Edge.model_fields["connector"].annotation == ConnectorConfig | None
    assert Edge.model_fields["layers"].annotation == short["deepstack"].annotation


def test_an_edge_is_written_by_itself_or_in_its_source() -> None:
    """Files have the short form, and edges into other targets."""
    heads = {"model__objectives": SCENE, "model__edges": [TO_SCENE]}
    short = config(model__encoders__vision__connector=LINEAR, **heads)
    edges = [TO_SCENE, into_decoder(connector=LINEAR)]
    whole = resolve_config(values(**heads | {"model__edges": edges}), "test")
    assert whole == short
    assert to_yaml(whole) == to_yaml(short)
    assert [(edge.source, edge.target) for edge in whole.model.graph.edges] == [
        ("audio", "decoder"),
        ("vision", "decoder"),
        ("decoder", "next_token"),
        ("decoder", "scene"),
    ]


def test_an_override_changes_the_edge_of_a_file_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "resolved.yaml"
    path.write_text(to_yaml(config(model__encoders__vision__connector={"hidden": 8})))
    assert "hidden: 8" in path.read_text()
    assert load_config(path, []).model.connector("vision") == ConnectorConfig(hidden=8)
    changed = load_config(path, ["model.encoders.vision.connector.hidden=24"])
    assert changed.model.connector("vision") == ConnectorConfig(hidden=24)


def test_files_of_encoders_that_are_not_merged_list_a_connector_that_says_nothing() -> None:
    """As older versions wrote them."""
    mean = {"source": "vision", "target": "scene", "select": "mean"}
    unset = {"connector": ConnectorConfig().model_dump(mode="json"), "deepstack": []}
    changes = {"model__objectives": SCENE, "model__edges": [mean]}
    older = {f"model__encoders__vision__{key}": value for key, value in unset.items()}
    assert config(**changes, **older) == config(**changes)
    reason = "model.encoders.vision.connector and deepstack are of an edge into the backbone"
    for key, value in {"connector": LINEAR, "deepstack": [1]}.items():
        found = told(**changes, **{f"model__encoders__vision__{key}": value})
        assert reason.removeprefix("model.") in found
        assert "or an edge vision -> decoder" in found


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"model__encoders__vision__connector": {"kind": "mpl"}},
            'model.encoders.vision.connector.kind: "mpl" is refused; valid: mlp, linear, average',
        ),
        (
            {"model__encoders__audio__connector": {"hiden": 8}},
            "model.encoders.audio.connector.hiden: unknown key; did you mean "
            "model.encoders.audio.connector.hidden?",
        ),
        ({"model__encoders__vision__deepstack": [0]}, "model.encoders.vision.deepstack.0: 0 is"),
        (
            {"model__edges": [TO_SCENE, into_decoder(connector={"kind": "mpl"})]},
            'model.edges.1.connector.kind: "mpl" is refused; valid: mlp, linear, average',
        ),
        ({"model__edges": [into_decoder(conector={})]}, "model.edges.0.conector: unknown key"),
        ({"model__edges": [into_decoder(layers="2")]}, "model.edges.0.layers"),
        (
            {"model__edges": [into_decoder()] * 2},
            "edge vision -> decoder is given 2 times; valid: once",
        ),
        (
            {"model__edges": [into_decoder(norm=True)]},
            "edge vision -> decoder: norm is a key of edges into objectives; valid: connector, lay",
        ),
        (
            {
                "model__edges": [into_decoder(connector=LINEAR)],
                "model__encoders__vision__connector": LINEAR,
            },
            "edge vision -> decoder: connector of vision are given twice",
        ),
        ({"model__edges": [3]}, "model.edges.0: 3 is refused"),
        ({"model__edges": 3}, "model.edges: 3 is refused"),
        ({"model__encoders__vision": 3}, "model.encoders.vision: 3 is refused"),
        ({"model__edges": [{"target": "decoder"}]}, "model.edges.0.source: required"),
    ],
)
def test_what_an_edge_cannot_be_is_told_where_it_is_written(
    changes: dict[str, Any], reason: str
) -> None:
    assert reason in told(**changes)
