"""How held-out preference pairs are scored (scores.py), and the figures of that (figures.py)."""
