"""The panels of the report, a small function for each; `order.py` lists them."""
