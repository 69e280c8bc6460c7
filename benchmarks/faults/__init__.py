"""Faults that are brought about on purpose, on hosts that this machine plays."""
