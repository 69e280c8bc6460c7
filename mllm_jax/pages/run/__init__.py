"""The report of a run: one HTML page without network, from the files in the run's folder.

::

    metrics.jsonl, attempts/, skipped.jsonl, resolved.yaml, summary.json
        -> RunFiles (`files.py`) -> panels (`panels/`), drawn with `mllm_jax.pages.html`
        -> page (`page.py`)
"""
