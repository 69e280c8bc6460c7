"""Checks of a whole configuration: sections, plans, schedule, and the choices that are offered."""
