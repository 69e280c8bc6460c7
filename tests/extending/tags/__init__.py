"""The worked example of docs/extending/objective.md."""
