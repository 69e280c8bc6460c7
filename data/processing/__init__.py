"""Samples to examples: text and media of one sample, measured or read."""
