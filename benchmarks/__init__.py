"""Benchmarks, each a file."""
