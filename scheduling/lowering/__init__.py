"""Schedules compiled to tables that the executor reads."""
