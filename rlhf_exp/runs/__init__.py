"""The run folder: writing it, locking it, reading it back, resuming in it; nothing here imports torch."""
