"""Answers of a run, or of a released model, to prompts with media."""
