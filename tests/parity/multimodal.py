"""Checkpoints of whole multimodal models: LLaVA-1.5, LLaVA-OneVision and Qwen2-Audio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.parity.chats import Chats, Message, answer_mask, renderings, save_texts, write_chats
from tests.parity.checkpoint import Checkpoint, Tensors, write_arrays, write_json
from tests.parity.generated import save_generated
from tests.parity.language import check_rows, last_logits, outputs
from tests.parity.texts import TextFiles

#: Tokens at the end of a conversation of which hidden states are stored.
LAST = 24


@dataclass(frozen=True)
class Multimodal:
    """The stored checkpoint of one family of whole models.

    Attributes:
        files: JSON files that configure the processor, by name.
        processor: makes the processor from the folder and the tokenizer.
        call: the processor's arguments for the media of several conversations.
        placeholder: the token at which outputs of the encoder are merged.
        chats: conversations; an image or audio part names its medium.
        gradients: of which weights, by their released names.
    """

    checkpoint: Checkpoint
    texts: TextFiles
    files: dict[str, dict[str, Any]]
    processor: Callable[[Any, Any], Any]
    call: Callable[[list[list[str]]], dict[str, Any]]
    placeholder: str
    chats: Chats
    gradients: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.checkpoint.name

    def make(self) -> None:
        """Write the folder."""
        model, folder = self.checkpoint.build(), self.checkpoint.folder
        self.checkpoint.save(model)
        for name, values in self.files.items():
            write_json(folder / name, values)
        tokenizer = save_texts(folder, self.texts)
        processor = self.processor(folder, tokenizer)
        cases = {name: self._case(processor, [name]) for name in self.chats}
        cases["batch"] = self._case(processor, list(self.chats))
        prompts = {name: self._prompt(processor, name) for name in self.chats}
        ids = {f"{name}.prompt_ids": prompt["input_ids"] for name, prompt in prompts.items()}
        write_chats(folder, tokenizer, self.chats)
        write_arrays(folder / "inputs.npz", _flat(_stored(cases)) | ids)
        write_arrays(folder / "expected.npz", self._expected(model, cases))
        save_generated(self.checkpoint, model, prompts)

    # ------------------------------------------------------------------ inputs

    def _case(self, processor: Any, names: list[str]) -> Tensors:
        """The processor's output for conversations, with `answer_mask`; padded on the right."""
        texts = [renderings(processor.tokenizer, self.chats[name])[0] for name in names]
        masks = [
            self._mask(processor, text, self.chats[name])
            for text, name in zip(texts, names, strict=True)
        ]
        found = self._process(processor, texts, [media_of(self.chats[name]) for name in names])
        ids, real = found["input_ids"], found["attention_mask"]
        learnt = torch.zeros_like(ids)
        written = (ids != self._token(processor)) & (real == 1)
        for row, (short, mask) in enumerate(masks):
            if ids[row][written[row]].tolist() != short:
                raise ValueError(f"{self.name}: {ids[row].tolist()} is not {short}")
            learnt[row][written[row]] = mask
        return {**found, "answer_mask": learnt}

    def _process(self, processor: Any, texts: list[str], media: list[list[str]]) -> Tensors:
        arguments = self.call(media) if any(media) else {}
        return dict(
            processor(
                text=texts,
                padding=True,
                padding_side="right",
                return_tensors="pt",
                **arguments,
            )
        )

    def _mask(
        self, processor: Any, text: str, messages: list[Message]
    ) -> tuple[list[int], torch.Tensor]:
        """Ids and answer mask of a conversation, without placeholders."""
        backend = processor.tokenizer.backend_tokenizer
        ids, mask = answer_mask(backend, text, messages, self.texts.begins)
        kept = np.array(ids) != self._token(processor)
        return np.array(ids)[kept].tolist(), torch.from_numpy(mask[kept]).long()

    def _prompt(self, processor: Any, name: str) -> Tensors:
        """Inputs up to where the last answer begins."""
        messages = self.chats[name]
        text = renderings(processor.tokenizer, messages)[1]
        return self._process(processor, [text], [media_of(messages)])

    def _token(self, processor: Any) -> int:
        return int(processor.tokenizer.convert_tokens_to_ids(self.placeholder))

    # ------------------------------------------------------------------ expected values

    def _expected(self, model: Any, cases: dict[str, Tensors]) -> dict[str, Any]:
        found = {name: self._run(model, inputs) for name, inputs in cases.items()}
        alone = [found[name] for name in self.chats]
        check_rows(found["batch"], alone)
        lengths = [int(m.sum()) for m in cases["batch"]["attention_mask"]]
        loss = found["batch"]["nll"].sum()
        arrays = {"batch.logits": last_logits(found["batch"], lengths), "batch.loss": loss}
        for name, states in zip(self.chats, alone, strict=True):
            arrays |= {f"{name}.{key}": values for key, values in _kept(states).items()}
        first = next(iter(self.chats))
        arrays[f"{first}.encoder"] = found[first]["encoder"]
        return arrays | self.checkpoint.gradients(model, loss, self.gradients)

    def _run(self, model: Any, inputs: Tensors) -> Tensors:
        arguments = {key: value for key, value in inputs.items() if key != "answer_mask"}
        with recorded(model.model) as seen:
            states = outputs(model, arguments, inputs["answer_mask"])
        if "projected" not in seen:
            return states
        token = getattr(model.config, "image_token_index", None) or model.config.audio_token_index
        features = seen["embedded"][inputs["input_ids"] == token]
        encoder = seen["encoder"]
        if "feature_attention_mask" in inputs:
            encoder = encoder * _heard(inputs["feature_attention_mask"], encoder.shape[1])
        return {**states, "encoder": encoder, "features": features}


def _kept(states: Tensors) -> Tensors:
    """The stored arrays of a conversation; of long arrays only the last tokens are stored."""
    tokens = states["nll"].shape[1]
    kept: Tensors = {name: states[name] for name in ("features", "nll") if name in states}
    kept |= {"hidden": states["hidden"][:, -LAST:], "loss": states["nll"].sum()}
    return kept | {"logits": last_logits(states, [tokens], count=2)}


def _heard(mask: torch.Tensor, positions: int) -> torch.Tensor:
    """[clips, positions, 1]: which outputs of the audio encoder are a clip's."""
    convolved = (mask.sum(-1) - 1) // 2 + 1
    pooled = (convolved - 2) // 2 + 1
    return (torch.arange(positions) < pooled[:, None]).float()[..., None]


@contextmanager
def recorded(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Fills a dict while the model runs: `encoder` and `projected`, what goes into the projector
    and comes out of it; `embedded`, the embeddings that go into the decoder."""
    seen: dict[str, torch.Tensor] = {}

    def project(_: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        seen.update(encoder=inputs[0], projected=output)

    def embed(_: Any, __: Any, keywords: dict[str, Any]) -> None:
        seen["embedded"] = keywords["inputs_embeds"]

    hooks = (
        model.multi_modal_projector.register_forward_hook(project),
        model.language_model.register_forward_pre_hook(embed, with_kwargs=True),
    )
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def media_of(messages: list[Message]) -> list[str]:
    """Names of a conversation's media, in order."""
    parts = [part for message in messages for part in _parts(message)]
    return [part[part["type"]] for part in parts if part["type"] != "text"]


def _parts(message: Message) -> list[dict[str, str]]:
    content = message["content"]
    return [] if isinstance(content, str) else content


def asks(*media: dict[str, str], text: str) -> Message:
    """A user's message with media before its text."""
    return {"role": "user", "content": [*media, {"type": "text", "text": text}]}


def answers(text: str) -> Message:
    """An assistant's message."""
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _stored(cases: dict[str, Tensors]) -> dict[str, Tensors]:
    """Without masks of ones, and the batch without media, which are those of its cases."""
    texts = ("input_ids", "attention_mask", "answer_mask")
    stored = {
        name: {key: value for key, value in case.items() if key != "attention_mask"}
        for name, case in cases.items()
    }
    return stored | {"batch": {key: cases["batch"][key] for key in texts}}


def _flat(cases: dict[str, Tensors]) -> dict[str, Any]:
    return {f"{case}.{name}": v for case, values in cases.items() for name, v in values.items()}
