"""Measures a model on held-out rows, before and after training."""
