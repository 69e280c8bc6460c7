"""Processes, folders, signals, caches and exit codes of a run; no training."""
