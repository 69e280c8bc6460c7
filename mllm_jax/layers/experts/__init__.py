"""Mixture-of-experts blocks: the choice of experts, and products by groups of rows."""
