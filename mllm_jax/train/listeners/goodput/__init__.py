"""What the time of this process goes into: logged after the first step, recorded, summed up.

Process 0 keeps a record in the folder of the run (`mllm_jax.supervise.attempts`), so that the
summary covers attempts that were killed.
"""
