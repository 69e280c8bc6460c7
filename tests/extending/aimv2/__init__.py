"""AIMv2's vision transformer, added as docs/extending.md tells."""
