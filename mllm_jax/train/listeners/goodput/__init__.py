"""The time of this process by kind: logged after the first step, recorded, and summed up.

Process 0 keeps a record in the folder of the run (`mllm_jax.supervise.attempts`), so that the
summary covers attempts that were killed.
"""
