"""Neighbourhoods of graphs, the second worked example of docs/extending/media.md."""
