"""Objectives: the losses that outputs of modules feed."""
