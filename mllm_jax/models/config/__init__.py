"""Typed configuration of models."""
