"""Describes a task's data: lengths, splits, duplicates, odd rows, and whether the longer answer is preferred."""
