"""Compiling for devices that are not here, and reading the compiled text."""
