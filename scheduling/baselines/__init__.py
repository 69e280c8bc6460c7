"""What others would do with the same model and devices."""
