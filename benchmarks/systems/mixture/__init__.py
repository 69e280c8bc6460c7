"""A moving mixture of media and text: one program that follows it, and plans that stay the same."""
