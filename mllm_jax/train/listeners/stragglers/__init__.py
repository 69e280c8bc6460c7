"""Slow processes and devices: found by comparing times during training, and named in the log.

::

    events of this process, probes -> Window (`timing.py`) --post--> process 0
        process 0: windows of all -> Judge (`judge.py`) -> log, ranks.jsonl, ranks.png (`heat.py`)

All processes of a step end it together, however slow one of them is. So what is compared is what a
process does by itself: reading, placing, what it does between two steps, and two probes of a fixed
amount of work, one for the host and one for every device. No process waits for the times of others.
"""
