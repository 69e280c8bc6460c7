"""Planned microbatches, read and assembled to batches."""
