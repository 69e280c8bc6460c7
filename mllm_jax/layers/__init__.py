"""Layers that families are made of, as pure functions of parameters."""
