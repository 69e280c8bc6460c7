"""AIMv2's vision transformer, the worked example of docs/extending/encoder.md."""
