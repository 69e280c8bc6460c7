"""Samples, packing and the deterministic loader (numpy only, no jax here).

Reading order: `sample.py` says what a sample is, `rows/` what batches hold, `media/` and `text/`
how a sample's media and text become inputs; `processing/` joins both, `hf_format/` does the same by
the files of a released model. `sources/` provides samples, `sources/formats/` reads the files that
hold them. `planning/` decides from lengths alone which sample goes to which row of which step
(`lengths.py`, `packing.py`, `steps.py`, `row_assignment.py`, `balance.py`, `layout.py`,
`stream.py`), and `loading/` reads the planned samples (`assemble.py`, `loader.py`; `on_read.py` if
lengths are not known before).
"""
