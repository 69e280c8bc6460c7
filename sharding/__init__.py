"""The device grid and the view of each module: plans, meshes, parameter layouts, exchange."""
