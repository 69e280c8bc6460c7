"""Facts of a process' devices: their peak, and the memory that it may use."""
