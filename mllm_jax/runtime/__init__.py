"""What keeps a run together: processes, folders, signals, caches and exit codes; no training."""
