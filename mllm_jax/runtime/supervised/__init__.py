"""What supervisors and their processes tell each other on one machine."""
