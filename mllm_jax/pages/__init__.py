"""Pages to look at: one HTML file each, which needs no network.

::

    panels, made with `markup.py` and `charts.py` -> `document.py` with page.css and page.js

`mllm_jax.report` shows a run, `mllm_jax.preview` what the model sees.
"""
