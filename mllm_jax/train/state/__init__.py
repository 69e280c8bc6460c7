"""What a run keeps: parameters, the optimizer's moments, progress; checkpoints of them."""
