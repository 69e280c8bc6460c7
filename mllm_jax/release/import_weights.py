"""Released checkpoints as the start of a run: fetched if need be, checked, and configured.

The configuration is written in the short form of a graph, whose backbone is called `decoder`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import ValidationError

from data.config import DataConfig
from data.folders import put_folder
from data.hf_format.files import GENERATION, TOKENIZER_FILES
from data.hf_format.media import PREPROCESSOR, VIDEOS
from data.media.registry import MEDIA_TYPES
from data.processing.processor import make_processor
from data.sample import DataError
from mllm_jax.config.inputs import row_specs
from mllm_jax.config.load import resolve_config
from mllm_jax.families.processors import released_processors
from mllm_jax.hf_format.dtype_ranges import describe_overflow, find_overflow_in_chunks
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.pretrained.heads import released_objectives
from mllm_jax.models.pretrained.release import Release, compose_model
from mllm_jax.models.short_form import BACKBONE, module_values, sections_of_modules
from mllm_jax.release.origin import ReleaseOrigin

#: Files that are fetched from a hub: safetensors, configurations, tokenizers, the card with the
#: licence; no program.
FETCHED = ("*.safetensors", "*.json", "*.jinja", "merges.txt", "vocab.txt", "README.md")
#: `organisation/name` of a hub, and perhaps `@revision`.
_HUB = re.compile(r"(?P<id>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
CONFIG = "config.yaml"
RELEASED, PROCESSOR = "released", "processor"
#: Files of a decoder's tokenizer, and of an encoder's media.
TEXTS = (*TOKENIZER_FILES, GENERATION)
#: Budgets of a row to begin with, fewer tokens where the decoder has fewer positions:
#: `launch.py budgets` finds those that fit the data.
TOKENS, SEGMENTS, MEDIA = 4096, 64, 4
GB = 1e9
#: Type of parameters.
_PARAMETERS = np.dtype(np.float32)


@dataclass(frozen=True)
class ImportedRun:
    """The result of an import.

    Attributes:
        folder: folder of the run.
        config: the configuration that was written.
        parts: release of each part of the model; None for random values.
        parameters: how many.
        bytes, seconds: bytes that were read, and seconds of reading them.
    """

    folder: Path
    config: Path
    parts: Mapping[str, str | None]
    parameters: int
    bytes: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """`{"folder", "config", "parts", "parameters", "bytes", "seconds"}`."""
        return {
            "folder": str(self.folder),
            "config": str(self.config),
            "parts": dict(self.parts),
            "parameters": self.parameters,
            "bytes": self.bytes,
            "seconds": self.seconds,
        }

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Parts, and where they come from."""
        return [(part, folder or "random values") for part, folder in self.parts.items()]


def import_release(
    source: str,
    out: Path,
    others: Mapping[str, str],
    dtype: str,
    devices: int,
    notify: Callable[[str], None] = lambda text: None,
) -> ImportedRun:
    """Make the folder of a run that begins with released weights.

    Args:
        source: a folder, or `organisation/name[@revision]` of a hub: a whole model, or a decoder.
        out: the folder; nothing is there if this fails.
        others: by name, a folder or hub id that an encoder comes from, which gets a new
            connector.
        dtype: type of activations, as `model.dtype`; parameters are float32.
        devices: number of devices of the configuration.
        notify: shows a line of progress.

    Raises:
        PretrainedError: a checkpoint cannot be had, or is not what it should be; `out` is there.
        ConfigError: the configuration could not be used: `out` is no name of a run, or the model
            cannot be shared among so many devices.
        OSError: `out` cannot be written.
    """
    if out.exists():
        raise PretrainedError(f"{out} is there already; choose another --out")
    imported: list[ImportedRun] = []

    def write(draft: Path) -> None:
        # Files that are fetched into the draft lie in `out` in the end.
        folders = {
            name: fetch_release(source_of_part, draft / RELEASED / name, notify)
            for name, source_of_part in {BACKBONE: source, **others}.items()
        }
        imported.append(_write_run(draft, out, folders, bool(others), dtype, devices, notify))

    put_folder(out, write)
    return imported[0]


def released_experiment(folder: Path) -> dict[str, Any]:
    """Values of an experiment with a whole model as its release has it, on one device.

    Raises:
        PretrainedError: there is no such release, or it has no decoder.
    """
    if not folder.is_dir():
        raise PretrainedError(f"{folder} is no folder; valid: the folder of a released checkpoint")
    source = folder.absolute()
    settings = _model_settings({BACKBONE: source}, joined=False, dtype="auto")
    values = run_configuration(settings, str(source), str(source), source, 1)
    # What others' prompts for it are.
    return values | {"data": values["data"] | {"answers_begin": "header"}}


def _write_run(
    draft: Path,
    out: Path,
    folders: Mapping[str, Path],
    joined: bool,
    dtype: str,
    devices: int,
    notify: Callable[[str], None],
) -> ImportedRun:
    settings = _model_settings(folders, joined, dtype)
    pretrained = settings.pretrained
    releases = [Release.open(folder) for folder in dict.fromkeys(folders.values())]
    for release in releases:
        release.check_contents()
    final = _relocate_folders(pretrained, draft, out)
    processor = _write_processor(folders, draft) if joined else folders[BACKBONE]
    values = run_configuration(
        settings, final, _relocate_folders(str(processor), draft, out), out, devices
    )
    # In the draft the processor is there already, with the tokenizer that the vocabulary must hold.
    data = values["data"] | {"processor": str(processor)}
    if joined:
        _check_processor(settings, data, draft, out)
    resolve_config(values | {"data": data}, str(out / CONFIG))
    # Values are read once all else is known to be right, as that takes long.
    began = time.perf_counter()
    size = sum(check_values(release, notify) for release in releases)
    seconds = time.perf_counter() - began
    text = FILE_HEADER + yaml.safe_dump(values, sort_keys=False)
    (draft / CONFIG).write_text(text, encoding="utf-8")
    parts = settings.model_copy(update={"pretrained": final}).sources
    return ImportedRun(out, out / CONFIG, parts, _count_parameters(folders), size, seconds)


def _model_settings(folders: Mapping[str, Path], joined: bool, dtype: str) -> ModelConfig:
    """The model, and where its parts come from.

    Raises:
        PretrainedError: a release cannot be read, has no decoder, or the parts make no model.
    """
    first = Release.open(folders[BACKBONE])
    if first.released_model.decoder is None:
        names = list_names([*first.released_model.encoders])
        raise PretrainedError(
            f"{first.folder} has no decoder; it has {names}. Valid: a release with one; to join "
            f"{names} to a decoder, import it: --from DECODER --encoder {names}={first.folder}"
        )
    pretrained = _pretrained_value(folders, joined)
    model = compose_model(pretrained)
    if isinstance(pretrained, dict):
        modules = module_values(model, BACKBONE)
        decoder = modules.pop(BACKBONE)
        extra = str(folders[BACKBONE]) if decoder["extra_tokens"] else None
        if any(encoder.get("tiles") for encoder in modules.values()):
            # The newline after a row of tiles.
            decoder["extra_tokens"] = max(1, decoder["extra_tokens"])
        if decoder["extra_tokens"]:
            pretrained[f"{BACKBONE}.extra"] = extra
    try:
        if not joined and (heads := released_objectives(first.values)):
            model |= heads
            parts = ModelConfig.model_validate(model).parts
            pretrained = dict.fromkeys(parts, str(first.folder))
        return ModelConfig.model_validate({**model, "pretrained": pretrained, "dtype": dtype})
    except ValidationError as error:
        problems = "; ".join(detail["msg"] for detail in error.errors(include_url=False))
        raise PretrainedError(f"{list_names([*map(str, folders.values())])}: {problems}") from error


def _pretrained_value(folders: Mapping[str, Path], joined: bool) -> str | dict[str, str | None]:
    """The value of `model.pretrained`."""
    if not joined:
        return str(folders[BACKBONE])
    encoders = [name for name in folders if name != BACKBONE]
    connectors: dict[str, str | None] = {f"{name}.connector": None for name in encoders}
    return {name: str(folder) for name, folder in folders.items()} | connectors


def _write_processor(folders: Mapping[str, Path], draft: Path) -> Path:
    """A folder with the decoder's tokenizer, and how the encoder's media are made.

    Raises:
        PretrainedError: there is no tokenizer, or more than one encoder, for whose media there is
            no one file.
    """
    encoders = {name: folder for name, folder in folders.items() if name != BACKBONE}
    if len(encoders) > 1:
        raise PretrainedError(
            f"--encoder is given for {list_names([*encoders])}: one processor cannot make the "
            "media of several; valid: one encoder, or a configuration of your own with "
            "model.pretrained by part, data.tokenizer, "
            f"{', '.join(f'data.{kind}' for kind in MEDIA_TYPES)}"
        )
    if not (folders[BACKBONE] / TEXTS[0]).is_file():
        raise PretrainedError(
            f"{folders[BACKBONE]} has no {TEXTS[0]}, which an encoder is joined to; valid: a "
            "decoder's folder with its tokenizer and chat template"
        )
    merged = draft / PROCESSOR
    merged.mkdir()
    for path in (folders[BACKBONE] / name for name in TEXTS):
        if path.is_file():
            shutil.copyfile(path, merged / path.name)
    for folder in encoders.values():
        _put_media(folder, merged)
    return merged


def _put_media(folder: Path, merged: Path) -> None:
    """The processing of an encoder's media; nothing else of a whole model's processor.

    Its placeholders are tokens of another tokenizer. Raises PretrainedError.
    """
    processor = folder / "processor_config.json"
    for settings in (folder / PREPROCESSOR, folder / VIDEOS):
        if settings.is_file() and Release.open(folder).released_model.decoder is None:
            shutil.copyfile(settings, merged / settings.name)
        elif settings.is_file():
            values = {
                key: value
                for key, value in _read_json(settings).items()
                if key != "processor_class"
            }
            (merged / settings.name).write_text(json.dumps(values, indent=1), encoding="utf-8")
    if processor.is_file():
        keys = released_processors().processor_keys
        values = {key: value for key, value in _read_json(processor).items() if key in keys}
        (merged / processor.name).write_text(json.dumps(values, indent=1), encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise PretrainedError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise PretrainedError(f"{path} holds a {type(values).__name__}, not an object")
    return values


def _check_processor(model: ModelConfig, data: Mapping[str, Any], draft: Path, out: Path) -> None:
    """Check that text and media of different releases make samples of the model.

    Raises:
        PretrainedError: the parts do not fit together.
    """
    try:
        make_processor(
            DataConfig.model_validate(data), row_specs(model), released=released_processors()
        )
    except DataError as error:
        problem = str(error).replace(str(draft), str(out))
        raise PretrainedError(
            f"the decoder's tokenizer and the encoder's media make no processor: {problem}"
        ) from error


def _relocate_folders(value: Any, draft: Path, out: Path) -> Any:
    """Folders of the draft as they are called in the end."""
    if isinstance(value, dict):
        return {key: _relocate_folders(inner, draft, out) for key, inner in value.items()}
    if value is None or not Path(value).is_relative_to(draft):
        return value
    return str(out.absolute() / Path(value).relative_to(draft))


def fetch_release(source: str, folder: Path, notify: Callable[[str], None]) -> Path:
    """The local folder of a checkpoint; one of a hub is fetched, and put into `folder`.

    It is fetched into the hub's cache, so that a second try goes on where the first one failed.

    Raises:
        PretrainedError: there is none.
    """
    local = Path(source)
    if local.is_dir():
        return local.absolute()
    match = _HUB.fullmatch(source)
    if match is None:
        raise PretrainedError(
            f"{source} is no folder; valid: a folder, or organisation/name[@revision] of a hub"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    notify(f"fetching {source}")
    try:
        snapshot = snapshot_download(
            match["id"], revision=match["revision"], allow_patterns=list(FETCHED)
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PretrainedError(
            f"{source} is no folder, and cannot be fetched from the hub: {reason}"
        ) from error
    _link_files(Path(snapshot), folder)
    # The cache calls the folder of a snapshot by its commit.
    ReleaseOrigin(match["id"], Path(snapshot).name).write(folder)
    return folder


def _link_files(snapshot: Path, folder: Path) -> None:
    """Put what a snapshot of the cache holds into `folder`, without a copy where that can be."""
    for path in snapshot.rglob("*"):
        if not any(path.match(pattern) for pattern in FETCHED) or not path.is_file():
            continue
        place = folder / path.relative_to(snapshot)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path.resolve(), place)
        except OSError:  # another file system, or one without links
            shutil.copyfile(path, place)


def check_values(release: Release, notify: Callable[[str], None]) -> int:
    """Look at every value of a checkpoint; its bytes.

    Raises:
        PretrainedError: tensors are missing, too many or misshapen, or hold NaN, infinity or
            numbers that no float32 holds.
    """
    release.check_contents()
    used = {name for rule in release.every_rule for name in rule.names}
    out_of_range = {
        name: find_overflow_in_chunks(release.tensors[name].iterate_chunks(), _PARAMETERS)
        for name in sorted(used)
    }
    bad = [
        f"{name} {describe_overflow(number, _PARAMETERS)}"
        for name, number in out_of_range.items()
        if number is not None
    ]
    if bad:
        raise PretrainedError(
            f"{release.folder}: {len(bad)} tensors hold values that are infinite, no numbers or "
            f"too large: {list_names(bad)}"
        )
    size = sum(release.tensors[name].map_weights().nbytes for name in used)
    notify(
        f"{release.folder}: {release.release_format.name}, {len(used)} tensors, {size / GB:.3g} GB"
    )
    if release.left_over:
        notify(f"not used: {list_names(release.left_over)}")
    return size


def _count_parameters(folders: Mapping[str, Path]) -> int:
    """Rules of all modules that are taken from the releases."""
    total = 0
    for name, folder in folders.items():
        release = Release.open(folder)
        rules = release.part_rules(name, BACKBONE) if len(folders) > 1 else release.every_rule
        total += sum(
            release.tensors[tensor].map_weights().size for rule in rules for tensor in rule.names
        )
    return total


FILE_HEADER = """\
# Made by `launch.py import`. Set data.source to the data, let `launch.py budgets` choose
# data.budgets and `launch.py plan` the plans; then `launch.py train --config` this file.
"""


def run_configuration(
    model: ModelConfig, pretrained: Any, processor: str, out: Path, devices: int
) -> dict[str, Any]:
    """Values of an experiment that trains the whole model, sharded over all devices."""
    model_values = model.model_dump(mode="json") | {"pretrained": pretrained}
    budgets = {"tokens": min(TOKENS, model.backbone_config.max_positions), "segments": SEGMENTS}
    budgets |= {name: model.usual_row(name, MEDIA) for name in model.others}
    values = {
        "run": {"name": out.absolute().name, "directory": str(out.absolute().parent)},
        "model": model_values,
        "parallel": {
            "devices": devices,
            **sections_of_modules(
                {name: {"fsdp": devices} for name in model.modules}, model.backbone
            ),
        },
        "data": {
            "source": {"kind": "llava", "path": "DATA.json"},
            "processor": processor,
            "rows": devices,
            "budgets": budgets,
        },
        "train": {"steps": 1000, "learning_rate": 1e-5, "warmup_steps": 30, "weight_decay": 0.0},
    }
    loss, answers = model.graph.measured is not None, model.graph.writes
    evaluate = {"enabled": loss, "exact_match": answers} if loss else {"enabled": False}
    return values if answers else values | {"evaluate": evaluate}
