"""What a step takes: work, hardware, seconds and bytes."""
