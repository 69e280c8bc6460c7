"""Plans for a configuration, and what a step is predicted to take."""
