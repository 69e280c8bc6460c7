"""The adapters of a run in PEFT's format, to put next to the weights that it began with."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from data.folders import put_folder
from mllm_jax.hf_format.dtype_ranges import report_underflows
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.trainable import FrozenParts
from mllm_jax.models.pretrained.adapters import (
    CONFIG,
    PREFIX,
    TENSORS,
    SavedAdapters,
    adapter_rules,
)
from mllm_jax.models.pretrained.write import TensorDraft
from mllm_jax.release.export_files import ReleaseFiles, put_files
from mllm_jax.release.export_tensors import DTYPES, ReleaseTensors
from mllm_jax.release.export_weights import CARD, ExportedFiles
from mllm_jax.release.model_card import adapters_card
from mllm_jax.release.origin import ReleaseOrigin
from mllm_jax.release.parts import NO_ADAPTERS
from mllm_jax.release.run_export import RunExport
from mllm_jax.train.state.mirrors.remote_checkpoints import saved_parameters

#: Type of adapters, as they are trained.
_TRAINED = "float32"


@dataclass(frozen=True)
class AdapterExport:
    """The adapters of a run on their way out, and what lies in full next to them.

    Attributes:
        run_export: the run as a whole model.
    """

    run_export: RunExport

    @cached_property
    def rules(self) -> list[tuple[str, TensorRule]]:
        """Rules of adapters, with the dotted names of their parameters in the checkpoint.

        Raises:
            PretrainedError: the run has no adapters, or some have no place in the released form.
        """
        adapters = self.run_export.model.adapters
        if adapters is None:
            raise PretrainedError(NO_ADAPTERS)
        placed_rules, stored = list[tuple[str, TensorRule]](), self.run_export.stored_names
        for module, rules in self.run_export.release_format.rules(
            self.run_export.released_model
        ).items():
            place = self.run_export.module_places[module]
            module_rules = adapter_rules(rules, stored.of_disk(place), adapters)
            placed_rules += [(f"{place}.{rule.parameter}", rule) for rule in module_rules]
        places = {stored.of_disk(name).rpartition(".")[0] for name, _ in placed_rules}
        if missing := sorted(adapters.names - places):
            raise PretrainedError(
                f"{list_names(missing)} of train.lora have no place in "
                f"{self.run_export.release_format.name}; valid: export all weights, without "
                "--adapters"
            )
        return placed_rules

    @cached_property
    def full_rules(self) -> list[tuple[str, TensorRule]]:
        """Rules of what lies in full next to the adapters.

        These are connectors that trained, and weights that came with the first adapters.

        Raises:
            PretrainedError: another part trained, for which PEFT's format has no place, or the
                folder of the first adapters is gone.
        """
        placed_rules: list[tuple[str, TensorRule]] = []
        if lost := self._frozen_parts.fully_trained(self.run_export.model.parts):
            names = ", ".join(lost)
            raise PretrainedError(
                f"{names} trained in full, which has no place among adapters; valid: export all "
                f"weights, without --adapters, or train with {names} in train.freeze"
            )
        for part in filter(self._frozen_parts.trains, self.run_export.model.parts):
            start = f"{self.run_export.stored_names.on_disk(part)}."
            placed_rules += [
                placed for placed in self.run_export.rules if placed[0].startswith(start)
            ]
        return placed_rules + [
            placed for placed in self._initial_rules if placed not in placed_rules
        ]

    @property
    def _initial_rules(self) -> list[tuple[str, TensorRule]]:
        """Rules of weights that came in full with the adapters that training began with."""
        folder = self.run_export.config["train"]["lora"].get("begin_with")
        if folder is None:
            return []
        if not Path(folder).is_dir():
            raise PretrainedError(
                f"train.lora.begin_with: {folder} is gone, and only it tells which weights lay in "
                "full beside the first adapters; valid: the folder in its place, or an export of "
                "all weights, without --adapters"
            )
        tensors = SavedAdapters.open(Path(folder)).released_tensors(self.run_export.release_format)
        return [placed for placed in self.run_export.rules if tensors.keys() >= {*placed[1].names}]

    @cached_property
    def _frozen_parts(self) -> FrozenParts:
        return FrozenParts.from_config(
            self.run_export.config["train"]["freeze"], self.run_export.model.adapted
        )

    def tensor_names(self, rule: TensorRule) -> list[str]:
        """Names of a rule's tensors in PEFT's file."""
        return [PREFIX + self.run_export.release_format.module_name(name) for name in rule.names]

    def tensor_specs(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and type of every tensor."""
        every = (*self.rules, *self.full_rules)
        dtype = DTYPES[self.run_export.dtype or _TRAINED]
        return {
            name: (r.transform.released, dtype) for _, r in every for name in self.tensor_names(r)
        }

    def config_values(self) -> dict[str, Any]:
        """`adapter_config.json`."""
        lora = self.run_export.config["train"]["lora"]
        return {
            "peft_type": "LORA",
            "task_type": None,
            **self._base_weights(),
            "r": lora["rank"],
            "lora_alpha": lora["alpha"],
            "use_rslora": lora["rank_stabilized"],
            "lora_dropout": 0.0,
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "target_modules": "|".join(self._module_patterns()),
            "modules_to_save": self._saved_modules() or None,
        }

    def _base_weights(self) -> dict[str, str | None]:
        """The weights next to which the adapters are, as others find them if they can."""
        source = self.run_export.source
        if source and (origin := ReleaseOrigin.read_from(source.folder)):
            return {"base_model_name_or_path": origin.repository, "revision": origin.revision}
        return {"base_model_name_or_path": str(source.folder) if source else None}

    def _module_patterns(self) -> list[str]:
        """Patterns of the names of modules with adapters, with the numbers of their layers.

        A released encoder may have layers more, which are not read and have no adapters.
        """
        ends = re.compile(r"\.lora_[AB]\.weight$")
        modules = {ends.sub("", name) for _, rule in self.rules for name in self.tensor_names(rule)}
        layers = defaultdict[tuple[str, str], set[int]](set)
        patterns = set[str]()
        for name in (module.removeprefix(PREFIX) for module in modules):
            before, number, after, *_ = *re.split(r"\.(\d+)\.", name, maxsplit=1), "", ""
            if number:
                layers[before, after].add(int(number))
            else:
                patterns.add(re.escape(name))
        for (before, after), numbers in layers.items():
            numbers_pattern = "|".join(map(str, sorted(numbers)))
            patterns.add(rf"{re.escape(before)}\.({numbers_pattern})\.{re.escape(after)}")
        return sorted(patterns)

    def _saved_modules(self) -> list[str]:
        """Modules that are saved whole."""
        names = [name for _, rule in self.full_rules for name in self.tensor_names(rule)]
        return sorted({name.removeprefix(PREFIX).rpartition(".")[0] for name in names})

    def write_adapters(self, folder: Path) -> dict[str, int]:
        """Both files; by tensor, how many of its values became zero.

        Raises:
            RangeError: as of `RunExport.write_weights`.
        """
        draft, zeros = (
            TensorDraft.create_files(folder, self.tensor_specs(), single=TENSORS),
            dict[str, int](),
        )
        for name, rule in (*self.rules, *self.full_rules):
            for tensor, value in zip(
                self.tensor_names(rule),
                ReleaseTensors(self.run_export).layer_tensors(name, rule),
                strict=True,
            ):
                zeros[tensor] = draft.write_tensor(tensor, value)
        text = json.dumps(self.config_values(), indent=2) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")
        return zeros


def export_adapters(
    run: Path,
    out: Path,
    dtype: str | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> ExportedFiles:
    """Write the adapters of a run's newest checkpoint in PEFT's format.

    Args:
        run: folder of the run.
        out: the folder to make; nothing is there if this fails.
        dtype: type of all tensors; None: float32, as they are trained.
        notify: shows a line of progress.

    Raises:
        PretrainedError: the run has no adapters, a part has no place in the format, or a weight is
            too large for its type.
        CheckpointError: the run has no checkpoint, or it cannot be read.
        OSError: `out` cannot be written.
    """
    if out.exists():
        raise PretrainedError(f"{out} is there already; choose another --out")
    adapters = AdapterExport(RunExport(saved_parameters(run), dtype=dtype))
    specs, step = adapters.tensor_specs(), adapters.run_export.saved.step
    notify(f"adapters of step {step} of {run}: {len(specs)} tensors")

    def write(folder: Path) -> None:
        for line in report_underflows(adapters.write_adapters(folder), dtype or _TRAINED):
            notify(line)
        put_files(ReleaseFiles(adapters.run_export).text_files, folder)
        source = adapters.run_export.source
        text = adapters_card(
            step, adapters.run_export.config, str(source.folder) if source else None
        )
        (folder / CARD).write_text(text, encoding="utf-8")

    put_folder(out, write)
    size = (out / TENSORS).stat().st_size
    files = tuple(ReleaseFiles(adapters.run_export).text_files)
    return ExportedFiles(
        out, ReleaseFiles(adapters.run_export).model_type, step, len(specs), size, 0, files
    )
