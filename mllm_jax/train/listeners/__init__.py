"""Listeners: what hears the events of training."""
