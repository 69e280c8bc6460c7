"""What the model sees: one HTML page of the first samples of a run, as the loader packs them.

::

    config -> the loader that trains (`mllm_jax.train.feed.feed.open_single_loader`)
        -> Preview (`seen.py`) -> panels (`panels/`), drawn with `mllm_jax.pages.html`
        -> page (`page.py`)
"""
