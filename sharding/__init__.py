"""One device grid, one view per module: plans, meshes, parameter layouts, exchange."""
