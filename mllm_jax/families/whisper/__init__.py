"""Whisper (arXiv 2212.04356)."""
