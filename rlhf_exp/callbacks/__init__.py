"""Callbacks that watch a training run."""
