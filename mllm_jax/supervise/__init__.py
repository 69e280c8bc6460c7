"""Supervisors: one process on every host, without jax, that starts training again after faults."""
