"""Formats in which samples are stored."""
