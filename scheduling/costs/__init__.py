"""Costs of a step: work, hardware, seconds and bytes."""
