"""Qwen2-Audio: Whisper's encoder, and Qwen2, as released."""
