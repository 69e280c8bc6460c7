"""Compiling for devices that are not here, and reading what was compiled."""
