"""Impossible models are refused with the reason and the valid choices."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mllm_jax.families.choice import DECODERS, AnyDecoder
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.models.graph import Edge
from mllm_jax.models.model_config import ModelConfig
from tests.models import towers

DECODER_TYPE: TypeAdapter[Any] = TypeAdapter(AnyDecoder)
DECODER: dict[str, Any] = {"layers": 1, "d_model": 32, "heads": 4, "d_ff": 64}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"heads": 5}, r"d_model 32 is not divisible by heads 5; choose heads from \[1, 2, 4"),
        ({"kv_heads": 3}, r"heads 4 is not divisible by kv_heads 3; .* from \[1, 2, 4\]"),
        ({"family": "gpt", "kv_heads": 2}, "no grouped heads; set kv_heads to 4"),
        ({"head_dim": 7}, "head_dim 7 must be even"),
        ({"family": "mamba"}, ", ".join(map(repr, DECODERS.valid_classes()))),
        ({"layers": 0}, "greater than 0"),
        ({"width": 3}, "Extra inputs"),
        (
            {"rope_scaling": {"low_freq_factor": 4.0, "high_freq_factor": 4.0}},
            "must exceed low_freq_factor",
        ),
    ],
)
def test_decoder_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        DECODER_TYPE.validate_python({**DECODER, **changes})


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("siglip", {"connector": {"stack": 4}}, "must be a block of patches"),
        ("siglip", {"connector": {"stack": [0, 2]}}, r"at least \[1, 1\]"),
        ("whisper", {"connector": {"stack": [2, 2]}}, "number of frames, for example 4"),
        ("whisper", {"d_model": 33, "heads": 3}, "must be even for sinusoidal"),
        ("vit22b", {"heads": 7}, "not divisible by heads 7"),
    ],
)
def test_encoder_is_refused(family: str, changes: dict[str, Any], reason: str) -> None:
    values = towers.model(encoder=family).model_dump()
    media = {**values["encoders"]["media"], **changes}
    media.pop("head_dim")
    values["encoders"]["media"] = media
    with pytest.raises(ValidationError, match=reason):
        ModelConfig.model_validate(values)


def test_defaults_follow_from_the_widths() -> None:
    config = DECODER_TYPE.validate_python(DECODER)
    assert (config.kv_heads, config.head_dim) == (4, 8)
    with pytest.raises(ValueError, match="set it to the tokenizer's size"):
        _ = config.vocab_size


def test_requirements_name_what_a_plan_must_divide() -> None:
    config = towers.model(encoder="whisper")
    decoder = {(need.name, need.size, need.axis) for need in config.requirements("decoder")}
    assert ("heads", 4, "sequence") in decoder
    # Heads of keys and values are copied, and the vocabulary is padded.
    assert not {"kv_heads", "vocab"} & {name for name, _, _ in decoder}
    media = {(need.name, need.size, need.axis) for need in config.requirements("media")}
    assert ("connector.hidden", 40, "tensor") in media
    assert config.reduction("media") == 4


def test_an_encoder_that_is_not_merged_has_no_connector_to_divide() -> None:
    model = graph_of(encoders={"image": CLIP}, objectives=PAIRS, edges=TO_PAIRS)
    assert {need.name for need in model.requirements("image")} == {"heads", "d_ff", "d_model"}
    merged = written_graph().requirements("vision")
    assert {need.name for need in merged} > {"language d_model", "connector.hidden"}


WIDTHS = {"layers": 2, "d_model": 32, "heads": 4, "d_ff": 64}
IMAGE = {**WIDTHS, "patch": [4, 4], "channels": 1, "grid": [3, 4]}
SIGLIP, CLIP = {**IMAGE, "family": "siglip"}, {**IMAGE, "family": "clip", "class_token": "kept"}
PAIRS = {"pairs": {"kind": "contrastive", "dimensions": 8}}
SCENE = {"scene": {"kind": "classification", "classes": 3}}
TO_PAIRS = [
    {"source": "decoder", "target": "pairs", "select": "last"},
    {"source": "image", "target": "pairs", "select": "class_token"},
]
TO_SCENE = {"source": "decoder", "target": "scene", "select": "last"}


def graph_of(**values: Any) -> ModelConfig:
    return ModelConfig.model_validate({"decoder": WIDTHS | {"vocab": 32}, **values})


def test_the_short_form_is_a_graph() -> None:
    """Its files have no keys of a graph."""
    deep = SIGLIP | {"deepstack": [1], "connector": {"kind": "linear"}}
    model = graph_of(encoders={"vision": deep})
    assert model.graph.edges == (
        Edge(
            source="vision",
            target="decoder",
            connector=ConnectorConfig(kind="linear"),
            layers=(1,),
        ),
        Edge(source="decoder", target="next_token"),
    )
    assert not {"edges", "objectives"} & model.model_dump().keys()
    assert model.graph.merged == ("vision",)
    assert model.graph.heads("decoder") == ()


def test_a_graph_is_read_as_its_short_form() -> None:
    modules = {"decoder": WIDTHS | {"vocab": 32}, "vision": SIGLIP}
    edge = {"source": "vision", "target": "decoder", "connector": {"kind": "linear"}, "layers": [2]}
    model = ModelConfig.model_validate(
        {"modules": modules, "backbone": "decoder", "edges": [edge, TO_SCENE], "objectives": SCENE}
    )
    short = SIGLIP | {"connector": {"kind": "linear"}, "deepstack": [2]}
    assert model == graph_of(encoders={"vision": short}, edges=[TO_SCENE], objectives=SCENE)
    assert ModelConfig.model_validate(model.model_dump()) == model


def test_an_encoder_feeds_the_backbone_and_objectives() -> None:
    """The edge into the backbone is written, in either form, and is one of several."""
    into = {"source": "image", "target": "decoder"}
    edges = [into, {"source": "image", "target": "scene", "select": "mean"}, *TO_PAIRS]
    objectives = SCENE | PAIRS
    encoders = {"image": CLIP | {"connector": {"kind": "linear"}}}
    model = graph_of(encoders=encoders, objectives=objectives, edges=edges)
    assert model.graph.merged == ("image",)
    assert [edge.target for edge in model.graph.edges_from("image")] == [
        "decoder",
        "scene",
        "pairs",
    ]
    assert ModelConfig.model_validate(model.model_dump()) == model
    modules = {"decoder": WIDTHS | {"vocab": 32}, "image": CLIP}
    full = [into | {"connector": {"kind": "linear"}}, *edges[1:]]
    values = {"modules": modules, "backbone": "decoder", "edges": full, "objectives": objectives}
    assert ModelConfig.model_validate(values) == model


def test_heads_are_parts_of_the_model() -> None:
    model = graph_of(encoders={"image": CLIP}, objectives=PAIRS, edges=TO_PAIRS)
    heads = ("decoder.head_pairs", "image.head_pairs")
    assert model.parts == ("decoder", "image", *heads)
    assert {name.partition(".")[2] for name in model.sources} >= {"head_pairs"}
    names = [layer.name for layer in model.linear_layers]
    assert not any("connector" in name for name in names)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"edges": [TO_SCENE | {"source": "decodr"}], "objectives": SCENE},
            "edge decodr -> scene: 'decodr' is no module; valid: decoder",
        ),
        (
            {"edges": [TO_SCENE | {"target": "scen"}], "objectives": SCENE},
            "'scen' is neither a module nor an objective; valid: decoder, scene",
        ),
        (
            {"edges": [{"source": "decoder", "target": "decoder"}]},
            "edge decoder -> decoder closes a circle; valid: an edge to next_token",
        ),
        (
            {
                "encoders": {"a": SIGLIP, "b": SIGLIP},
                "edges": [{"source": "a", "target": "b"}],
            },
            "edge a -> b is refused, as outputs are merged into the rows of decoder alone",
        ),
        ({"objectives": SCENE}, "decoder feeds nothing; valid: an edge from decoder to one of sc"),
        (
            {"objectives": PAIRS, "edges": TO_PAIRS[:1]},
            "objective pairs has edges from decoder; valid: 2 edges from decoder",
        ),
        (
            {"objectives": SCENE, "edges": [TO_SCENE | {"select": "tokens"}]},
            "select tokens is refused, as classification reads one output .* valid: last, mean",
        ),
        (
            {
                "encoders": {"image": CLIP | {"class_token": "dropped"}},
                "objectives": PAIRS,
                "edges": TO_PAIRS,
            },
            "select class_token is refused, .* one output of image .*; valid: mean",
        ),
        (
            {"objectives": SCENE, "edges": [TO_SCENE | {"connector": {"stack": 2}}]},
            "connector mlp with stack 2 joins outputs, and there is one; valid: kind mlp or linear",
        ),
        (
            {
                "encoders": {"image": CLIP | {"connector": {"kind": "linear"}}},
                "objectives": PAIRS,
                "edges": TO_PAIRS,
            },
            "encoders.image.connector and deepstack are of an edge into the backbone; valid: with",
        ),
        ({"objectives": {"scene": {"kind": "ranking"}}}, "'ranking' is no kind .* regression, con"),
        (
            {"objectives": {"text": {"kind": "next_token"}}},
            "objectives.text: next_token is called next_token",
        ),
        (
            {
                "objectives": {"decoder": SCENE["scene"]},
                "edges": [TO_SCENE | {"target": "decoder"}],
            },
            "a module has that name; valid: another name|closes a circle",
        ),
        (
            {"modules": {"text": WIDTHS}, "backbone": "text"},
            "modules are given beside decoder or encoders; valid: either",
        ),
        (
            {"pretrained": {"decoder": "x"}, "objectives": SCENE, "edges": [TO_SCENE]},
            "given for decoder; valid: a folder, or null, for each of decoder, decoder.head_scene",
        ),
    ],
)
def test_impossible_graphs_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        graph_of(**values)


def written_graph(**values: Any) -> ModelConfig:
    """A graph whose backbone has a free name."""
    modules = {"vision": SIGLIP, "language": WIDTHS | {"vocab": 32}}
    return ModelConfig.model_validate({"modules": modules, "backbone": "language", **values})


def test_a_backbone_has_any_name() -> None:
    edge = {"source": "vision", "target": "language", "connector": {"kind": "linear"}}
    model = written_graph(edges=[edge])
    assert [*model.modules] == ["language", "vision"]
    assert model.backbone_config.vocab_size == 32
    assert model.connector("vision") == ConnectorConfig(kind="linear")
    assert [(edge.source, edge.target) for edge in model.graph.edges] == [
        ("vision", "language"),
        ("language", "next_token"),
    ]
    assert model.parts == ("language", "vision", "vision.connector")
    assert {layer.name.partition(".")[0] for layer in model.linear_layers} == {*model.modules}
    assert (model.key("language"), model.key("vision")) == ("modules.language", "modules.vision")


def test_a_written_graph_is_written_as_it_was_read() -> None:
    model = written_graph()
    values = model.model_dump(mode="json")
    assert {"modules", "backbone"} <= values.keys()
    assert not {"decoder", "encoders", "written"} & values.keys()
    assert ModelConfig.model_validate(values) == model
    wider = model.with_modules({"language": model.backbone_config.model_copy(update={"d_ff": 8})})
    assert wider.backbone_config.d_ff == 8
    assert [*wider.others] == ["vision"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"backbone": "text"}, "backbone 'text' is none of the modules, .*; valid: vision, lang"),
        (
            {"modules": {"vision": SIGLIP}, "backbone": "vision"},
            "modules.vision.family: siglip reads media, and vision is the b",
        ),
        ({"modules": {"language": WIDTHS, "other": WIDTHS | {"family": "gpt"}}}, "reads text, and"),
        ({"encoders": {}}, "modules are given beside decoder or encoders; valid: either"),
    ],
)
def test_impossible_backbones_are_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        written_graph(**values)


def test_a_backbone_without_modules_is_refused() -> None:
    with pytest.raises(ValidationError, match="backbone 'text' is none of the modules, which are"):
        graph_of(backbone="text")
    with pytest.raises(ValidationError, match="the model has no decoder; valid: decoder, or modul"):
        ModelConfig.model_validate({"encoders": {}})
