"""Schedules as data: which task runs where and when."""
