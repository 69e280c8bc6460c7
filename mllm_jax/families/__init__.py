"""Families of models: a folder each, which `registry` finds."""
