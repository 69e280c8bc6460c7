"""Configurations: their keys, what is checked, and what they mean for a step; no jax here."""
