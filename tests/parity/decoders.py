"""Decoders: Llama 3, Qwen2, Qwen2.5 and Qwen3; with experts Mixtral, Qwen2-MoE and Qwen3-MoE."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    LlamaForCausalLM,
    MixtralForCausalLM,
    Qwen2ForCausalLM,
    Qwen2MoeForCausalLM,
    Qwen3ForCausalLM,
    Qwen3MoeForCausalLM,
)

from tests.parity.chats import save_text_chats
from tests.parity.checkpoint import SEED, Checkpoint, Tensors, write_arrays
from tests.parity.generated import save_generated
from tests.parity.language import check_rows, filled, last_logits, outputs, packed
from tests.parity.texts import LLAMA3_TEXT, QWEN_TEXT

SIZES = {
    "hidden_act": "silu",
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "attention_dropout": 0.0,
    "use_cache": True,
    "torch_dtype": "bfloat16",
}
LLAMA3 = {
    **SIZES,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 280,
    "eos_token_id": [281, 284],
    "max_position_embeddings": 2048,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 256,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "transformers_version": "4.43.0",
    "vocab_size": 288,
}
QWEN2 = {
    **SIZES,
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "bos_token_id": 120,
    "eos_token_id": 122,
    "max_position_embeddings": 2048,
    "max_window_layers": 24,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 2048,
    "tie_word_embeddings": True,
    "transformers_version": "4.40.1",
    "use_sliding_window": False,
    "vocab_size": 128,
}
# As transformers 5 writes it: rope_parameters, dtype, layer_types.
QWEN2_5 = {
    **{key: value for key, value in SIZES.items() if key != "torch_dtype"},
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "bos_token_id": 280,
    "dtype": "bfloat16",
    "eos_token_id": 282,
    "layer_types": ["full_attention", "full_attention"],
    "max_position_embeddings": 2048,
    "max_window_layers": 28,
    "pad_token_id": None,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": "5.23.0",
    "use_sliding_window": False,
    "vocab_size": 288,
}
QWEN3 = {
    **SIZES,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "bos_token_id": 120,
    "eos_token_id": 122,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "max_window_layers": 28,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "transformers_version": "4.51.0",
    "use_sliding_window": False,
    "vocab_size": 128,
}
MIXTRAL = {
    **SIZES,
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 2048,
    "num_experts_per_tok": 2,
    "num_local_experts": 4,
    "output_router_logits": False,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.02,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": "4.36.0.dev0",
    "vocab_size": 128,
}
# Every second layer has experts, and a shared one.
QWEN2_MOE = {
    **SIZES,
    "architectures": ["Qwen2MoeForCausalLM"],
    "model_type": "qwen2_moe",
    "bos_token_id": 120,
    "decoder_sparse_step": 2,
    "eos_token_id": 122,
    "max_position_embeddings": 2048,
    "max_window_layers": 21,
    "mlp_only_layers": [],
    "moe_intermediate_size": 16,
    "norm_topk_prob": False,
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "output_router_logits": False,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 40,
    "sliding_window": 2048,
    "tie_word_embeddings": False,
    "transformers_version": "4.39.0.dev0",
    "use_sliding_window": False,
    "vocab_size": 128,
}
QWEN3_MOE = {
    **SIZES,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "attention_bias": False,
    "bos_token_id": 120,
    "decoder_sparse_step": 1,
    "eos_token_id": 122,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "moe_intermediate_size": 16,
    "norm_topk_prob": True,
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "transformers_version": "4.51.0",
    "use_sliding_window": False,
    "vocab_size": 128,
}
LENGTHS = (20, 13, 7)
PACKED = 24  # tokens of the row that holds the last two texts


def _head(stored: Tensors) -> Tensors:
    """Released Qwen3 checkpoints hold the tied head a second time."""
    return {"lm_head.weight": stored["model.embed_tokens.weight"].clone()}


_BF16 = torch.bfloat16
CHECKPOINTS = (
    Checkpoint("llama3", LlamaForCausalLM, LLAMA3, _BF16, shard="30KB"),
    Checkpoint("qwen2", Qwen2ForCausalLM, QWEN2, _BF16),
    Checkpoint("qwen2_5", Qwen2ForCausalLM, QWEN2_5, _BF16),
    Checkpoint("qwen3", Qwen3ForCausalLM, QWEN3, _BF16, extra=_head),
    Checkpoint("mixtral", MixtralForCausalLM, MIXTRAL, _BF16),
    Checkpoint("qwen2_moe", Qwen2MoeForCausalLM, QWEN2_MOE, _BF16),
    Checkpoint("qwen3_moe", Qwen3MoeForCausalLM, QWEN3_MOE, _BF16),
)
TOKENIZERS = {"llama3": LLAMA3_TEXT, "qwen2_5": QWEN_TEXT}
_LAYER, _SPARSE = "model.layers.0.", "model.layers.1.mlp."
_COMMON = (
    "model.embed_tokens.weight",
    "model.norm.weight",
    f"{_LAYER}input_layernorm.weight",
    *(f"{_LAYER}self_attn.{name}_proj.weight" for name in "qkv"),
)
#: Gradients that are stored, by the names of the released weights.
GRADIENTS = {
    "llama3": (*_COMMON, f"{_LAYER}mlp.down_proj.weight"),
    "qwen2": tuple(f"{_LAYER}self_attn.{name}_proj.bias" for name in "qkv"),
    "qwen2_5": (),
    "qwen3": (*_COMMON, *(f"{_LAYER}self_attn.{name}_norm.weight" for name in "qk")),
    "mixtral": (
        *_COMMON,
        f"{_LAYER}block_sparse_moe.gate.weight",
        *(f"{_LAYER}block_sparse_moe.experts.{n}.w{m}.weight" for n in (0, 3) for m in (1, 2, 3)),
    ),
    "qwen2_moe": (
        f"{_LAYER}mlp.down_proj.weight",
        f"{_SPARSE}gate.weight",
        f"{_SPARSE}experts.5.up_proj.weight",
        f"{_SPARSE}shared_expert.down_proj.weight",
        f"{_SPARSE}shared_expert_gate.weight",
    ),
    "qwen3_moe": (
        f"{_LAYER}mlp.gate.weight",
        *(f"{_SPARSE}experts.{n}.{m}_proj.weight" for n in (1, 4) for m in ("gate", "down")),
    ),
}


def make(checkpoint: Checkpoint) -> None:
    """Write one decoder's folder."""
    model = checkpoint.build()
    checkpoint.save(model)
    inputs = _inputs(checkpoint.config["vocab_size"])
    write_arrays(checkpoint.folder / "inputs.npz", inputs)
    write_arrays(checkpoint.folder / "expected.npz", _expected(checkpoint, model, inputs))
    padded = zip(inputs["padded.input_ids"], LENGTHS, strict=True)
    prompts = {f"text_{n}": _prompt(ids[:length]) for n, (ids, length) in enumerate(padded)}
    save_generated(checkpoint, model, prompts)
    if checkpoint.name in TOKENIZERS:
        save_text_chats(checkpoint.folder, TOKENIZERS[checkpoint.name])


def _prompt(ids: torch.Tensor) -> Tensors:
    return {"input_ids": ids[None], "attention_mask": torch.ones_like(ids)[None]}


def _inputs(vocab: int) -> Tensors:
    generator = torch.Generator().manual_seed(SEED)
    texts = [torch.randint(0, vocab - 8, (length,), generator=generator) for length in LENGTHS]
    width = max(LENGTHS)
    places = [torch.arange(length) for length in LENGTHS[1:]]
    numbers = [torch.full_like(place, n + 1) for n, place in enumerate(places)]
    return {
        "single.input_ids": texts[0][None],
        "padded.input_ids": torch.stack([filled(text, width) for text in texts]),
        "padded.attention_mask": torch.stack([filled(torch.ones_like(t), width) for t in texts]),
        "padded.position_ids": torch.arange(width).expand(len(texts), -1),
        "packed.input_ids": filled(torch.cat(texts[1:]), PACKED)[None],
        "packed.segment_ids": filled(torch.cat(numbers), PACKED)[None],
        "packed.position_ids": filled(torch.cat(places), PACKED)[None],
    }


def _expected(checkpoint: Checkpoint, model: Any, inputs: Tensors) -> dict[str, Any]:
    ids, mask = inputs["padded.input_ids"], inputs["padded.attention_mask"]
    padded = outputs(model, {"input_ids": ids, "attention_mask": mask})
    alone = [
        outputs(model, {"input_ids": row[None, :length]})
        for row, length in zip(ids, LENGTHS, strict=True)
    ]
    check_rows(padded, alone)
    single, row = alone[0], packed(alone[1:], PACKED)
    loss = padded["nll"].sum()
    arrays = {f"single.{name}": single[name] for name in ("layer_0", "hidden", "nll")}
    arrays["single.logits"] = last_logits(single, LENGTHS[:1], count=2)
    arrays |= {"padded.logits": last_logits(padded, LENGTHS), "padded.nll": padded["nll"]}
    arrays |= {f"packed.{name}": row[name] for name in ("hidden", "nll")}
    arrays["packed.logits"] = torch.cat([text["logits"][:, -1] for text in alone[1:]])[None]
    gradients = checkpoint.gradients(model, loss, GRADIENTS[checkpoint.name])
    return {**arrays, "padded.loss": loss, **gradients}
