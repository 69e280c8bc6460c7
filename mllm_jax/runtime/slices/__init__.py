"""Slices of GPUs: a process for each, under NVIDIA's Multi-Process Service (MPS)."""
