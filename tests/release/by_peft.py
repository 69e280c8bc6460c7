"""Adapters that this framework exports, as peft loads them into LLaVA-1.5."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import LlavaForConditionalGeneration

from tests.parity.checkpoint import ROOT, Arrays, compact, write_arrays, write_json
from tests.parity.language import last_logits, outputs
from tests.parity.llava import LLAVA, stored_inputs, stored_mask
from tests.release.adapted import STORED, exported

EXPORTED_NAME = STORED.name


def loaded(folder: Path) -> Any:
    """LLaVA with the adapters of a folder, every tensor of which has found its place.

    Raises:
        ValueError: peft holds other tensors than the folder.
    """
    base = LlavaForConditionalGeneration.from_pretrained(ROOT / LLAVA.name, dtype=torch.float32)
    base.set_attn_implementation("eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # of missing keys
        warnings.simplefilter("ignore", FutureWarning)  # between versions of peft and transformers
        model = PeftModel.from_pretrained(base, folder).eval()
    given = load_file(folder / "adapter_model.safetensors")
    # Beside the adapter of a head, peft keeps the head's own weights as well.
    found = get_peft_model_state_dict(model, save_embedding_layers=False)
    wrong = given.keys() ^ found.keys()
    wrong |= {name for name in given.keys() & found.keys() if not given[name].equal(found[name])}
    if wrong:
        raise ValueError(f"{folder}: peft holds other tensors: {sorted(wrong)}")
    return model


def computed(folder: Path) -> Arrays:
    """`<chat>.logits` at the last two tokens and `<chat>.loss` with the adapters of a folder."""
    model, stored = loaded(folder), np.load(ROOT / LLAVA.name / "inputs.npz")
    arrays: dict[str, Any] = {}
    for chat in LLAVA.chats:
        with torch.no_grad():
            states = outputs(model, stored_inputs(stored, chat), stored_mask(stored, chat))
        arrays[f"{chat}.logits"] = last_logits(states, [states["nll"].shape[1]], count=2)
        arrays[f"{chat}.loss"] = states["nll"].sum()
    return {name: compact(value) for name, value in arrays.items()}


def make_exported() -> None:
    """Write an export of adapters, and what LLaVA computes with them by peft."""
    folder = ROOT / EXPORTED_NAME
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with tempfile.TemporaryDirectory() as place:
        out = exported(Path(place))
        shutil.copy(out / "adapter_model.safetensors", folder)
        values = json.loads((out / "adapter_config.json").read_text())
        # It is the path of a folder of whoever makes this.
        write_json(folder / "adapter_config.json", values | {"base_model_name_or_path": None})
        write_arrays(folder / "expected.npz", computed(out))
