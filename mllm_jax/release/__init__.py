"""Released weights, in and out."""
