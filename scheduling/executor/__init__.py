"""The executor: the only room of this floor that loads jax."""
