"""The cost model's constants, measured on the machine at hand."""
