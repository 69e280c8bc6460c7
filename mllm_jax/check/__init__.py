"""Checks and pictures of the configured step."""
