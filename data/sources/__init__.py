"""Sources of samples, and the order in which samples come up."""
