"""A model's work and sizes for the cost model."""
