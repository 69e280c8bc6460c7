"""A run's newest checkpoint as a released one, for other programs to load."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.folders import put_folder
from mllm_jax.hf_format.configs import CONFIG
from mllm_jax.hf_format.dtype_ranges import report_underflows
from mllm_jax.hf_format.files import PretrainedError
from mllm_jax.models.pretrained.write import TensorDraft
from mllm_jax.release.export_files import ReleaseFiles, put_files
from mllm_jax.release.export_tensors import ReleaseTensors
from mllm_jax.release.model_card import model_card
from mllm_jax.release.run_export import RunExport
from mllm_jax.train.state.mirrors.remote_checkpoints import saved_parameters

CARD = "README.md"


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


def write_weights(run_export: RunExport, folder: Path) -> dict[str, int]:
    """Write tensors and `config.json`; return by tensor how many of its values became zero.

    Raises:
        RangeError: a value of a tensor is too large for the tensor's type, or no number.
    """
    tensors = ReleaseTensors(run_export)
    draft, zeros = TensorDraft.create_files(folder, tensors.tensor_specs()), dict[str, int]()
    for name, rule in run_export.rules:
        for released, tensor in zip(rule.names, tensors.layer_tensors(name, rule), strict=True):
            zeros[released] = draft.write_tensor(released, tensor)
    for name, tensor in run_export.filler_tensors.items():
        draft.write_tensor(name, tensor)
    for name in run_export.unmapped:
        assert run_export.source is not None
        draft.copy_tensor(name, run_export.source.tensors[name].map_any_type())
    text = json.dumps(ReleaseFiles(run_export).config_values, indent=2) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")
    return zeros


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
        out: the folder to create; it does not exist if this fails.
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
    release_files, specs = ReleaseFiles(run_export), ReleaseTensors(run_export).tensor_specs()
    files = [*release_files.files]  # before anything is written
    notify(
        f"step {run_export.saved.step} of {run} as {release_files.model_type}: {len(specs)} tensors"
    )

    def write(folder: Path) -> None:
        for line in report_underflows(
            write_weights(run_export, folder), run_export.dtype or "the types of the release"
        ):
            notify(line)
        put_files(release_files.files, folder)
        text = model_card(
            release_files.model_type,
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
        release_files.model_type,
        run_export.saved.step,
        len(specs),
        size,
        len(run_export.unmapped),
        tuple(files),
    )
