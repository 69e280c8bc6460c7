"""Kinds of media: what an encoder takes of them, and how they become its inputs."""
