"""Parts of training that act between steps: start, saves, guard, evaluation, replicas."""
