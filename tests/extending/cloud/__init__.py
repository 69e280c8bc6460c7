"""Point clouds, the worked example of docs/extending/media.md."""
