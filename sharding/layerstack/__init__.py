"""Runs of equal layers: forward and backward in scans, gathers ahead, split backwards."""
