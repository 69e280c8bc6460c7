"""Self-checks of devices, links and machines, before training and on demand.

::

    products, bandwidth, links, machine  ->  Finding of every place  --gather-->  Health

Every process checks what it has, and all of them judge the findings of all.
"""
