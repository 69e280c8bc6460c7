"""SigLIP (arXiv 2303.15343) and SigLIP 2 (arXiv 2502.14786)."""
