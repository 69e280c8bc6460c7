"""What the cost model must know of a model."""
