"""The run folder: writing, locking and reading it, and resuming a run in it; nothing here imports torch."""
