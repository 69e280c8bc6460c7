"""Clips, and their log-mel frames."""
