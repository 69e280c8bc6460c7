"""Encoder families."""
