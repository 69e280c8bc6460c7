"""Communication of supervisors and their processes on one machine."""
