"""Snapshots of a run in the memory of its hosts."""
