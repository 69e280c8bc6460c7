"""Checks of a configuration: sections, plans, schedule, and the choices that are offered."""
