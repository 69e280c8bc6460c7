"""Random checkpoints in the released form, and arrays beside them."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from huggingface_hub import save_torch_state_dict
from safetensors.torch import load_file
from transformers.models.whisper.modeling_whisper import sinusoids

ROOT = Path(__file__).parent
VERSIONS = (
    f"torch {torch.__version__.partition('+')[0]}",
    f"transformers {transformers.__version__}",
)
SEED = 20_240_601
#: What is the same up to the order of summation.
CLOSE: dict[str, Any] = {"atol": 1e-5, "rtol": 1e-5}

Arrays = dict[str, np.ndarray]
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """The stored checkpoint of one family.

    Attributes:
        name: of its folder.
        model: the class of transformers.
        config: `config.json` as released, small.
        stored: type of the stored weights; all is computed in float32 from the stored values.
        renames: `(pattern, replacement)` from the names that transformers 5 saves to the released.
        extra: released tensors that no parameter has (buffers, copies), given the stored ones.
        shard: largest shard, as huggingface_hub writes it.
    """

    name: str
    model: Any
    config: dict[str, Any]
    stored: torch.dtype = torch.float32
    renames: tuple[tuple[str, str], ...] = ()
    extra: Any = None
    shard: str = "1GB"

    @property
    def folder(self) -> Path:
        """The folder of the checkpoint."""
        return ROOT / self.name

    def build(self) -> Any:
        """The model with random weights, ready to be evaluated."""
        config = self.model.config_class.from_dict(json.loads(json.dumps(self.config)))
        model = self.model(config).float()
        randomise(model, self.stored)
        model.set_attn_implementation("eager")
        return model.eval()

    def released(self, model: Any, tensors: Tensors) -> Tensors:
        """Tensors that are named as `model`'s parameters, under their released names."""
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder, state_dict=tensors)
            saved = load_file(Path(folder) / "model.safetensors")
        return {self._rename(name): tensor for name, tensor in saved.items()}

    def _rename(self, name: str) -> str:
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return name

    def save(self, model: Any) -> None:
        """Write `config.json` and the weights into an emptied folder, and read them back."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        stored = self.released(model, model.state_dict())
        stored |= self.extra(stored) if self.extra else {}
        kept = {name: self._as_stored(stored[name]) for name in sorted(stored)}
        save_torch_state_dict(kept, self.folder, max_shard_size=self.shard)
        write_json(self.folder / "config.json", self.config)
        self._check(model)

    def _as_stored(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.stored).contiguous() if tensor.is_floating_point() else tensor

    def _check(self, model: Any) -> None:
        """Check that transformers reads the written checkpoint with no missing or unknown names."""
        again, report = self.model.from_pretrained(
            self.folder, dtype=torch.float32, output_loading_info=True
        )
        problems = {kind: found for kind, found in report.items() if found}
        if problems:
            raise ValueError(f"{self.name}: {problems}")
        expected, found = model.state_dict(), again.state_dict()
        wrong = [name for name in expected if not torch.equal(expected[name], found[name])]
        if wrong or expected.keys() != found.keys():
            raise ValueError(f"{self.name}: read back differently: {wrong}")

    def gradients(self, model: Any, loss: torch.Tensor, names: tuple[str, ...]) -> Arrays:
        """`gradient.<name>` of `loss` with respect to weights by their released names."""
        model.zero_grad()
        loss.backward()
        zero = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        have = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        released = self.released(model, zero | have)
        return {f"gradient.{name}": released[name].numpy() for name in names}


def randomise(model: Any, stored: torch.dtype) -> None:
    """Draw every parameter, in values that `stored` can hold, so that no activation is extreme.

    Norms and biases are away from one and zero. Whisper's table of positions holds its sinusoids.
    """
    generator = torch.Generator().manual_seed(SEED)
    tied = bool(getattr(model.config.get_text_config(), "tie_word_embeddings", False))
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        value = _value(name, noise, 0.25 if tied else 1.0)
        parameter.data = value.to(stored).float()


def _value(name: str, noise: torch.Tensor, embedding: float) -> torch.Tensor:
    if re.search(r"(encoder|audio_tower)\.embed_positions", name):
        return sinusoids(*noise.shape)
    if "embed" in name and "patch" not in name:
        return noise * (embedding if "tok" in name else 0.5)
    if name.endswith("bias"):
        return 0.2 * noise
    if noise.ndim < 2:
        return 1 + 0.2 * noise if "norm" in name else noise
    return noise / noise[0].numel() ** 0.5


def probe(state: torch.Tensor) -> torch.Tensor:
    """Weights for an encoder's states, which make a loss whose gradients are of order one."""
    return torch.randn(state.shape, generator=torch.Generator().manual_seed(SEED)) / 16


def write_json(path: Path, value: Any) -> None:
    """Indented JSON with a line's end."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """A compressed npz with the versions; int32, float32 or bool.

    Raises:
        ValueError: a value that is not finite.
    """
    kept: dict[str, Any] = {name: compact(value) for name, value in arrays.items()}
    for name, value in kept.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{path.name}: {name} is not finite")
    np.savez_compressed(path, versions=np.array(VERSIONS), **kept)


def compact(value: Any) -> np.ndarray:
    """The array in one of the types int32, float32, uint8, int16 and bool."""
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.dtype in (np.uint8, np.int16, np.bool_):
        return array
    return array.astype(np.float32 if np.issubdtype(array.dtype, np.floating) else np.int32)
