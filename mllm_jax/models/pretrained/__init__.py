"""Released weights: safetensors folders in and out, and how their tensors become parameters."""
