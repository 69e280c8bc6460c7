"""Costs of modules that share a device, measured on the machine at hand."""
