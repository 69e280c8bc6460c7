"""Attention within segments, and its implementations."""
