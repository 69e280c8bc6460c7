"""Stages of the backbone on devices of their own, inside its group."""
