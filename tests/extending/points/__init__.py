"""An encoder of point clouds, the kind of media of docs/extending/media.md."""
