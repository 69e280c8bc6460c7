"""Dashboards: services that store the figures of a run, in addition to the files in its folder."""
