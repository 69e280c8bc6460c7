"""Steps of modules on groups of devices, simulated."""
