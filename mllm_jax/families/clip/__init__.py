"""CLIP (arXiv 2103.00020)."""
