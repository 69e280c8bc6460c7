"""Plans for a configuration, and predictions of a step's time and memory."""
