"""What a run tells: metrics, skipped samples, and where they are written."""
