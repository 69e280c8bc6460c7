"""The search for the fastest strategy."""
