"""Samples, packing and the deterministic loader (numpy only, no jax here).

Reading order: `sample.py` says what a sample is, `kinds/` and `text/` how its media and its text
become inputs, `processing/` both together, `released/` the same as a released folder says.
`sources/` has the samples, `sources/formats/` the files that they lie in. `planning/` decides from
lengths alone which sample goes to which row of which step (`lengths.py`, `packing.py`, `steps.py`,
`dealing.py`, `balance.py`, `stream.py`), and `loading/` reads what was planned (`assemble.py`,
`loader.py`; `on_read.py` where lengths are not known before).
"""
