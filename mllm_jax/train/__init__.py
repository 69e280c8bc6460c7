"""The train step, the loop around it, and what a run keeps."""
