"""Videos."""
