"""Multimodal LLM training on JAX: configuration, models, train loop."""
