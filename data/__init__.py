"""Samples, packing and the deterministic loader (numpy only, no jax here).

Reading order: `sample.py` (what a sample is), `processor.py` (tokens, patches, log-mel frames; by
`chat.py` and `readers.py` as configured, by `released/` as a released folder says), `lengths.py`
(how long all samples are), `packing.py`, `balance.py` and `dealing.py` (which sample goes to which
row), `order.py` (which sample is next), `plan.py` (the stream of step plans), `assemble.py` (plan
-> arrays), `loader.py` (all of it as one Grain pipeline), `on_read.py` (where lengths are not known
before). `sources/` has the formats: `record.py` says what a record of any of them is, `storage.py`
where files are.
"""
