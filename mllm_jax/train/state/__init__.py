"""The state of a run: parameters, the optimizer's moments, progress; checkpoints of them."""
