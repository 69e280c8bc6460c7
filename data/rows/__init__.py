"""Rows of arrays: their description, and how media and text are packed into them."""
