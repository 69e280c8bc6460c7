"""The worked example of docs/extending/balancer.md."""
