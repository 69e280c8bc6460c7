"""Batches of a run: the loader, and the training that batches are planned for."""
