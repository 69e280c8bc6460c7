"""Pages of HTML: one file each, which needs no network.

::

    panels, made with `html/markup.py` and `html/charts.py`
        -> `html/document.py` with page.css and page.js

`run` shows a run, `samples` what the model sees. `batch_page` makes a page of the reference.
"""
