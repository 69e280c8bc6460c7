"""What a run reads is looked for before its job is written."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel, BeforeValidator

from data.places import _validate_place, local
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.submit.inputs import INPUTS, ROOT, input_paths, input_problems
from tests.configs import config
from tests.submit.jobs import job, kubernetes, slurm

#: Keys of places that a run writes to, or looks for what it has written itself.
WRITTEN = {
    *("run.directory", "run.compilation_cache", "checkpoint.copy_to", "checkpoint.local_folder"),
    *("data.cache", "data.lengths_folder"),
}
LORA = {"rank": 2, "modules": {"decoder": ["q_proj"]}}


def places(kind: Any, at: str = "") -> Iterator[str]:
    """Keys of a configuration whose values are places; those of sources without their members."""
    for key, hint in get_type_hints(kind, include_extras=True).items():
        if key.startswith("_") or key not in kind.model_fields:
            continue
        for part in parts(hint):
            name = f"{at}.{key}".lstrip(".")
            if part in (local, _validate_place):
                yield name
            elif inspect.isclass(part) and issubclass(part, BaseModel):
                yield from places(part, "data.source" if "data.source" in name else name)


def parts(hint: Any) -> Iterator[Any]:
    """Classes, and validators of places, in an annotation."""
    if isinstance(hint, BeforeValidator):
        yield hint.func
    elif get_origin(hint) is None:
        yield hint
    for own in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        yield from parts(own)


def test_every_key_that_is_a_place_is_looked_for_or_written() -> None:
    found = {*places(ExperimentConfig)}
    read = {f"{section}.{key}" for section, keys in INPUTS.items() for key in keys}
    assert found | {"model.pretrained"} == read | WRITTEN
    assert not read & WRITTEN


def small(folder: Path, **changes: Any) -> ExperimentConfig:
    source = {"kind": "llava", "path": f"{folder}/a.json", "media": f"{folder}/media"}
    own = {"data__source": source, "data__lengths": "on_read", "data__balance": "none"}
    return config(**own | changes)


def told(own: ExperimentConfig, cluster: Any, *on_nodes: str) -> list[str]:
    return [*input_problems(own, cluster, on_nodes)]


def test_a_path_that_is_not_here_is_named_with_its_key(tmp_path: Path) -> None:
    own = small(tmp_path)
    assert [
        text.partition(" is not on this machine; valid: ")[0] for text in told(own, slurm())
    ] == [
        f"data.source.path: {tmp_path}/a.json",
        f"data.source.media: {tmp_path}/media",
    ]
    assert told(own, slurm(), str(tmp_path)) == []
    (tmp_path / "a.json").write_text("[]")
    (one,) = told(own, slurm())
    assert one.endswith(f"--on-nodes {tmp_path}/media if the nodes have it")
    assert told(own, slurm(), f"{tmp_path}/media") == []
    assert len(told(own, slurm(), f"{tmp_path}/med")) == 1
    with pytest.raises(ConfigError, match=r"data\.source\.media: .* is not on this machine"):
        job(
            slurm(),
            data__source=own.data.source.model_dump(mode="json"),
            data__lengths="on_read",
            data__balance="none",
        )


def test_patterns_urls_and_mixtures_are_understood(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.json").write_text("[]")
    members = {
        name: {"source": {"kind": "llava", "path": path}}
        for name, path in (
            ("here", f"{tmp_path}/*/x.json"),
            ("gone", f"{tmp_path}/*/y.json"),
            ("far", "s3://bucket/*.json"),
        )
    }
    own = small(tmp_path, data__source={"kind": "mixture", "members": members})
    (one,) = told(own, slurm())
    assert one.startswith(f"data.source.members.gone.source.path: {tmp_path}/*/y.json is not")
    assert [key for key, _ in input_paths(own)] == [
        "data.source.members.here.source.path",
        "data.source.members.gone.source.path",
    ]


def test_a_folder_of_weights_is_one(tmp_path: Path) -> None:
    own = config()
    model = own.model.model_copy(update={"pretrained": str(tmp_path / "w")})
    own = own.model_copy(update={"model": model})
    assert told(own, slurm())[0].startswith(f"model.pretrained: {tmp_path}/w is not on this")
    (tmp_path / "w").mkdir()
    assert told(own, slurm())[0].startswith(f"model.pretrained: {tmp_path}/w has no config.json")
    (tmp_path / "w" / "config.json").write_text("{}")
    assert told(own, slurm()) == []
    named = {"decoder": str(tmp_path / "w"), "vision": None, "audio": str(tmp_path / "none")}
    model = own.model.model_copy(update={"pretrained": named})
    (one,) = told(own.model_copy(update={"model": model}), slurm())
    assert one.startswith("model.pretrained.audio: ")


def test_pods_have_their_volumes_and_the_project(tmp_path: Path) -> None:
    cluster = kubernetes(volumes={"/workspace/runs": "runs", "/data": "data"})
    for path in ("/data/a.json", "runs/a.json", "README.md"):
        source = {"kind": "llava", "path": path}
        assert told(small(tmp_path, data__source=source), cluster) == [], path
    assert (ROOT / "README.md").is_file()
    (tmp_path / "a.json").write_text("[]")
    (first, *_) = told(small(tmp_path), cluster)
    assert first.startswith(f"data.source.path: {tmp_path}/a.json lies in none of the volumes; ")
    assert "/workspace/runs, /data" in first
    assert told(small(tmp_path), cluster, str(tmp_path)) == []
