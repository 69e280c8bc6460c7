"""Schedules of modules on groups of devices, which have columns of their own."""
