"""LLaVA: CLIP or SigLIP and a decoder of the Llama or Qwen families, as released."""
