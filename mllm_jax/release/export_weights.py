"""A run's newest checkpoint as a released one, for other programs to load."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.folders import put_folder
from data.hf_format.files import GENERATION
from data.hf_format.media import PREPROCESSOR, VIDEOS
from mllm_jax.config.sections import LoraConfig
from mllm_jax.hf_format.configs import CONFIG
from mllm_jax.hf_format.dtype_ranges import report_underflows
from mllm_jax.hf_format.expert_rules import check_equal_biases
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.release_format import ReleasedConnector, ReleasedModel, ReleaseFormat
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.trainable import ADAPTERS, LOAD
from mllm_jax.models.graph import ModelConfig
from mllm_jax.models.pretrained.forms import form_of
from mllm_jax.models.pretrained.release import Release
from mllm_jax.models.pretrained.write import Draft
from mllm_jax.release.export_processor import (
    FILES,
    OLD_TEMPLATE,
    PROCESSOR,
    REPEATED,
    TEMPLATE,
    TEXTS,
    TOKENIZER,
    TrainedProcessor,
    ends,
    joined_ends,
    with_ends,
    without_template,
)
from mllm_jax.release.model_card import card
from mllm_jax.release.parts import CONNECTOR, parts_of
from mllm_jax.train.state.copies.offers import saved_parameters
from mllm_jax.train.state.regroup import resized
from mllm_jax.train.state.saved import SavedParameters
from mllm_jax.train.state.stored_names import StoredNames

#: Adds to the kernel of a layer with this number the adapter beside it.
Added = Callable[[NDArray[Any], int], NDArray[Any]]
#: Types of exported tensors, as safetensors and as `config.json` name them.
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
CARD = "README.md"
#: Keys of an encoder that only configurations of whole models have.
_OF_WHOLE = ("connector", "tiles", "class_token", "lookahead")
_VIDEO = ("video_token_index", "video_token_id")


@dataclass(frozen=True)
class Exported:
    """The exported files.

    Attributes:
        folder: folder of the files.
        family: `model_type`.
        step: step of the checkpoint.
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
        saved: newest checkpoint of the run.
        part: a module that is exported alone; None for the whole model.
        dtype: type of all tensors; None for that of the run's initial release, or else that of the
            activations in training.
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
        """The model of the run."""
        model = ModelConfig.model_validate(self.config["model"])
        if self.lora is None:
            return model
        return model.with_adapters(self.lora.targets, self.lora.rank, self.lora.scale)

    @property
    def stored(self) -> StoredNames:
        """The names of the model's modules in the checkpoint."""
        return StoredNames.of(self.model)

    @cached_property
    def lora(self) -> LoraConfig | None:
        """`train.lora` of the run."""
        values = self.config["train"].get("lora")
        return LoraConfig.model_validate(values) if values else None

    @cached_property
    def releases(self) -> dict[str, Release]:
        """The release that each part of the model was read from, if its folder still exists."""
        sources = self.model.sources
        there = {folder for folder in sources.values() if folder and Path(folder).is_dir()}
        opened = {folder: Release.open(Path(folder)) for folder in sorted(there)}
        return {part: opened[own] for part, own in sources.items() if own in opened}

    @cached_property
    def source(self) -> Release | None:
        """The one release of all that is exported, but for parts that began at random."""
        parts = [self.part] if self.part else self.model.parts
        folders = {folder for part in parts if (folder := self.model.sources.get(part))}
        if len(folders) != 1:
            return None
        return next((own for part, own in self.releases.items() if part in parts), None)

    @cached_property
    def processor(self) -> TrainedProcessor | None:
        """The processor that the run was trained with, if it is a released one."""
        return TrainedProcessor.of(self.config["data"])

    @cached_property
    def names(self) -> dict[str, str]:
        """The place of each module's parameters in the run, by its name in the checkpoint."""
        if self.part and self.part.endswith(CONNECTOR):
            return {"connector": self.stored.on_disk(self.part.removesuffix(CONNECTOR))}
        encoders = [self.part] if self.part else [*self.model.encoders]
        decoder = {"decoder": "decoder"} if self.part in (None, "decoder") else {}
        return decoder | {
            self.model.encoders[name].released_name: self.stored.on_disk(name)
            for name in encoders
            if name != "decoder"
        }

    @property
    def valid_parts(self) -> list[str]:
        """Valid values of `part`."""
        return parts_of(self.model.encoders)

    @cached_property
    def composition(self) -> ReleasedModel:
        """The exported part.

        Raises:
            PretrainedError: the model has no such part, a placeholder no token, or biases choose
                the decoder's experts.
        """
        decoder, encoders = self.model.decoder, self.model.encoders
        if self.part in (None, "decoder"):
            self._check_biases()
        if self.part is None:
            self._check_kinds()
            self._check_deepstack(encoders)
            named = {own.released_name: own for own in encoders.values()}
            return ReleasedModel(decoder, named, self._placeholders())
        if self.part not in self.valid_parts:
            raise PretrainedError(
                f"--part {self.part} is none of the model; valid: {list_names(self.valid_parts)}"
            )
        if self.part == "decoder":
            return ReleasedModel(decoder.model_copy(update={"extra_tokens": 0}))
        self._check_deepstack([self.part.removesuffix(CONNECTOR)])
        own = encoders[self.part.removesuffix(CONNECTOR)]
        if self.part.endswith(CONNECTOR):
            return ReleasedModel(
                connector=ReleasedConnector(own.connector, own.connected, decoder.d_model)
            )
        return ReleasedModel(encoders={own.released_name: alone(own)})

    def _check_biases(self) -> None:
        """Raise PretrainedError: biases choose experts, whatever the configuration says by now."""
        decoder = self.model.decoder
        if decoder.experts:
            leaf = self.saved[f"decoder.layers.experts.router.{LOAD}"]
            check_equal_biases(decoder, leaf.reshape(-1, leaf.shape[-1])[: decoder.expert_layers])

    def _check_kinds(self) -> None:
        """Raise PretrainedError: no released model has two encoders of one kind of media."""
        kinds = [own.modality for own in self.model.encoders.values()]
        for name, own in self.model.encoders.items():
            if kinds.count(own.modality) > 1:
                raise PretrainedError(
                    f"{name} is one of {kinds.count(own.modality)} encoders of {own.modality}, of "
                    "which no released form has more than one; export parts, each by itself: "
                    f"--part {' or '.join(self.valid_parts)}"
                )

    def _check_deepstack(self, names: Iterable[str]) -> None:
        """Raise PretrainedError: no released form has connectors of earlier layers."""
        for name in names:
            if layers := self.model.encoders[name].deepstack:
                raise PretrainedError(
                    f"model.encoders.{name}.deepstack: {list(layers)} has no place in a released "
                    "form; valid: parts of the model without it, such as --part decoder"
                )

    def _placeholders(self) -> Mapping[str, int]:
        """Ids of the tokens at which outputs land, from the processor, or else from the release."""
        if self.processor is None:
            return self.source.composition.placeholders if self.source else {}
        vocab = self.model.decoder.vocab_size
        encoders = sorted(self.model.encoders.values(), key=lambda own: own.modality)
        return {own.released_name: self.processor.id_of(own.modality, vocab) for own in encoders}

    @cached_property
    def family(self) -> ReleaseFormat:
        """The form: that of the release, or the first that takes the modules.

        Raises:
            PretrainedError: there is none; says why not those of the same modules.
        """
        own, composition = self.source.family if self.source else None, self.composition
        if self.unchanged and own:
            return own
        try:
            return form_of(composition, own)
        except PretrainedError as error:
            whole = f"--part {self.part}" if self.part else "the model"
            raise PretrainedError(
                f"{whole} has no released form ({error}){self._advice()}"
            ) from None

    def _advice(self) -> str:
        if self.part:
            return ""
        parts = [Export(self.saved, part) for part in self.valid_parts]
        return f"; export parts of it, each by itself: --part {' or '.join(_released(parts))}"

    @cached_property
    def rules(self) -> list[tuple[str, TensorRule]]:
        """Every rule with the dotted name of its parameter in the checkpoint."""
        modules = self.family.rules(self.composition)
        return [
            (f"{self.names[module]}.{rule.parameter}", rule)
            for module, rules in modules.items()
            for rule in rules
        ]

    @property
    def unchanged(self) -> bool:
        """Whether the model still agrees with the release's configuration."""
        return self.source is not None and self.source.composition == self.composition

    @cached_property
    def kept(self) -> list[str]:
        """Tensors of the release that are not the model's, but of its form."""
        if self.source is None or not self.unchanged:
            return []
        return self.family.copied_tensors(self.source.values, self.source.tensors)

    @cached_property
    def idle(self) -> dict[str, NDArray[Any]]:
        """Tensors of the form that nothing uses: the release's if it has them."""
        stored = self.source.tensors if self.source else {}
        found: dict[str, NDArray[Any]] = {}
        for name, tensor in self.family.filler_tensors(self.composition).items():
            same = (own for at, own in stored.items() if at.endswith(name))
            own = next((own for own in same if own.shape == tensor.shape), None)
            found[name] = own.map_weights() if own else tensor
        return {name: tensor for name, tensor in found.items() if name not in self.kept}

    @property
    def model_type(self) -> str:
        """Values of `config.json`."""
        return str(self.values["model_type"])

    @cached_property
    def values(self) -> dict[str, Any]:
        """`config.json`."""
        if self.source and self.unchanged:
            values = dict(self.source.values)
        else:
            values = {
                **self._videos(),
                **self.family.write_config(self.composition),
                **self._ends(),
            }
            values["torch_dtype"] = next(name for name, own in DTYPES.items() if own == self._most)
            if "text_config" in values:
                values["text_config"] = {**values["text_config"], **self._ends()}
        values = with_ends(values, self._taught)
        name = "dtype" if "dtype" in values else "torch_dtype"
        return values | ({name: self.dtype} if self.dtype else {})

    def _videos(self) -> dict[str, Any]:
        """The placeholder of videos, which stands in the processor's folder here."""
        same = self.source is not None and self.source.family == self.family
        told = self.source.values if self.source and same else {}
        return {key: told[key] for key in _VIDEO if key in told}

    def _ends(self) -> dict[str, Any]:
        """Tokens that begin, end and pad texts, from the decoder's release or the tokenizer."""
        if self.composition.decoder is None:
            return {}
        release = self.releases.get("decoder")
        said = ends(release.folder, release.values) if release else {}
        own = self.processor.ends if self.processor else {}
        vocab = self.model.decoder.vocab_size  # transformers has no row of padding behind it
        return {key: number for key, number in own.items() if number < vocab} | said

    @cached_property
    def _taught(self) -> tuple[int, ...]:
        """Tokens that answers were taught to end with."""
        if self.composition.decoder is None or self.processor is None:
            return ()
        return self.processor.chat.taught_ends

    def _generation(self) -> dict[str, Path | str]:
        """`generation_config.json`, by which others stop where `generate` does."""
        decoder = self.releases.get("decoder")
        trained = self.processor.folder if self.processor else None
        found = there([GENERATION], decoder.folder if decoder else None, trained)
        values = json.loads(Path(found[GENERATION]).read_bytes()) if found else {}
        said = values.get("eos_token_id", self._ends().get("eos_token_id"))
        own = joined_ends(said, self._taught)
        if own == said:
            return found
        values = self._ends() | values | {"eos_token_id": own}
        return {GENERATION: json.dumps(values, indent=2) + "\n"}

    @cached_property
    def texts(self) -> dict[str, Path | str]:
        """Files of tokenizer, chat template and generation, see `files`."""
        return self._texts(TEXTS)

    def _texts(self, names: Sequence[str]) -> dict[str, Path | str]:
        """Files of these names, with those of generation and of the chat template of training."""
        source = self.source.folder if self.source else None
        if self.processor is None:
            return self._generation() | there(names, source)
        # Another chat template, or other tokens, may lie beside the weights.
        own = [name for name in names if name in REPEATED or name not in TEXTS]
        found = there(names, self.processor.folder) | there(own, self.processor.folder, source)
        found |= self._generation()
        if template := self.processor.template(found):
            found.pop(OLD_TEMPLATE, None)
            found |= template
        return found

    def specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of every tensor that is written."""
        specs = dict[str, tuple[tuple[int, ...], str]]()
        for name, rule in self.rules:
            specs |= {own: (rule.transform.released, self._type(name)) for own in rule.names}
        specs |= {name: (tensor.shape, self._type(name)) for name, tensor in self.idle.items()}
        if self.source:
            stored = self.source.tensors
            specs |= {name: (stored[name].shape, stored[name].dtype) for name in self.kept}
        return specs

    def _type(self, name: str) -> str:
        """Layout of a parameter, by its dotted name in the checkpoint."""
        if self.dtype:
            return DTYPES[self.dtype]
        return self._types.get(name, self._most)

    @cached_property
    def _most(self) -> str:
        """The type of the first released tensor, and of those that no release has.

        Without a release it is that of the activations in training.
        """
        found = (self._types[name] for name, _ in self.rules if name in self._types)
        trained = self.model.dtype_on(self.config["parallel"]["platform"])
        return DTYPES[self.dtype] if self.dtype else next(found, DTYPES[trained])

    @cached_property
    def _types(self) -> dict[str, str]:
        """Types of released tensors by the parameter that they became."""
        found: dict[str, str] = {}
        for part, release in self.releases.items():
            where = self.stored.on_disk(part.partition(".")[0])
            for rule in release.part(part):
                if stored := release.tensors.get(rule.names[0]):
                    found[f"{where}.{rule.parameter}"] = stored.dtype
        return found

    @cached_property
    def files(self) -> dict[str, Path | str]:
        """Files of tokenizer and processor by name: where they are copied from, or what they say.

        Raises:
            PretrainedError: the run's processor is none that other programs have.
        """
        if self.composition.connector:
            return {}
        source = self.source.folder if self.source else None
        trained = self.processor.folder if self.processor else None
        if self.composition.decoder is None:
            whole = there([*FILES, GENERATION], source) if self.unchanged else {}
            return whole | there([PREPROCESSOR, VIDEOS], source, trained)
        found = self._texts(TEXTS if self.part else FILES)
        tokenizer = self.config["data"].get("tokenizer")
        if TOKENIZER not in found and tokenizer and Path(tokenizer).is_file():
            found[TOKENIZER] = Path(tokenizer)
        return found | self._made(found)

    def _made(self, found: Mapping[str, Path | str]) -> dict[str, str]:
        """Files of the processor of a model that is not the one that was released."""
        if self.family.processor is None or self.unchanged:
            return {}
        if self.processor is None:
            raise PretrainedError(
                "data.processor: null, so texts and media of the run were made as no released "
                "processor makes them; export parts, each by itself: --part "
                f"{' or '.join(self.valid_parts)}"
            )
        kinds = [own.modality for own in self.model.encoders.values()]
        for kind in kinds:
            self.processor.check_media(kind)
        made = self.processor.written(self.family.processor(self.composition), kinds)
        if TEMPLATE in self.processor.template(found):
            made[PROCESSOR] = without_template(made[PROCESSOR])
        return made

    def write(self, folder: Path) -> dict[str, int]:
        """Tensors and `config.json`; by tensor, how many of its values became zero.

        Raises:
            RangeError: a value of a tensor is too large for the tensor's type, or no number.
        """
        draft, zeros = Draft.begin(folder, self.specs()), dict[str, int]()
        for name, rule in self.rules:
            for released, tensor in zip(rule.names, self.layers(name, rule), strict=True):
                zeros[released] = draft.put(released, tensor)
        for name, tensor in self.idle.items():
            draft.put(name, tensor)
        for name in self.kept:
            assert self.source is not None
            draft.copy(name, self.source.tensors[name].map_any_type())
        text = json.dumps(self.values, indent=2) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")
        return zeros

    def layers(self, name: str, rule: TensorRule) -> Iterator[NDArray[Any]]:
        """The tensors of a rule, in the order of its names, with adapters added."""
        leaf = self.saved[name]
        adapter = self._adapter(name, rule, leaf.ndim - len(rule.transform.shape))
        if rule.layers is None:
            leaf = resized(leaf, rule.transform.shape)  # without padding of the vocabulary
        # The layers of a pipeline are in chunks, with padding behind the last layer.
        layers = leaf.reshape(-1, *rule.transform.shape)
        for number in range(len(rule.names)):
            kernel = layers[number]
            yield rule.transform.to_released(adapter(kernel, number) if adapter else kernel)

    def _adapter(self, name: str, rule: TensorRule, stack: int) -> Added | None:
        """Of a kernel of this name; None if it has no adapter. `stack` dimensions count layers."""
        base, _, last = name.rpartition(".")
        names = [f"{base}.{own}" for own in ADAPTERS]
        if self.lora is None or last != "kernel" or names[0] not in self.saved.names:
            return None
        (a, b), scale, rank = (self.saved[own] for own in names), self.lora.scale, self.lora.rank
        if rule.layers is None:
            b = resized(b, (rank, *rule.transform.shape[1 - b.ndim :]))  # as the kernel is

        def added(kernel: NDArray[Any], number: int) -> NDArray[Any]:
            height = math.prod(b.shape[stack + 1 :])
            down, up = a.reshape(-1, kernel.size // height, rank), b.reshape(-1, rank, height)
            product = scale * (down[number] @ up[number])
            return kernel.astype(np.float32) + product.reshape(kernel.shape)

        return added


def export(
    run: Path,
    out: Path,
    part: str | None = None,
    dtype: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Exported:
    """Write the newest checkpoint of a run as a released one.

    Args:
        run: folder of the run.
        out: the folder to make; nothing is there if this fails.
        part, dtype: see `Export`.
        tell: shows a line of progress.

    Raises:
        PretrainedError: the model has no released form, `out` is there already, or a weight is too
            large for its type.
        CheckpointError: the run has no checkpoint, or it cannot be read.
        OSError: `out` cannot be written.
    """
    if out.exists():
        raise PretrainedError(f"{out} is there already; choose another --out")
    own = Export(saved_parameters(run), part, dtype)
    specs = own.specs()
    files = [*own.files]  # before anything is written
    tell(f"step {own.saved.step} of {run} as {own.model_type}: {len(specs)} tensors")

    def write(folder: Path) -> None:
        for line in report_underflows(own.write(folder), own.dtype or "the types of the release"):
            tell(line)
        put_files(own.files, folder)
        text = card(own.model_type, own.saved.step, own.config, own.model.sources, files)
        (folder / CARD).write_text(text, encoding="utf-8")

    put_folder(out, write)
    size = sum(path.stat().st_size for path in out.glob("*.safetensors"))
    return Exported(
        out, own.model_type, own.saved.step, len(specs), size, len(own.kept), tuple(files)
    )


def put_files(files: Mapping[str, Path | str], folder: Path) -> None:
    """Write files by name: where they are copied from, or what they say."""
    for name, own in files.items():
        if isinstance(own, Path):
            shutil.copyfile(own, folder / name)
        else:
            (folder / name).write_text(own, encoding="utf-8")


def alone(encoder: EncoderConfig) -> EncoderConfig:
    """An encoder without the keys that only configurations of whole models have."""
    fields = type(encoder).model_fields
    whole = [key for key in _OF_WHOLE if key in fields]
    return encoder.model_copy(
        update={key: fields[key].get_default(call_default_factory=True) for key in whole}
    )


def there(names: Iterable[str], *folders: Path | None) -> dict[str, Path | str]:
    """Files of these names, from the first folder that has one."""
    found: dict[str, Path | str] = {}
    for name in names:
        paths = (folder / name for folder in folders if folder)
        if path := next((own for own in paths if own.is_file()), None):
            found[name] = path
    return found


def _released(exports: list[Export]) -> Iterator[str]:
    """Parts that have a form."""
    for own in exports:
        with suppress(PretrainedError):
            assert own.family
            yield str(own.part)
