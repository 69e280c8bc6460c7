"""LLaVA-OneVision: SigLIP on tiles of images, and Qwen2, as released."""
