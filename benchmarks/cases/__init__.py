"""Cases of kernels and exchanges: what is computed, and what it must be equal to."""
