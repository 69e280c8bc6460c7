"""Object stores on this machine, for tests."""
