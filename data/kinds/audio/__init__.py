"""Clips: log-mel frames of them."""
