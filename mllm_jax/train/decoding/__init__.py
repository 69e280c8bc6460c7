"""Answers written token by token, with a cache, under the plans of a run."""
