"""A look for silent corruption: other devices compute the same once more, bit for bit."""
