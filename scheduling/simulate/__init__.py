"""Steps simulated, and timelines to look at."""
