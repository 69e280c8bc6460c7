"""Answers measured against a user's references."""
