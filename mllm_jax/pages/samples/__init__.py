"""The preview of a run: one HTML page of its first samples, as the loader packs them.

::

    config -> the loader that trains (`mllm_jax.train.loading.loader.open_single_loader`)
        -> Preview (`preview.py`) -> panels (`panels/`), drawn with `mllm_jax.pages.html`
        -> page (`page.py`)
"""
