"""Models: where they come from (source.py), loading, adapters, sampling and scoring."""
