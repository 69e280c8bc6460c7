"""The messages of a run: their types, and the secret that those who send them share."""
