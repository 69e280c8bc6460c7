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
from mllm_jax.hf_format.release_format import (
    DECODER,
    ReleasedConnector,
    ReleasedModel,
    ReleaseFormat,
)
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.trainable import ADAPTERS, LOAD
from mllm_jax.models.graph import HEAD, OBJECTIVE
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.pretrained.forms import form_of
from mllm_jax.models.pretrained.heads import export_rules, export_values
from mllm_jax.models.pretrained.release import Release
from mllm_jax.models.pretrained.write import TensorDraft
from mllm_jax.release.export_processor import (
    FILES,
    OLD_TEMPLATE,
    PROCESSOR,
    REPEATED,
    TEMPLATE,
    TEXTS,
    TOKENIZER,
    TrainedProcessor,
    join_ends,
    release_ends,
    with_ends,
    without_template,
)
from mllm_jax.release.model_card import model_card
from mllm_jax.release.parts import CONNECTOR, list_parts
from mllm_jax.train.state.mirrors.remote_checkpoints import saved_parameters
from mllm_jax.train.state.regroup import fit_to_shape
from mllm_jax.train.state.saved import SavedParameters
from mllm_jax.train.state.stored_names import StoredNames

#: Adds to the kernel of a layer with this number the adapter next to it.
Added = Callable[[NDArray[Any], int], NDArray[Any]]
#: Types of exported tensors, as safetensors and as `config.json` name them.
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
CARD = "README.md"
#: Keys of an encoder that only configurations of whole models have.
_OF_WHOLE = ("connector", "tiles", "class_token", "lookahead")
_VIDEO = ("video_token_index", "video_token_id")


@dataclass(frozen=True)
class ExportedFiles:
    """The exported files.

    Attributes:
        folder: folder of the files.
        family: `model_type`.
        step: step of the checkpoint.
        tensors, bytes: how many, and their size.
        unmapped: tensors that were taken from the release that the run began with.
        copied: other files.
    """

    folder: Path
    family: str
    step: int
    tensors: int
    bytes: int
    unmapped: int
    copied: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """`{"folder", "family", "step", "tensors", "bytes", "kept", "copied"}`."""
        return {
            "folder": str(self.folder),
            "family": self.family,
            "step": self.step,
            "tensors": self.tensors,
            "bytes": self.bytes,
            "kept": self.unmapped,
            "copied": list(self.copied),
        }


@dataclass(frozen=True)
class RunExport:
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
    def stored_names(self) -> StoredNames:
        """The names of the model's modules in the checkpoint."""
        return StoredNames.from_model(self.model)

    @cached_property
    def lora(self) -> LoraConfig | None:
        """`train.lora` of the run."""
        values = self.config["train"].get("lora")
        return LoraConfig.model_validate(values) if values else None

    @cached_property
    def releases(self) -> dict[str, Release]:
        """The release that each part of the model was read from, if its folder still exists."""
        sources = self.model.sources
        existing = {folder for folder in sources.values() if folder and Path(folder).is_dir()}
        opened = {folder: Release.open(Path(folder)) for folder in sorted(existing)}
        return {part: opened[folder] for part, folder in sources.items() if folder in opened}

    @cached_property
    def source(self) -> Release | None:
        """The one release of all that is exported, but for parts that began at random."""
        parts = [self.part] if self.part else self.model.parts
        folders = {folder for part in parts if (folder := self.model.sources.get(part))}
        if len(folders) != 1:
            return None
        return next((release for part, release in self.releases.items() if part in parts), None)

    @cached_property
    def processor(self) -> TrainedProcessor | None:
        """The processor that the run was trained with, if it is a released one."""
        return TrainedProcessor.from_config(self.config["data"])

    @cached_property
    def module_places(self) -> dict[str, str]:
        """The place of each module's parameters in the run, by its name in the checkpoint."""
        if self.part and self.part.endswith(CONNECTOR):
            return {"connector": self.stored_names.on_disk(self.part.removesuffix(CONNECTOR))}
        encoders = [self.part] if self.part else [*self.model.others]
        backbone = self.model.backbone
        decoder = {DECODER: self.stored_names.on_disk(backbone)} if self._with_backbone else {}
        return decoder | {
            self.model.others[name].released_name: self.stored_names.on_disk(name)
            for name in encoders
            if name != backbone
        }

    @property
    def _with_backbone(self) -> bool:
        """Whether the backbone is exported, alone or with all else."""
        return self.part in (None, self.model.backbone)

    @property
    def valid_parts(self) -> list[str]:
        """Valid values of `part`."""
        return list_parts(self.model.backbone, self.model.others)

    @cached_property
    def released_model(self) -> ReleasedModel:
        """The exported part.

        Raises:
            PretrainedError: the model has no such part, a placeholder no token, or biases choose
                the decoder's experts.
        """
        decoder, encoders = self.model.backbone_config, self.model.others
        if self._with_backbone:
            self._check_biases()
        if self.part is None:
            self._check_kinds()
            self._check_deepstack(encoders)
            named = {encoder.released_name: encoder for encoder in encoders.values()}
            return ReleasedModel(decoder, named, self._placeholder_ids())
        if self.part not in self.valid_parts:
            raise PretrainedError(
                f"--part {self.part} is none of the model; valid: {list_names(self.valid_parts)}"
            )
        if self.part == self.model.backbone:
            return ReleasedModel(decoder.model_copy(update={"extra_tokens": 0}))
        self._check_deepstack([self.part.removesuffix(CONNECTOR)])
        encoder = encoders[self.part.removesuffix(CONNECTOR)]
        if self.part.endswith(CONNECTOR):
            return ReleasedModel(
                connector=ReleasedConnector(encoder.connector, encoder.connected, decoder.d_model)
            )
        return ReleasedModel(encoders={encoder.released_name: without_model_keys(encoder)})

    def _check_biases(self) -> None:
        """Raise PretrainedError: biases choose experts, whatever the configuration says by now."""
        decoder = self.model.backbone_config
        if decoder.experts:
            place = self.stored_names.on_disk(self.model.backbone)
            leaf = self.saved[f"{place}.layers.experts.router.{LOAD}"]
            check_equal_biases(decoder, leaf.reshape(-1, leaf.shape[-1])[: decoder.expert_layers])

    def _check_kinds(self) -> None:
        """Raise PretrainedError: no released model has two encoders of one kind of media."""
        kinds = [encoder.modality for encoder in self.model.others.values()]
        for name, encoder in self.model.others.items():
            if kinds.count(encoder.modality) > 1:
                raise PretrainedError(
                    f"{name} is one of {kinds.count(encoder.modality)} encoders of "
                    f"{encoder.modality}, of which no released form has more than one; export "
                    f"parts, each by itself: --part {' or '.join(self.valid_parts)}"
                )

    def _check_deepstack(self, names: Iterable[str]) -> None:
        """Raise PretrainedError: no released form has connectors of earlier layers."""
        for name in names:
            if layers := self.model.others[name].deepstack:
                raise PretrainedError(
                    f"model.{self.model.key(name)}.deepstack: {list(layers)} has no place in a "
                    "released form; valid: parts of the model without it, such as --part "
                    f"{self.model.backbone}"
                )

    def _placeholder_ids(self) -> Mapping[str, int]:
        """Ids of the tokens at which outputs are merged, from the processor or else the release."""
        if self.processor is None:
            return self.source.released_model.placeholders if self.source else {}
        vocab = self.model.backbone_config.vocab_size
        encoders = sorted(self.model.others.values(), key=lambda encoder: encoder.modality)
        return {
            encoder.released_name: self.processor.id_of(encoder.modality, vocab)
            for encoder in encoders
        }

    @cached_property
    def release_format(self) -> ReleaseFormat:
        """The form: that of the release, or the first that takes the modules.

        Raises:
            PretrainedError: there is none; says why not those of the same modules.
        """
        release_format, composition = (
            self.source.release_format if self.source else None,
            self.released_model,
        )
        if self.is_unchanged and release_format:
            return release_format
        try:
            return form_of(composition, release_format)
        except PretrainedError as error:
            exported = f"--part {self.part}" if self.part else "the model"
            raise PretrainedError(
                f"{exported} has no released form ({error}){self._give_advice()}"
            ) from None

    def _give_advice(self) -> str:
        if self.part:
            return ""
        parts = [RunExport(self.saved, part) for part in self.valid_parts]
        return (
            f"; export parts of it, each by itself: --part {' or '.join(_exportable_parts(parts))}"
        )

    @cached_property
    def rules(self) -> list[tuple[str, TensorRule]]:
        """Every rule with the dotted name of its parameter in the checkpoint."""
        modules = self.release_format.rules(self.released_model)
        rules = [
            (f"{self.module_places[module]}.{rule.parameter}", rule)
            for module, rules_of_module in modules.items()
            for rule in rules_of_module
        ]
        return [*rules, *export_rules(self.model.graph, self._whole, self._shapes).items()]

    @property
    def _whole(self) -> dict[str, str]:
        """`module_places` of whole modules, whose heads are exported with them."""
        return {} if self.part and self.part.endswith(CONNECTOR) else self.module_places

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters of heads, by dotted name in the checkpoint."""
        graph, shapes = self.model.graph, dict[str, tuple[int, ...]]()
        for module in graph.modules:
            where = self.stored_names.on_disk(module)
            blocks = tuple(f"{where}.{begin}" for begin in (HEAD, OBJECTIVE))
            names = [name for name in self.saved.names if name.startswith(blocks)]
            shapes |= {name: self.saved[name].shape for name in names}
        return shapes

    @property
    def is_unchanged(self) -> bool:
        """Whether the model still agrees with the release's configuration."""
        return self.source is not None and self.source.released_model == self.released_model

    @cached_property
    def unmapped(self) -> list[str]:
        """Tensors of the release that are not the model's, but of its form."""
        if self.source is None or not self.is_unchanged:
            return []
        return self.release_format.copied_tensors(self.source.values, self.source.tensors)

    @cached_property
    def filler_tensors(self) -> dict[str, NDArray[Any]]:
        """Tensors of the form that nothing uses: the release's if it has them."""
        stored = self.source.tensors if self.source else {}
        idle_tensors: dict[str, NDArray[Any]] = {}
        for name, tensor in self.release_format.filler_tensors(self.released_model).items():
            same = (stored_tensor for at, stored_tensor in stored.items() if at.endswith(name))
            candidate = next((weight for weight in same if weight.shape == tensor.shape), None)
            idle_tensors[name] = candidate.map_weights() if candidate else tensor
        return {name: tensor for name, tensor in idle_tensors.items() if name not in self.unmapped}

    @property
    def model_type(self) -> str:
        """Values of `config.json`."""
        return str(self.config_values["model_type"])

    @cached_property
    def config_values(self) -> dict[str, Any]:
        """`config.json`."""
        if self.source and self.is_unchanged:
            values = dict(self.source.values)
        else:
            values = {
                **self._video_values(),
                **self.release_format.write_config(self.released_model),
                **self._end_values(),
            }
            values["torch_dtype"] = next(
                name for name, dtype in DTYPES.items() if dtype == self._common_type
            )
            if "text_config" in values:
                values["text_config"] = {**values["text_config"], **self._end_values()}
        modules = {name: self.stored_names.of_disk(place) for name, place in self._whole.items()}
        values = export_values(self.model.graph, modules, values)
        values = with_ends(values, self._taught_ends)
        name = "dtype" if "dtype" in values else "torch_dtype"
        return values | ({name: self.dtype} if self.dtype else {})

    def _video_values(self) -> dict[str, Any]:
        """The placeholder of videos, which is in the processor's folder here."""
        same = self.source is not None and self.source.release_format == self.release_format
        values = self.source.values if self.source and same else {}
        return {key: values[key] for key in _VIDEO if key in values}

    def _end_values(self) -> dict[str, Any]:
        """Tokens that begin, end and pad texts, from the decoder's release or the tokenizer."""
        if self.released_model.decoder is None:
            return {}
        release = self.releases.get(self.model.backbone)
        stated = release_ends(release.folder, release.values) if release else {}
        known = self.processor.end_ids if self.processor else {}
        # transformers has no row of padding after the vocabulary
        vocab = self.model.backbone_config.vocab_size
        return {key: number for key, number in known.items() if number < vocab} | stated

    @cached_property
    def _taught_ends(self) -> tuple[int, ...]:
        """Tokens that answers were taught to end with."""
        if self.released_model.decoder is None or self.processor is None:
            return ()
        return self.processor.chat.taught_ends

    def _generation_files(self) -> dict[str, Path | str]:
        """`generation_config.json`, by which others stop where `generate` does."""
        decoder = self.releases.get(self.model.backbone)
        trained = self.processor.folder if self.processor else None
        files = find_files([GENERATION], decoder.folder if decoder else None, trained)
        values = json.loads(Path(files[GENERATION]).read_bytes()) if files else {}
        stated = values.get("eos_token_id", self._end_values().get("eos_token_id"))
        joined = join_ends(stated, self._taught_ends)
        if joined == stated:
            return files
        values = self._end_values() | values | {"eos_token_id": joined}
        return {GENERATION: json.dumps(values, indent=2) + "\n"}

    @cached_property
    def text_files(self) -> dict[str, Path | str]:
        """Files of tokenizer, chat template and generation, see `files`."""
        return self._find_text_files(TEXTS)

    def _find_text_files(self, names: Sequence[str]) -> dict[str, Path | str]:
        """Files of these names, with those of generation and of the chat template of training."""
        source = self.source.folder if self.source else None
        if self.processor is None:
            return self._generation_files() | find_files(names, source)
        # Another chat template, or other tokens, may lie next to the weights.
        own_names = [name for name in names if name in REPEATED or name not in TEXTS]
        files = find_files(names, self.processor.folder) | find_files(
            own_names, self.processor.folder, source
        )
        files |= self._generation_files()
        if template := self.processor.template_files(files):
            files.pop(OLD_TEMPLATE, None)
            files |= template
        return files

    def tensor_specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of every tensor that is written."""
        specs = dict[str, tuple[tuple[int, ...], str]]()
        for name, rule in self.rules:
            specs |= {
                released: (rule.transform.released, self._type_of(name)) for released in rule.names
            }
        specs |= {
            name: (tensor.shape, self._type_of(name))
            for name, tensor in self.filler_tensors.items()
        }
        if self.source:
            stored = self.source.tensors
            specs |= {name: (stored[name].shape, stored[name].dtype) for name in self.unmapped}
        return specs

    def _type_of(self, name: str) -> str:
        """Layout of a parameter, by its dotted name in the checkpoint."""
        if self.dtype:
            return DTYPES[self.dtype]
        return self._released_types.get(name, self._common_type)

    @cached_property
    def _common_type(self) -> str:
        """The type of the first released tensor, and of those that no release has.

        Without a release it is that of the activations in training.
        """
        types = (
            self._released_types[name] for name, _ in self.rules if name in self._released_types
        )
        trained = self.model.dtype_on(self.config["parallel"]["platform"])
        return DTYPES[self.dtype] if self.dtype else next(types, DTYPES[trained])

    @cached_property
    def _released_types(self) -> dict[str, str]:
        """Types of released tensors by the parameter that they became."""
        types: dict[str, str] = {}
        for part, release in self.releases.items():
            where = self.stored_names.on_disk(part.partition(".")[0])
            for rule in release.part_rules(part, self.model.backbone):
                if stored := release.tensors.get(rule.names[0]):
                    types[f"{where}.{rule.parameter}"] = stored.dtype
        return types

    @cached_property
    def files(self) -> dict[str, Path | str]:
        """Files of tokenizer and processor by name: where they are copied from, or what they say.

        Raises:
            PretrainedError: the run's processor is none that other programs have.
        """
        if self.released_model.connector:
            return {}
        source = self.source.folder if self.source else None
        trained = self.processor.folder if self.processor else None
        if self.released_model.decoder is None:
            release_files = find_files([*FILES, GENERATION], source) if self.is_unchanged else {}
            return release_files | find_files([PREPROCESSOR, VIDEOS], source, trained)
        files = self._find_text_files(TEXTS if self.part else FILES)
        tokenizer = self.config["data"].get("tokenizer")
        if TOKENIZER not in files and tokenizer and Path(tokenizer).is_file():
            files[TOKENIZER] = Path(tokenizer)
        return files | self._processor_files(files)

    def _processor_files(self, files: Mapping[str, Path | str]) -> dict[str, str]:
        """Files of the processor of a model that is not the one that was released."""
        if self.release_format.processor is None or self.is_unchanged:
            return {}
        if self.processor is None:
            raise PretrainedError(
                "data.processor: null, so texts and media of the run were made as no released "
                "processor makes them; export parts, each by itself: --part "
                f"{' or '.join(self.valid_parts)}"
            )
        kinds = [encoder.modality for encoder in self.model.others.values()]
        for kind in kinds:
            self.processor.check_media(kind)
        processor_files = self.processor.generated_files(
            self.release_format.processor(self.released_model), kinds
        )
        if TEMPLATE in self.processor.template_files(files):
            processor_files[PROCESSOR] = without_template(processor_files[PROCESSOR])
        return processor_files

    def write_weights(self, folder: Path) -> dict[str, int]:
        """Tensors and `config.json`; by tensor, how many of its values became zero.

        Raises:
            RangeError: a value of a tensor is too large for the tensor's type, or no number.
        """
        draft, zeros = TensorDraft.create_files(folder, self.tensor_specs()), dict[str, int]()
        for name, rule in self.rules:
            for released, tensor in zip(rule.names, self.layer_tensors(name, rule), strict=True):
                zeros[released] = draft.write_tensor(released, tensor)
        for name, tensor in self.filler_tensors.items():
            draft.write_tensor(name, tensor)
        for name in self.unmapped:
            assert self.source is not None
            draft.copy_tensor(name, self.source.tensors[name].map_any_type())
        text = json.dumps(self.config_values, indent=2) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")
        return zeros

    def layer_tensors(self, name: str, rule: TensorRule) -> Iterator[NDArray[Any]]:
        """The tensors of a rule, in the order of its names, with adapters added."""
        leaf = self.saved[name]
        adapter = self._adapter_of(name, rule, leaf.ndim - len(rule.transform.shape))
        if rule.layers is None:
            leaf = fit_to_shape(leaf, rule.transform.shape)  # without padding of the vocabulary
        # The layers of a pipeline are in chunks, with padding after the last layer.
        layers = leaf.reshape(-1, *rule.transform.shape)
        for number in range(len(rule.names)):
            kernel = layers[number]
            yield rule.transform.to_released(adapter(kernel, number) if adapter else kernel)

    def _adapter_of(self, name: str, rule: TensorRule, stack: int) -> Added | None:
        """Of a kernel of this name; None if it has no adapter. `stack` dimensions count layers."""
        base, _, last = name.rpartition(".")
        names = [f"{base}.{adapter}" for adapter in ADAPTERS]
        if self.lora is None or last != "kernel" or names[0] not in self.saved.names:
            return None
        (a, b), scale, rank = (
            (self.saved[adapter] for adapter in names),
            self.lora.scale,
            self.lora.rank,
        )
        if rule.layers is None:
            b = fit_to_shape(b, (rank, *rule.transform.shape[1 - b.ndim :]))  # as the kernel is

        def add_adapter(kernel: NDArray[Any], number: int) -> NDArray[Any]:
            height = math.prod(b.shape[stack + 1 :])
            down, up = a.reshape(-1, kernel.size // height, rank), b.reshape(-1, rank, height)
            product = scale * (down[number] @ up[number])
            return kernel.astype(np.float32) + product.reshape(kernel.shape)

        return add_adapter


def export_weights(
    run: Path,
    out: Path,
    part: str | None = None,
    dtype: str | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> ExportedFiles:
    """Write the newest checkpoint of a run as a released one.

    Args:
        run: folder of the run.
        out: the folder to make; nothing is there if this fails.
        part, dtype: see `RunExport`.
        notify: shows a line of progress.

    Raises:
        PretrainedError: the model has no released form, `out` is there already, or a weight is too
            large for its type.
        CheckpointError: the run has no checkpoint, or it cannot be read.
        OSError: `out` cannot be written.
    """
    if out.exists():
        raise PretrainedError(f"{out} is there already; choose another --out")
    run_export = RunExport(saved_parameters(run), part, dtype)
    specs = run_export.tensor_specs()
    files = [*run_export.files]  # before anything is written
    notify(
        f"step {run_export.saved.step} of {run} as {run_export.model_type}: {len(specs)} tensors"
    )

    def write(folder: Path) -> None:
        for line in report_underflows(
            run_export.write_weights(folder), run_export.dtype or "the types of the release"
        ):
            notify(line)
        put_files(run_export.files, folder)
        text = model_card(
            run_export.model_type,
            run_export.saved.step,
            run_export.config,
            run_export.model.sources,
            files,
        )
        (folder / CARD).write_text(text, encoding="utf-8")

    put_folder(out, write)
    size = sum(path.stat().st_size for path in out.glob("*.safetensors"))
    return ExportedFiles(
        out,
        run_export.model_type,
        run_export.saved.step,
        len(specs),
        size,
        len(run_export.unmapped),
        tuple(files),
    )


def put_files(files: Mapping[str, Path | str], folder: Path) -> None:
    """Write files by name: where they are copied from, or what they say."""
    for name, source in files.items():
        if isinstance(source, Path):
            shutil.copyfile(source, folder / name)
        else:
            (folder / name).write_text(source, encoding="utf-8")


def without_model_keys(encoder: EncoderConfig) -> EncoderConfig:
    """An encoder without the keys that only configurations of whole models have."""
    fields = type(encoder).model_fields
    model_keys = [key for key in _OF_WHOLE if key in fields]
    return encoder.model_copy(
        update={key: fields[key].get_default(call_default_factory=True) for key in model_keys}
    )


def find_files(names: Iterable[str], *folders: Path | None) -> dict[str, Path | str]:
    """Files of these names, from the first folder that has one."""
    files: dict[str, Path | str] = {}
    for name in names:
        paths = (folder / name for folder in folders if folder)
        if path := next((path for path in paths if path.is_file()), None):
            files[name] = path
    return files


def _exportable_parts(exports: list[RunExport]) -> Iterator[str]:
    """Parts that have a form."""
    for export in exports:
        with suppress(PretrainedError):
            assert export.release_format
            yield str(export.part)
