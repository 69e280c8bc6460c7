"""A run's newest checkpoint as a released one, for other programs to load."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from data.folders import put_folder
from mllm_jax.models.config import ModelConfig
from mllm_jax.models.pretrained.configs import CONFIG
from mllm_jax.models.pretrained.families import FAMILIES
from mllm_jax.models.pretrained.family import Composition, Family
from mllm_jax.models.pretrained.files import PretrainedError, listed
from mllm_jax.models.pretrained.release import Release
from mllm_jax.models.pretrained.rules import Rule
from mllm_jax.models.pretrained.write import Draft
from mllm_jax.train.checkpoint import SavedParameters

#: Types of exported tensors, as safetensors and as `config.json` name them.
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
#: What of a processor goes along; weights and configurations of models do not.
COPIED = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json"),
    *("preprocessor_config.json", "processor_config.json", "generation_config.json"),
)
CARD = "README.md"


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        folder: where.
        family: `model_type`.
        step: of the checkpoint.
        tensors, bytes: how many, and their size.
        kept: tensors that were taken from the release that the run began with.
        copied: other files.
    """

    folder: Path
    family: str
    step: int
    tensors: int
    bytes: int
    kept: int
    copied: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """`{"folder", "family", "step", "tensors", "bytes", "kept", "copied"}`."""
        return {
            "folder": str(self.folder),
            "family": self.family,
            "step": self.step,
            "tensors": self.tensors,
            "bytes": self.bytes,
            "kept": self.kept,
            "copied": list(self.copied),
        }


@dataclass(frozen=True)
class Export:
    """A run on its way out.

    Attributes:
        saved: its newest checkpoint.
        part: a module that is exported alone; None for the whole model.
        dtype: of all tensors; None for that of the release that the run began with, or bfloat16.
    """

    saved: SavedParameters
    part: str | None = None
    dtype: str | None = None

    @cached_property
    def config(self) -> dict[str, Any]:
        """JSON of the run's configuration."""
        return self.saved.config

    @cached_property
    def model(self) -> ModelConfig:
        """Of the run."""
        return ModelConfig.model_validate(self.config["model"])

    @cached_property
    def source(self) -> Release | None:
        """The release that the exported modules come from, if it is one, and still there."""
        parts = [self.part] if self.part else self.model.parts
        folders = {self.model.sources.get(name) for name in parts}
        folder = folders.pop() if len(folders) == 1 else None
        if folder is None or not Path(folder).is_dir():
            return None
        return Release.open(Path(folder))

    @cached_property
    def composition(self) -> Composition:
        """What is exported.

        Raises:
            PretrainedError: the model has no such part.
        """
        valid = ["decoder", *self.model.encoders]
        if self.part is None:
            placeholders = self.source.composition.placeholders if self.source else {}
            return Composition(self.model.decoder, self.model.encoders, placeholders)
        if self.part not in valid:
            raise PretrainedError(
                f"--part {self.part} is none of the model; valid: {listed(valid)}"
            )
        if self.part == "decoder":
            return Composition(self.model.decoder)
        encoder = self.model.encoders[self.part]
        return Composition(encoders={encoder_name(encoder.modality): encoder})

    @cached_property
    def family(self) -> Family:
        """The form: that of the release, or the first that takes the modules.

        Raises:
            PretrainedError: there is none; lists why.
        """
        if self.source and {*self.source.rules} == {*self._modules}:
            return self.source.family
        reasons, composition = {}, self.composition
        for family in FAMILIES.values():
            try:
                family.release(composition)
            except PretrainedError as error:
                reasons[family.name] = str(error)
            else:
                return family
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise PretrainedError(
            f"the model has no released form ({told}); export its parts: --part "
            f"{', '.join(['decoder', *self.model.encoders])}"
        )

    @property
    def _modules(self) -> list[str]:
        decoder = ["decoder"] if self.composition.decoder else []
        return [*decoder, *self.composition.encoders]

    @cached_property
    def rules(self) -> list[tuple[str, Rule]]:
        """Every rule with the dotted name of its parameter in the checkpoint."""
        found = []
        for module, rules in self.family.rules(self.composition).items():
            own = self.part if self.part and module != "decoder" else module
            where = "decoder" if module == "decoder" else f"encoders.{own}"
            found += [(f"{where}.{rule.parameter}", rule) for rule in rules]
        return found

    @property
    def unchanged(self) -> bool:
        """Whether the model is still what the release's configuration says."""
        own = self.source
        return own is not None and (own.family, own.composition) == (self.family, self.composition)

    @cached_property
    def kept(self) -> list[str]:
        """Tensors of the release that are not the model's, but of its form."""
        if self.source is None or not self.unchanged:
            return []
        return self.family.kept(self.source.values, self.source.tensors)

    @cached_property
    def values(self) -> dict[str, Any]:
        """`config.json`."""
        source = self.source.values if self.source and self.unchanged else None
        values = self.family.released(self.composition, source)
        name = "dtype" if "dtype" in values else "torch_dtype"
        return values | ({name: self.dtype} if self.dtype else {})

    def specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of every tensor that is written."""
        specs = dict[str, tuple[tuple[int, ...], str]]()
        for _, rule in self.rules:
            specs |= {name: (rule.form.released, self._type(name)) for name in rule.names}
        if self.source:
            stored = self.source.tensors
            specs |= {name: (stored[name].shape, stored[name].dtype) for name in self.kept}
        return specs

    def _type(self, name: str) -> str:
        if self.dtype:
            return DTYPES[self.dtype]
        stored = self.source.tensors.get(name) if self.source else None
        return stored.dtype if stored else DTYPES["bfloat16"]

    def write(self, folder: Path) -> None:
        """Tensors and `config.json`."""
        draft = Draft.begin(folder, self.specs())
        for name, rule in self.rules:
            leaf = self.saved[name]
            if rule.layers is None:
                draft.put(rule.released, rule.form.released_from(leaf))
                continue
            # Of a pipeline in chunks, with padding behind the last layer.
            layers = leaf.reshape(-1, *rule.form.shape)
            for number, released in enumerate(rule.names):
                draft.put(released, rule.form.released_from(layers[number]))
        for name in self.kept:
            assert self.source is not None
            draft.put(name, self.source.tensors[name].view())
        text = json.dumps(self.values, indent=2) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")


def encoder_name(modality: str) -> str:
    """What released encoders of a modality are called here."""
    return {"image": "vision", "audio": "audio"}[modality]


def export(
    run: Path,
    out: Path,
    part: str | None = None,
    dtype: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Exported:
    """Write the newest checkpoint of a run as a released one.

    Args:
        run: its folder.
        out: the folder to make; nothing is there if this fails.
        part, dtype: see `Export`.
        tell: shows a line of progress.

    Raises:
        PretrainedError: the model has no released form, or `out` is there already.
        CheckpointError: the run has no checkpoint, or it cannot be read.
        OSError: `out` cannot be written.
    """
    if out.exists():
        raise PretrainedError(f"{out} is there already; choose another --out")
    own = Export(SavedParameters(run / "checkpoints"), part, dtype)
    specs = own.specs()
    tell(f"step {own.saved.step} of {run} as {own.family.name}: {len(specs)} tensors")
    files = dict(_processor_files(own))

    def write(folder: Path) -> None:
        own.write(folder)
        for name, path in files.items():
            shutil.copyfile(path, folder / name)
        (folder / CARD).write_text(card(own), encoding="utf-8")

    put_folder(out, write)
    size = sum(path.stat().st_size for path in out.glob("*.safetensors"))
    return Exported(
        out, own.family.name, own.saved.step, len(specs), size, len(own.kept), tuple(files)
    )


def _processor_files(own: Export) -> Iterator[tuple[str, Path]]:
    """Files of the tokenizer and the processor, by name."""
    data: Mapping[str, Any] = own.config["data"]
    folders = [data.get("processor"), own.source.folder if own.source else None]
    found: dict[str, Path] = {}
    for folder in filter(None, folders):
        for name in COPIED:
            if (path := Path(folder) / name).is_file():
                found.setdefault(name, path)
    tokenizer = Path(data["tokenizer"])
    if "tokenizer.json" not in found and tokenizer.is_file():
        found["tokenizer.json"] = tokenizer
    yield from found.items()


def card(own: Export) -> str:
    """The model card: what it is, what it came from, and the configuration of its training."""
    sources = {part: folder for part, folder in own.model.sources.items() if folder}
    began = "\n".join(f"- {part}: `{folder}`" for part, folder in sources.items())
    text = yaml.safe_dump(own.config, sort_keys=False)
    return (
        f"---\nlibrary_name: transformers\ntags: [mllm_jax]\n---\n\n"
        f"# {own.config['run']['name']}\n\n"
        f"A model of type `{own.family.name}` after {own.saved.step} training steps with "
        f"mllm_jax.\n\n## What it began with\n\n{began or 'Random values.'}\n\n"
        f"## Configuration of the training\n\n```yaml\n{text}```\n"
    )
