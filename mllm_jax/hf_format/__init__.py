"""Tools for released weights: their files, and how a family says what its tensors become."""
