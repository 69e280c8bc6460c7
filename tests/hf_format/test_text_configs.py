"""The decoder of a whole released model, from what the model and its decoder say."""

from __future__ import annotations

from typing import Any

import pytest

from mllm_jax.families.releases import read_text_decoder
from mllm_jax.hf_format.files import PretrainedError

OWN = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 100}


@pytest.mark.parametrize("own", [None, False, True])
@pytest.mark.parametrize("whole", [None, False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_embeddings_are_tied_where_the_model_or_its_decoder_says_so(
    kind: str, whole: bool | None, own: bool | None
) -> None:
    said = {} if own is None else {"tie_word_embeddings": own}
    values: dict[str, Any] = {"text_config": {"model_type": kind, **OWN, **said}}
    values |= {} if whole is None else {"tie_word_embeddings": whole}
    assert read_text_decoder(values, "llama").tie_embeddings == bool(whole or own)


def test_a_decoder_says_its_kind_or_has_that_of_the_model() -> None:
    assert read_text_decoder({"text_config": OWN}, "qwen2").family == "qwen2"
    assert (
        read_text_decoder({"text_config": {"model_type": "llama", **OWN}}, "qwen2").family
        == "llama"
    )
    with pytest.raises(PretrainedError, match="model_type 'gemma' is not that of a decoder"):
        read_text_decoder({"text_config": {"model_type": "gemma"}}, "llama")


@pytest.mark.parametrize(
    ("kind", "layers", "d_ff", "positions", "vocab"),
    [("llama", 32, 11008, 2048, 32000), ("qwen2", 32, 22016, 32768, 151936)],
)
def test_what_a_decoder_leaves_out_is_that_of_its_class(
    kind: str, layers: int, d_ff: int, positions: int, vocab: int
) -> None:
    """Defaults of `LlamaConfig` and `Qwen2Config` of transformers."""
    found = read_text_decoder({}, kind)
    assert (found.layers, found.d_ff, found.max_positions) == (layers, d_ff, positions)
    assert (found.d_model, found.heads, found.kv_heads) == (4096, 32, 32)
    assert (found.vocab, found.norm_eps, found.tie_embeddings) == (vocab, 1e-6, False)
