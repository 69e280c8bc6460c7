"""Dashboards: services that keep the figures of a run, beside the files in its folder."""
