"""The train step, the loop around it, and the state of a run."""
