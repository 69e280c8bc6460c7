"""Schedules, costs and their simulation; knows neither models nor data."""
