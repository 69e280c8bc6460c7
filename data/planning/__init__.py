"""What a step holds: from lengths to packed, dealt and balanced rows."""
