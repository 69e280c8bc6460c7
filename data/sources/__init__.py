"""Sources of samples: what they are, which there are, and in which order samples come up."""
