"""Modules on devices of their own: a program per group of devices, driven by the host."""
