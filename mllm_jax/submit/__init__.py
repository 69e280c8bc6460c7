"""Runs as jobs of Slurm and Kubernetes: descriptions of clusters, generated files, submission."""
