"""Records of a run: metrics, skipped samples, and where they are written."""
