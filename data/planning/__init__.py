"""Contents of a step: from lengths of samples to packed, dealt and balanced rows."""
