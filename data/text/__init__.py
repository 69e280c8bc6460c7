"""Text to ids."""
