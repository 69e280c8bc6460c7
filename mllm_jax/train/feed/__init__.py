"""Batches of a run: the loader, and what batches are planned for."""
