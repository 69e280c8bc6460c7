"""Families of models: a folder each, with configuration, model, and released form."""
