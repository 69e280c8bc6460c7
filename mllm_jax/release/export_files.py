"""The files of an exported run besides its tensors: configuration, tokenizer, processor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from data.hf_format.files import GENERATION
from data.hf_format.media import PREPROCESSOR, VIDEOS
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.models.pretrained.heads import export_values
from mllm_jax.release.export_processor import (
    FILES,
    OLD_TEMPLATE,
    PROCESSOR,
    REPEATED,
    TEMPLATE,
    TEXTS,
    TOKENIZER,
    join_ends,
    release_ends,
    with_ends,
    without_template,
)
from mllm_jax.release.export_tensors import DTYPES, ReleaseTensors
from mllm_jax.release.run_export import RunExport

_VIDEO = ("video_token_index", "video_token_id")


@dataclass(frozen=True)
class ReleaseFiles:
    """The files of a run's release besides its tensors.

    Attributes:
        run_export: the run.
    """

    run_export: RunExport

    @property
    def model_type(self) -> str:
        """`model_type` of `config.json`."""
        return str(self.config_values["model_type"])

    @cached_property
    def config_values(self) -> dict[str, Any]:
        """`config.json`."""
        if self.run_export.source and self.run_export.is_unchanged:
            values = dict(self.run_export.source.values)
        else:
            values = {
                **self._video_values(),
                **self.run_export.release_format.write_config(self.run_export.released_model),
                **self._end_values(),
            }
            values["torch_dtype"] = next(
                name
                for name, dtype in DTYPES.items()
                if dtype == ReleaseTensors(self.run_export).common_type
            )
            if "text_config" in values:
                values["text_config"] = {**values["text_config"], **self._end_values()}
        modules = {
            name: self.run_export.stored_names.of_disk(place)
            for name, place in self.run_export.full_modules.items()
        }
        values = export_values(self.run_export.model.graph, modules, values)
        values = with_ends(values, self._taught_ends)
        name = "dtype" if "dtype" in values else "torch_dtype"
        return values | ({name: self.run_export.dtype} if self.run_export.dtype else {})

    def _video_values(self) -> dict[str, Any]:
        """The placeholder of videos, which is in the processor's folder here."""
        same = (
            self.run_export.source is not None
            and self.run_export.source.release_format == self.run_export.release_format
        )
        values = self.run_export.source.values if self.run_export.source and same else {}
        return {key: values[key] for key in _VIDEO if key in values}

    def _end_values(self) -> dict[str, Any]:
        """Tokens that begin, end and pad texts, from the decoder's release or the tokenizer."""
        if self.run_export.released_model.decoder is None:
            return {}
        release = self.run_export.releases.get(self.run_export.model.backbone)
        stated = release_ends(release.folder, release.values) if release else {}
        known = self.run_export.processor.end_ids if self.run_export.processor else {}
        # transformers has no row of padding after the vocabulary
        vocab = self.run_export.model.backbone_config.vocab_size
        return {key: number for key, number in known.items() if number < vocab} | stated

    @cached_property
    def _taught_ends(self) -> tuple[int, ...]:
        """Tokens that answers were taught to end with."""
        if self.run_export.released_model.decoder is None or self.run_export.processor is None:
            return ()
        return self.run_export.processor.chat.taught_ends

    def _generation_files(self) -> dict[str, Path | str]:
        """`generation_config.json`, by which others stop where `generate` does."""
        decoder = self.run_export.releases.get(self.run_export.model.backbone)
        trained = self.run_export.processor.folder if self.run_export.processor else None
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
        source = self.run_export.source.folder if self.run_export.source else None
        if self.run_export.processor is None:
            return self._generation_files() | find_files(names, source)
        # Another chat template, or other tokens, may lie next to the weights.
        own_names = [name for name in names if name in REPEATED or name not in TEXTS]
        files = find_files(names, self.run_export.processor.folder) | find_files(
            own_names, self.run_export.processor.folder, source
        )
        files |= self._generation_files()
        if template := self.run_export.processor.template_files(files):
            files.pop(OLD_TEMPLATE, None)
            files |= template
        return files

    @cached_property
    def files(self) -> dict[str, Path | str]:
        """Files of tokenizer and processor by name: their source file or their content.

        Raises:
            PretrainedError: the run's processor is none that other programs have.
        """
        if self.run_export.released_model.connector:
            return {}
        source = self.run_export.source.folder if self.run_export.source else None
        trained = self.run_export.processor.folder if self.run_export.processor else None
        if self.run_export.released_model.decoder is None:
            release_files = (
                find_files([*FILES, GENERATION], source) if self.run_export.is_unchanged else {}
            )
            return release_files | find_files([PREPROCESSOR, VIDEOS], source, trained)
        files = self._find_text_files(TEXTS if self.run_export.part else FILES)
        tokenizer = self.run_export.config["data"].get("tokenizer")
        if TOKENIZER not in files and tokenizer and Path(tokenizer).is_file():
            files[TOKENIZER] = Path(tokenizer)
        return files | self._processor_files(files)

    def _processor_files(self, files: Mapping[str, Path | str]) -> dict[str, str]:
        """Files of the processor of a model that is not the one that was released."""
        if self.run_export.release_format.processor is None or self.run_export.is_unchanged:
            return {}
        if self.run_export.processor is None:
            raise PretrainedError(
                "data.processor: null, so texts and media of the run were made as no released "
                "processor makes them; export parts, each by itself: --part "
                f"{' or '.join(self.run_export.valid_parts)}"
            )
        kinds = [encoder.media_kind for encoder in self.run_export.model.others.values()]
        for kind in kinds:
            self.run_export.processor.check_media(kind)
        processor_files = self.run_export.processor.generated_files(
            self.run_export.release_format.processor(self.run_export.released_model), kinds
        )
        if TEMPLATE in self.run_export.processor.template_files(files):
            processor_files[PROCESSOR] = without_template(processor_files[PROCESSOR])
        return processor_files


def put_files(files: Mapping[str, Path | str], folder: Path) -> None:
    """Write files by name, from their source file or their content."""
    for name, source in files.items():
        if isinstance(source, Path):
            shutil.copyfile(source, folder / name)
        else:
            (folder / name).write_text(source, encoding="utf-8")


def find_files(names: Iterable[str], *folders: Path | None) -> dict[str, Path | str]:
    """Files of these names, from the first folder that has one."""
    files: dict[str, Path | str] = {}
    for name in names:
        paths = (folder / name for folder in folders if folder)
        if path := next((path for path in paths if path.is_file()), None):
            files[name] = path
    return files
