"""Compiled programs that are stored: by JAX between runs, or compiled ahead of time."""
