"""Planned steps, read and assembled to batches."""
