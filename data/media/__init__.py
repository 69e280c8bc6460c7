"""Kinds of media: their form as encoder inputs, and how they are read into it."""
