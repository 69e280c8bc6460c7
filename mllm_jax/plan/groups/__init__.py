"""Plans of modules in groups of devices: `launch.py plan --slices`."""
