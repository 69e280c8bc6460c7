"""Environments of processes that clusters have started."""
