"""Model families: decoders, encoders, connectors, and the functions that tie them together."""
