"""Search of groups of devices for modules."""
