"""Do the tests notice when the code is wrong? Breaks are drawn, made one at a time, and counted.

::

    python -m tests.breaks --seed 1 --count 60

A break changes one operator, constant or condition of one module (`points.py`). It is made in a
copy of the working tree, where the tests of the module's path run (`selection.py`); a break with
which all of them pass has survived. Nothing of this runs in `make test` but the tests of these
modules.
"""
