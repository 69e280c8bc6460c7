"""Configurations: their keys, their checks, and the step that they describe; no jax here."""
