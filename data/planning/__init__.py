"""Contents of a step: from lengths of samples to packed, distributed and balanced rows."""
