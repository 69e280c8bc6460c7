"""Listeners, which receive the events of training."""
