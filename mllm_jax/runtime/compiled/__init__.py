"""Compiled programs that are kept: by JAX between runs, or compiled ahead of time."""
