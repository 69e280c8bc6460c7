"""Copies of checkpoints at a URL: `s3://`, `gs://`, or any other file system of fsspec.

`store.py` has what lies there, `copier.py` copies beside training, and `remote_checkpoints.py` is
what a start finds there.
"""
