"""Panels of the page, a function for each."""
